package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

func failing(code string, status int) allocatortest.Reply {
	return allocatortest.Reply{Status: status, Body: map[string]any{"error": map[string]string{"code": code, "message": "the reason"}}}
}

// preFilter runs PreFilter and returns the nodes that are left.
func (s *stage) preFilter(t *testing.T, pod *v1.Pod, nodes ...fwk.NodeInfo) ([]string, *fwk.Status) {
	t.Helper()
	result, status := s.PreFilter(t.Context(), s.state, pod, nodes)
	if result.AllNodes() {
		return nil, status
	}
	names := result.NodeNames.UnsortedList()
	slices.Sort(names)
	return names, status
}

func TestAPodWithoutClaimsNeverReachesTheAllocator(t *testing.T) {
	s := newStage(t)
	pod := podWith()
	_, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.Skip)
	checkCode(t, s.Filter(t.Context(), s.state, pod, node("a", nil)), fwk.Success)
	checkCode(t, s.PreScore(t.Context(), s.state, pod, nil), fwk.Skip)
	checkCode(t, s.Reserve(t.Context(), s.state, pod, "a"), fwk.Success)
	s.Unreserve(t.Context(), s.state, pod, "a")
	checkCode(t, s.Bind(t.Context(), s.state, pod, "a"), fwk.Skip)
	_, status = s.PostFilter(t.Context(), s.state, pod, nil)
	checkCode(t, status, fwk.Unschedulable)
	checkTexts(t, s.paths())
}

func TestOnlyNodesThatTheAllocatorNamesAreLeft(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "n1", "n2")
	pod := podWith("a")
	names, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.Success)
	checkTexts(t, names, "n1", "n2")
	checkCode(t, s.Filter(t.Context(), s.state, pod, node("n1", nil)), fwk.Success)
	checkCode(t, s.Filter(t.Context(), s.state, pod, node("n3", nil)), fwk.Unschedulable)
	checkCode(t, s.PreScore(t.Context(), s.state, pod, nil), fwk.Success)
	score, _ := s.Score(t.Context(), s.state, pod, node("n2", nil))
	if score != 70 {
		t.Errorf("got score %d", score)
	}
}

func TestScoresStayInTheScaleOfTheScheduler(t *testing.T) {
	s := newStage(t, claim("a", ""))
	fit := []protocol.NodeScore{{Node: "low", Score: -1}, {Node: "high", Score: 101}}
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: protocol.PreFilterReply{Fit: fit}})
	s.preFilter(t, podWith("a"))
	low, _ := s.Score(t.Context(), s.state, podWith("a"), node("low", nil))
	high, _ := s.Score(t.Context(), s.state, podWith("a"), node("high", nil))
	if low != 0 || high != 100 {
		t.Errorf("got %d and %d", low, high)
	}
}

func TestThePodAndItsClaimsAreSent(t *testing.T) {
	managed := claim("b", "")
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	s := newStage(t, claim("a", ""), managed)
	s.fits(true, "n1")
	pod := podWith("b", "a")
	priority := int32(7)
	pod.Spec.Priority = &priority
	pod.Spec.NodeSelector = map[string]string{"zone": "a"}
	pod.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}}
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}}
	s.preFilter(t, pod)
	var sent protocol.PreFilterRequest
	if err := json.Unmarshal(s.server.Take()[0].Body, &sent); err != nil {
		t.Fatal(err)
	}
	got := sent.Pod
	if got.Name != "pod-1" || got.Namespace != "default" || got.UID != "pod-1" || got.Priority != 7 ||
		got.NodeSelector["zone"] != "a" || len(got.Tolerations) != 1 || got.NodeAffinity == nil || sent.MaxNodes != 20 {
		t.Errorf("got %+v", sent)
	}
	checkTexts(t, []string{sent.Claims[0].Name, sent.Claims[1].Name}, "b", "a")
	if sent.Claims[0].ManagedFields != nil || managed.ManagedFields == nil {
		t.Error("managedFields are sent, or the scheduler's own object changed")
	}
}

func TestAPodThatFitsNowhereGetsTheReason(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true)
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, []string{status.Message()}, "no node fits")
}

func TestAReplyWithoutCompleteNamesEveryNode(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: map[string]any{"fit": []map[string]string{{"node": "n1"}}}})
	s.preFilter(t, podWith("a"))
	_, status := s.PostFilter(t.Context(), s.state, podWith("a"), nil)
	checkCode(t, status, fwk.Unschedulable)
	checkTexts(t, s.cluster.taken())
}

