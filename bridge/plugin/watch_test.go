package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
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

func TestAllPodsAreWokenIfTooManyGotNoAnswer(t *testing.T) {
	s := newWatchStage(t)
	for index := range maxRememberedPods + 1 {
		s.unanswered.add(podUID(index))
	}
	s.status(true, true)
	s.watch.checkStatus(t.Context())
	checkTexts(t, s.cluster.taken(), "pod-1", "pod-2")
	s.watch.checkStatus(t.Context())
	checkTexts(t, s.cluster.taken())
}

func TestStatusNamesThePodsBetweenReserveAndBind(t *testing.T) {
	reserved := allocatortest.Reply{Body: protocol.ReserveReply{Reserved: true}}
	cases := map[string]struct {
		reserve allocatortest.Reply
		then    func(s *watchStage, pod *v1.Pod)
		held    []string
	}{
		"waits at Permit or in PreBind": {reserved, func(*watchStage, *v1.Pod) {}, []string{"pod-1"}},
		"not reserved":                  {allocatortest.Reply{Body: protocol.ReserveReply{}}, func(*watchStage, *v1.Pod) {}, nil},
		"given back": {reserved, func(s *watchStage, pod *v1.Pod) {
			s.Unreserve(t.Context(), s.state, pod, "n1")
		}, nil},
		"given back without an answer": {reserved, func(s *watchStage, pod *v1.Pod) {
			s.allocator.stop(errors.New("not ready"))
			s.Unreserve(t.Context(), s.state, pod, "n1")
		}, nil},
		"being bound": {reserved, func(s *watchStage, pod *v1.Pod) {
			s.Bind(t.Context(), s.state, pod, "n1")
		}, nil},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s, pod := newWatchStage(t), podWith("a")
			s.fits(true, "n1")
			s.preFilter(t, pod)
			s.server.Reply("/v1/reserve", each.reserve)
			s.Reserve(t.Context(), s.state, pod, "n1")
			each.then(s, pod)
			s.server.Take()
			for range 2 { // again and again, until it changes
				s.status(true, true)
				s.watch.checkStatus(t.Context())
				var request protocol.StatusRequest
				if err := json.Unmarshal(s.server.Take()[0].Body, &request); err != nil {
					t.Fatal(err)
				}
				checkTexts(t, request.HeldPods, each.held...)
			}
		})
	}
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

func TestASchedulerEndsBesideAnAllocatorOfAnotherVersion(t *testing.T) {
	refusal := map[string]any{"error": protocol.Error{Code: protocol.CodeVersion, Message: "use one release"}}
	ready := protocol.Status{Ready: true, Leading: true}
	cases := map[string]struct {
		reply allocatortest.Reply
		ends  int
	}{
		"refused by the allocator": {allocatortest.Reply{Status: 426, Body: refusal}, 1},
		"refused by the plugin":    {allocatortest.Reply{Version: "1.1", Body: ready}, 1},
		"the release before":       {allocatortest.Reply{Version: "1.2", Body: ready}, 0},
		"an allocator not ready":   {allocatortest.Reply{Body: protocol.Status{}}, 0},
		"a bug in the allocator":   {allocatortest.Reply{Status: 500, Body: "no JSON object"}, 0},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newWatchStage(t) // it does not lead
			s.server.Reply("/v1/status", each.reply)
			s.watch.checkStatus(t.Context())
			if len(s.ended) != each.ends {
				t.Errorf("ended %v", s.ended)
			}
		})
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
