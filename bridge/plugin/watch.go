package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"drawbridge.dev/bridge/protocol"
)

// watch follows the allocator: which pods it wakes, and whether it is ready.
type watch struct {
	plugin *Plugin
	clock  clock.WithTicker
	// end ends the scheduler, so that another one leads.
	end func(ctx context.Context, reason string)
	// lastReady is when the allocator was last ready, or when this scheduler began to lead.
	lastReady time.Time
}

// followEvents activates the pods that the allocator names, until the context is done.
func (w *watch) followEvents(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for ctx.Err() == nil {
		err := w.plugin.allocator.client.Events(ctx, w.wake)
		logger.V(2).Info("The event stream of the allocator ended", "reason", err)
		select {
		case <-ctx.Done():
		case <-w.clock.After(reconnectDelay):
		}
	}
}

func (w *watch) wake(event protocol.Event) {
	cluster := w.plugin.cluster
	if event.ActivateAll {
		w.plugin.allocator.resume()
		cluster.activate(cluster.waiting())
		return
	}
	cluster.activate(cluster.waitingWith(event.Activate))
}

// followStatus asks each second whether the allocator is ready, and renews reservations, until the
// context is done.
func (w *watch) followStatus(ctx context.Context) {
	ticker := w.clock.NewTicker(statusInterval)
	defer ticker.Stop()
	w.lastReady = w.clock.Now()
	for {
		w.checkStatus(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (w *watch) checkStatus(ctx context.Context) {
	problem := w.askStatus(ctx)
	if problem == nil {
		w.lastReady = w.clock.Now()
		w.plugin.allocator.resume()
		cluster := w.plugin.cluster
		if uids, complete := w.plugin.unanswered.take(); complete {
			cluster.activate(cluster.waitingWith(uids))
		} else {
			cluster.activate(cluster.waiting())
		}
		return
	}
	w.plugin.allocator.stop(problem)
	if protocol.IsVersion(problem) {
		// Neither version changes while both run. A scheduler that ends cannot lead, and its pod is
		// not ready, whatever the allocator says of itself.
		w.end(ctx, problem.Error())
		return
	}
	if !w.plugin.leads.Load() {
		w.lastReady = w.clock.Now()
		return
	}
	if silent := w.clock.Since(w.lastReady); silent >= w.plugin.args.NotReadyLimit.Duration {
		w.lastReady = w.clock.Now()
		w.end(ctx, fmt.Sprintf("the allocator is not ready for %s: %v", silent.Round(time.Second), problem))
	}
}

// askStatus returns why the allocator serves no pod, or nil.
func (w *watch) askStatus(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusInterval)
	defer cancel()
	request := protocol.StatusRequest{HeldPods: w.plugin.held.list()}
	status, err := w.plugin.allocator.client.Status(ctx, request)
	switch {
	case err != nil:
		return err
	case status.Ready && status.Leading:
		return nil
	case len(status.Reasons) > 0:
		return errors.New(strings.Join(status.Reasons, "; "))
	case status.Ready:
		return errors.New("it does not lead")
	}
	return errors.New("it is not ready")
}

// endProcess has the scheduler release its lease if it has it, so that another one leads at once.
func endProcess(ctx context.Context, reason string) {
	logger := klog.FromContext(ctx)
	logger.Error(nil, "The scheduler ends, so that another one can lead", "reason", reason)
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(releaseTimeout):
		}
	}
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
}