func TestEveryNodeIsTriedAfterOthersRejectedTheShortList(t *testing.T) {
	s := newStage(t, claim("a", ""))
	pod := podWith("a")
	limits := make([]int, 0, 3)
	attempt := func(complete bool) {
		s.fits(complete, "n1")
		s.preFilter(t, pod)
		var sent protocol.PreFilterRequest
		if err := json.Unmarshal(s.server.Take()[0].Body, &sent); err != nil {
			t.Fatal(err)
		}
		limits = append(limits, sent.MaxNodes)
	}
	attempt(false)
	_, status := s.PostFilter(t.Context(), s.state, pod, nil)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable) // no victim yet
	checkTexts(t, s.cluster.taken(), "pod-1")

	attempt(true)
	_, status = s.PostFilter(t.Context(), s.state, pod, nil)
	checkCode(t, status, fwk.Unschedulable) // now preemption may look for victims
	checkTexts(t, s.cluster.taken())

	s.server.Reply("/v1/reserve", allocatortest.Reply{Body: protocol.ReserveReply{Reserved: true}})
	checkCode(t, s.Reserve(t.Context(), s.state, pod, "n1"), fwk.Success)
	s.paths()
	attempt(true)
	if !slices.Equal(limits, []int{20, 0, 20}) {
		t.Errorf("got %v", limits)
	}
}

func TestAReservationThatFailsHasThePodTriedAgain(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "n1")
	s.preFilter(t, podWith("a"))
	s.server.Reply("/v1/reserve", allocatortest.Reply{Body: protocol.ReserveReply{Message: "gone"}})
	status := s.Reserve(t.Context(), s.state, podWith("a"), "n1")
	checkCode(t, status, fwk.Unschedulable)
	checkTexts(t, append(s.cluster.taken(), status.Message()), "pod-1", "gone")
}

func TestUnreserveTakesTheReservationBack(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "n1")
	s.preFilter(t, podWith("a"))
	s.server.Reply("/v1/unreserve", allocatortest.Reply{Body: struct{}{}})
	s.Unreserve(t.Context(), s.state, podWith("a"), "n1")
	checkTexts(t, s.paths(), "/v1/prefilter", "/v1/unreserve")
}

func TestBindAnswersForTheAllocator(t *testing.T) {
	cases := map[string]struct {
		reply allocatortest.Reply
		code  fwk.Code
	}{
		"bound":       {allocatortest.Reply{Body: protocol.BindReply{Bound: true}}, fwk.Success},
		"not bound":   {allocatortest.Reply{Body: protocol.BindReply{Message: "a conflict"}}, fwk.Error},
		"not leading": {failing("NotLeading", http.StatusConflict), fwk.Error},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, claim("a", ""))
			s.server.Reply("/v1/bind", each.reply)
			checkCode(t, s.Bind(t.Context(), s.state, podWith("a"), "n1"), each.code)
		})
	}
}

func TestNoOtherPluginBindsAPodWhoseClaimIsNotKnown(t *testing.T) {
	s := newStage(t)
	checkCode(t, s.Bind(t.Context(), s.state, podFromTemplate(""), "n1"), fwk.Error)
	checkTexts(t, s.paths())
}

func TestAnAllocationOnAnUnusableNodeIsTakenBack(t *testing.T) {
	cases := map[string]struct {
		claim *resourceapi.ResourceClaim
		reply protocol.PostFilterReply
		code  fwk.Code
		paths []string
	}{
		"taken back":    {allocatedClaim("a"), protocol.PostFilterReply{Released: []string{"default/a"}}, fwk.UnschedulableAndUnresolvable, []string{"/v1/postfilter"}},
		"kept":          {allocatedClaim("a"), protocol.PostFilterReply{}, fwk.Unschedulable, []string{"/v1/postfilter"}},
		"not allocated": {claim("a", ""), protocol.PostFilterReply{}, fwk.Unschedulable, nil},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, each.claim)
			s.fits(true, "n1")
			s.preFilter(t, podWith("a"))
			s.paths()
			s.server.Reply("/v1/postfilter", allocatortest.Reply{Body: each.reply})
			_, status := s.PostFilter(t.Context(), s.state, podWith("a"), nil)
			checkCode(t, status, each.code)
			checkTexts(t, s.paths(), each.paths...)
		})
	}
}

func TestAPodWhoseAllocationNobodyTakesBackIsTriedAgain(t *testing.T) {
	cases := map[string]struct {
		reply allocatortest.Reply
		code  fwk.Code
		later []string // when the allocator answers
		soon  []string // after the back-off
	}{
		"not ready": {failing("NotReady", http.StatusServiceUnavailable), fwk.UnschedulableAndUnresolvable, []string{"pod-1"}, nil},
		"a bug":     {failing("Bug", http.StatusInternalServerError), fwk.Error, nil, []string{"pod-1"}},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, allocatedClaim("a"))
			s.fits(true, "n1")
			s.preFilter(t, podWith("a"))
			s.server.Reply("/v1/postfilter", each.reply)
			_, status := s.PostFilter(t.Context(), s.state, podWith("a"), nil)
			checkCode(t, status, each.code)
			checkTexts(t, s.unanswered.list(), each.later...)
			checkTexts(t, s.cluster.taken(), each.soon...)
		})
	}
}

