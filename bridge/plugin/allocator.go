package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"drawbridge.dev/bridge/protocol"
)

// unavailableError says that the allocator answers nobody at the moment.
type unavailableError struct {
	cause error
}

func (e *unavailableError) Error() string {
	return fmt.Sprintf("allocator not reachable: %v; the pod is tried again when it answers", e.cause)
}

// allocator calls the allocator with a time limit. After a call without an answer it fails at once
// for a while, because the scheduling cycle is serial and each time-out delays every pod.
type allocator struct {
	client *protocol.Client
	clock  clock.PassiveClock

	mu     sync.Mutex
	until  time.Time
	reason error
	// late counts the calls in a row that had no answer in time.
	late int
}

func (a *allocator) preFilter(ctx context.Context, request *protocol.PreFilterRequest) (reply *protocol.PreFilterReply, err error) {
	err = a.call(ctx, a.limit(), func(ctx context.Context) (err error) {
		reply, err = a.client.PreFilter(ctx, request)
		return err
	})
	return reply, err
}

func (a *allocator) preFilterGroup(ctx context.Context, request *protocol.PreFilterGroupRequest) (reply *protocol.PreFilterReply, err error) {
	err = a.call(ctx, max(groupTimeout, a.limit()), func(ctx context.Context) (err error) {
		reply, err = a.client.PreFilterGroup(ctx, request)
		return err
	})
	return reply, err
}

func (a *allocator) reserve(ctx context.Context, request protocol.PodOnNode) (reply *protocol.ReserveReply, err error) {
	err = a.call(ctx, a.limit(), func(ctx context.Context) (err error) {
		reply, err = a.client.Reserve(ctx, request)
		return err
	})
	return reply, err
}

func (a *allocator) unreserve(ctx context.Context, request protocol.UnreserveRequest) error {
	return a.call(ctx, a.limit(), func(ctx context.Context) error {
		return a.client.Unreserve(ctx, request)
	})
}

// bind waits for the writes of one pod in a goroutine of its own, so that it says nothing about other calls.
func (a *allocator) bind(ctx context.Context, request protocol.PodOnNode) (*protocol.BindReply, error) {
	ctx, cancel := context.WithTimeout(ctx, bindTimeout)
	defer cancel()
	return a.client.Bind(ctx, request)
}

func (a *allocator) postFilter(ctx context.Context, request protocol.PodReference) (reply *protocol.PostFilterReply, err error) {
	err = a.call(ctx, a.limit(), func(ctx context.Context) (err error) {
		reply, err = a.client.PostFilter(ctx, request)
		return err
	})
	return reply, err
}

func (a *allocator) preempt(ctx context.Context, request *protocol.PreemptRequest) (reply *protocol.PreemptReply, err error) {
	err = a.call(ctx, max(preemptTimeout, a.limit()), func(ctx context.Context) (err error) {
		reply, err = a.client.Preempt(ctx, request)
		return err
	})
	return reply, err
}

func (a *allocator) call(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	if reason := a.pausedBecause(); reason != nil {
		return &unavailableError{cause: reason}
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := try(limited)
	a.note(err)
	if err == nil || protocol.IsPermanent(err) || protocol.IsBug(err) {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx) // the scheduler gave the pod up; the allocator is not to blame
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %s", limit)
	}
	a.stop(err)
	return &unavailableError{cause: err}
}

// limit grows while answers are late: an allocator that is slow for a while, for example because
// its caches are new, must not be asked for ever without an answer.
func (a *allocator) limit() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return callTimeout << min(a.late, maxDoublings)
}

func (a *allocator) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		a.late++
	} else {
		a.late = 0
	}
}

func (a *allocator) pausedBecause() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.clock.Now().Before(a.until) {
		return a.reason
	}
	return nil
}

// stop lets calls fail at once for a while.
func (a *allocator) stop(reason error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until, a.reason = a.clock.Now().Add(pause), reason
}

// resume allows calls again.
func (a *allocator) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Time{}
}
