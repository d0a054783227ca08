package plugin

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

type watchStage struct {
	*stage
	watch *watch
	ended []string
}

func newWatchStage(t *testing.T) *watchStage {
	t.Helper()
	s := &watchStage{stage: newStage(t, claim("a", ""))}
	for _, uid := range []types.UID{"pod-1", "pod-2"} {
		pod := podWith("a")
		pod.UID = uid
		s.cluster.pods = append(s.cluster.pods, pod)
	}
	s.watch = &watch{plugin: s.Plugin, clock: s.clock, lastReady: s.clock.Now()}
	s.watch.end = func(_ context.Context, reason string) { s.ended = append(s.ended, reason) }
	return s
}

func (s *watchStage) status(ready, leading bool, reasons ...string) {
	s.server.Reply("/v1/status", allocatortest.Reply{Body: protocol.Status{Ready: ready, Leading: leading, Reasons: reasons}})
}

func TestTheAllocatorWakesPods(t *testing.T) {
	s := newWatchStage(t)
	s.watch.wake(protocol.Event{Activate: []string{"pod-2", "pod-9"}})
	checkTexts(t, s.cluster.taken(), "pod-2")
	s.watch.wake(protocol.Event{ActivateAll: true})
	checkTexts(t, s.cluster.taken(), "pod-1", "pod-2")
	s.watch.wake(protocol.Event{})
	checkTexts(t, s.cluster.taken())
}

func TestPodsThatGotNoAnswerAreWokenWhenTheAllocatorIsReady(t *testing.T) {
	s := newWatchStage(t)
	s.status(false, false, "resourceslices are not synced")
	s.watch.checkStatus(t.Context())
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, s.paths(), "/v1/status") // the pod costs no call
	checkTexts(t, s.cluster.taken())

	s.status(true, true)
	s.fits(true, "n1")
	s.watch.checkStatus(t.Context())
	checkTexts(t, s.cluster.taken(), "pod-1")
	_, status = s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.Success)
	s.watch.checkStatus(t.Context())
	checkTexts(t, s.cluster.taken())
}

func TestNoCallIsTriedBetweenTwoStatusCallsWithoutAnAnswer(t *testing.T) {
	s := newWatchStage(t)
	s.watch.checkStatus(t.Context())
	s.paths()
	s.clock.Step(2 * statusInterval) // the next call begins after one interval and takes another one
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, s.paths())
}

func TestAConnectedStreamEndsThePause(t *testing.T) {
	s := newWatchStage(t)
	s.watch.checkStatus(t.Context()) // the allocator has no status: 404
	s.fits(true, "n1")
	s.watch.wake(protocol.Event{ActivateAll: true})
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.Success)
}

func TestALeaderWithoutAnAllocatorEnds(t *testing.T) {
	steps := []struct {
		name           string
		leads          bool
		ready, leading bool
		after          time.Duration
		ends           int
	}{
		{"does not lead", false, false, false, time.Hour, 0},
		{"leads since now", true, false, false, 0, 0},
		{"not ready for 29 s", true, false, false, 29 * time.Second, 0},
		{"ready again", true, true, true, 0, 0},
		{"ready and not leading for 29 s", true, true, false, 29 * time.Second, 0},
		{"for 30 s", true, true, false, time.Second, 1},
	}
	s := newWatchStage(t)
	for _, step := range steps {
		s.leads.Store(step.leads)
		s.status(step.ready, step.leading)
		s.clock.Step(step.after)
		s.watch.checkStatus(t.Context())
		if len(s.ended) != step.ends {
			t.Fatalf("%s: ended %v", step.name, s.ended)
		}
	}
}

func TestTheFirstPodShowsThatTheSchedulerLeads(t *testing.T) {
	s := newStage(t)
	if s.leads.Load() {
		t.Error("leads before a pod is scheduled")
	}
	s.preFilter(t, podWith())
	if !s.leads.Load() {
		t.Error("does not lead")
	}
}

func TestEventsAndStatusAreFollowedUntilTheSchedulerEnds(t *testing.T) {
	s := newWatchStage(t)
	s.server.Reply("/v1/events", allocatortest.Reply{Body: protocol.Event{ActivateAll: true}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		s.watch.followEvents(ctx)
		s.watch.followStatus(ctx)
		close(ended)
	}()
	for len(s.cluster.taken()) == 0 {
		s.clock.Step(reconnectDelay) // also past the delays between connections
	}
	cancel()
	<-ended
}