func TestFailuresOfTheAllocatorAreToldApart(t *testing.T) {
	cases := map[string]struct {
		reply allocatortest.Reply
		code  fwk.Code
		again int // calls of a second attempt
	}{
		"not leading":   {failing("NotLeading", http.StatusConflict), fwk.UnschedulableAndUnresolvable, 0},
		"not ready":     {failing("NotReady", http.StatusServiceUnavailable), fwk.UnschedulableAndUnresolvable, 0},
		"other version": {allocatortest.Reply{Version: "2.0", Body: struct{}{}}, fwk.UnschedulableAndUnresolvable, 0},
		"too large":     {failing("TooLarge", http.StatusRequestEntityTooLarge), fwk.UnschedulableAndUnresolvable, 1},
		"a bug":         {failing("Bug", http.StatusInternalServerError), fwk.Error, 1},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, claim("a", ""))
			s.server.Reply("/v1/prefilter", each.reply)
			for range 2 {
				_, status := s.preFilter(t, podWith("a"))
				checkCode(t, status, each.code)
			}
			if calls := len(s.paths()); calls != 1+each.again {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

func TestABindWithoutAnAnswerStopsNoOtherCall(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "n1")
	for _, reply := range []allocatortest.Reply{failing("NotReady", http.StatusServiceUnavailable), {Status: http.StatusTeapot}} {
		s.server.Reply("/v1/bind", reply)
		checkCode(t, s.Bind(t.Context(), s.state, podWith("a"), "n1"), fwk.Error)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	checkCode(t, s.Bind(late, s.state, podWith("a"), "n1"), fwk.Error)
	if s.allocator.limit() != callTimeout {
		t.Error("other calls get another limit")
	}
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.Success)
}

func TestABindIsSentWhileOtherCallsPause(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.server.Reply("/v1/bind", allocatortest.Reply{Body: protocol.BindReply{Bound: true}})
	s.allocator.stop(errors.New("an answer is late"))
	checkCode(t, s.Bind(t.Context(), s.state, podWith("a"), "n1"), fwk.Success)
}

func TestCallsAreTriedAgainAfterAPause(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.server.Reply("/v1/prefilter", failing("NotReady", http.StatusServiceUnavailable))
	s.preFilter(t, podWith("a"))
	s.fits(true, "n1")
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	s.clock.Step(pause)
	_, status = s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.Success)
}

func TestTheTimeLimitGrowsWhileAnswersAreLate(t *testing.T) {
	late := context.DeadlineExceeded
	steps := []struct {
		err   error
		limit time.Duration
	}{
		{nil, callTimeout}, {late, 2 * callTimeout}, {late, 4 * callTimeout}, {late, 8 * callTimeout},
		{late, 8 * callTimeout}, {errors.New("refused"), callTimeout}, {late, 2 * callTimeout}, {nil, callTimeout},
	}
	s := newStage(t)
	for index, step := range steps {
		s.allocator.note(step.err)
		if limit := s.allocator.limit(); limit != step.limit {
			t.Errorf("step %d: %s", index, limit)
		}
	}
}

func TestAPodThatTheSchedulerGivesUpBlamesNobody(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "n1")
	gone := errors.New("the pod is gone")
	ctx, cancel := contextWithCause(t)
	cancel(gone)
	_, status := s.PreFilter(ctx, s.state, podWith("a"), nil)
	if !errors.Is(status.AsError(), gone) {
		t.Errorf("got %v", status.AsError())
	}
	_, status = s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.Success)
}

func podRequesting(name string) *v1.Pod {
	pod := podWith()
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceName(name): resource.MustParse("1"), "cpu": resource.MustParse("1")},
	}}}
	return pod
}

func TestAMappedExtendedResourceNeedsADevicePlugin(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	mapped := gpu
	class := &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &mapped}}
	plugin := node("plugin", v1.ResourceList{gpu: resource.MustParse("8")})
	driver := node("driver", v1.ResourceList{gpu: resource.MustParse("0")})
	cases := map[string]struct {
		name   string
		nodes  []fwk.NodeInfo
		code   fwk.Code
		left   []string
		remedy string
	}{
		"no plugin serves it":       {gpu, []fwk.NodeInfo{driver}, fwk.UnschedulableAndUnresolvable, nil, "drawbridge.dev/translate=enforce"},
		"a plugin serves it":        {gpu, []fwk.NodeInfo{driver, plugin}, fwk.Success, []string{"plugin"}, ""},
		"the implicit name":         {"deviceclass.resource.kubernetes.io/gpu", []fwk.NodeInfo{plugin}, fwk.UnschedulableAndUnresolvable, nil, "by a ResourceClaim"},
		"a name that no class maps": {"example.com/fpga", []fwk.NodeInfo{driver}, fwk.Skip, nil, ""},
		"no extended resource":      {"memory", []fwk.NodeInfo{driver}, fwk.Skip, nil, ""},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cluster.mapping = []*resourceapi.DeviceClass{{}, class}
			left, status := s.preFilter(t, podRequesting(each.name), each.nodes...)
			checkCode(t, status, each.code)
			checkTexts(t, left, each.left...)
			if !strings.Contains(status.Message(), each.remedy) {
				t.Errorf("no remedy %q in %q", each.remedy, status.Message())
			}
		})
	}
}

// The scheduler runs only Filter for a nominated node, and preemption on a copy of the state.
func TestAMappedExtendedResourceIsServedOnTheNominatedNode(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	mapped := gpu
	plugin := node("plugin", v1.ResourceList{gpu: resource.MustParse("8")})
	driver := node("driver", v1.ResourceList{gpu: resource.MustParse("0")})
	for name, claims := range map[string][]string{"without claims": nil, "with a claim": {"a"}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, claim("a", ""))
			s.cluster.mapping = []*resourceapi.DeviceClass{{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &mapped}}}
			s.fits(true, "driver", "plugin")
			pod := podRequesting(gpu)
			pod.Spec.ResourceClaims = podWith(claims...).Spec.ResourceClaims
			left, _ := s.preFilter(t, pod, driver, plugin)
			checkTexts(t, left, "plugin")
			for _, state := range []fwk.CycleState{s.state, newDryRun(nil, s.state, pod, driver).state} {
				checkCode(t, s.Filter(t.Context(), state, pod, driver), fwk.UnschedulableAndUnresolvable)
				checkCode(t, s.Filter(t.Context(), state, pod, plugin), fwk.Success)
			}
		})
	}
}

func TestPodsWithClaimsAreNotSigned(t *testing.T) {
	s := newStage(t)
	_, status := s.SignPod(t.Context(), podWith("a"))
	checkCode(t, status, fwk.Unschedulable)
	_, status = s.SignPod(t.Context(), podWith())
	checkCode(t, status, fwk.Success)
}

func TestTheSetOfPodsIsBounded(t *testing.T) {
	set := newPodSet()
	for index := range maxRememberedPods + 1 {
		set.add(podUID(index))
	}
	if left, complete := set.take(); len(left) > maxRememberedPods || complete {
		t.Errorf("%d pods, complete %v", len(left), complete)
	}
	if _, complete := set.take(); !complete {
		t.Error("a set that was taken is not complete")
	}
	if set.has(podUID(maxRememberedPods)) {
		t.Error("a pod that was taken is remembered")
	}
}

func (s *stage) reserves(node string, nodes ...string) {
	var fit []protocol.NodeScore
	for _, name := range nodes {
		fit = append(fit, protocol.NodeScore{Node: name})
	}
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: protocol.PreFilterReply{Fit: fit, ReservedOn: node}})
}

func TestAPodIsReservedWithoutACallWhereItIsReservedAlready(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.reserves("n1", "n1", "n2")
	pod := podWith("a")
	s.preFilter(t, pod)
	checkCode(t, s.Reserve(t.Context(), s.state, pod, "n1"), fwk.Success)
	checkTexts(t, s.paths(), "/v1/prefilter")
	checkTexts(t, s.held.list(), "pod-1")
}

func TestAPodIsReservedWithACallOnAnotherNode(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.reserves("n1", "n1", "n2")
	s.server.Reply("/v1/reserve", allocatortest.Reply{Body: protocol.ReserveReply{Reserved: true}})
	pod := podWith("a")
	s.preFilter(t, pod)
	checkCode(t, s.Reserve(t.Context(), s.state, pod, "n2"), fwk.Success)
	checkTexts(t, s.paths(), "/v1/prefilter", "/v1/reserve")
}

func TestWhatIsReservedIsGivenBackForAPodThatNoNodeSuits(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.reserves("n1", "n1")
	pod := podWith("a")
	s.preFilter(t, pod)
	s.PostFilter(t.Context(), s.state, pod, nil)
	checkTexts(t, s.paths(), "/v1/prefilter", "/v1/unreserve")
}

func TestOnlyPodsAloneAskForAReservation(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "n1")
	alone, member := podWith("a"), podWith("a")
	member.Labels = map[string]string{coschedulingLabel: "g"}
	for pod, want := range map[*v1.Pod]bool{alone: true, member: false} {
		s.preFilter(t, pod)
		var sent protocol.PreFilterRequest
		if err := json.Unmarshal(s.server.Take()[0].Body, &sent); err != nil {
			t.Fatal(err)
		}
		if sent.Reserve != want {
			t.Errorf("got %v for the group %q", sent.Reserve, groupOf(pod))
		}
	}
}
