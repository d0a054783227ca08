package plugin

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

func podWithLabels(labels map[string]string) *v1.Pod {
	pod := podWith("a")
	pod.Labels = labels
	return pod
}

func TestTheGroupOfAPod(t *testing.T) {
	for name, each := range map[string]struct {
		labels map[string]string
		group  string
		count  int
	}{
		"a pod alone":  {nil, "", 0},
		"coscheduling": {map[string]string{coschedulingLabel: "g"}, "default/scheduling.x-k8s.io/pod-group=g", 0},
		"with a size": {
			map[string]string{coschedulingLabel: "g", minAvailableLabel: "8"}, "default/scheduling.x-k8s.io/pod-group=g", 8,
		},
		"a size that is no number": {
			map[string]string{coschedulingLabel: "g", minAvailableLabel: "all"}, "default/scheduling.x-k8s.io/pod-group=g", 0,
		},
		"a negative size": {
			map[string]string{coschedulingLabel: "g", minAvailableLabel: "-1"}, "default/scheduling.x-k8s.io/pod-group=g", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			pod := podWithLabels(each.labels)
			count, err := s.minCount(pod)
			if group := groupOf(pod); group != each.group || count != each.count || err != nil {
				t.Errorf("got %s, %d, %v", group, count, err)
			}
		})
	}
}

func TestGroupsOfTwoNamespacesAreNotOne(t *testing.T) {
	pod, other := podWithLabels(map[string]string{coschedulingLabel: "g"}), podWithLabels(map[string]string{coschedulingLabel: "g"})
	other.Namespace = "other"
	if groupOf(pod) == groupOf(other) {
		t.Errorf("both are in %s", groupOf(pod))
	}
}

// gangOf returns a pod and another one of its group, as the cluster has them.
func gangOf(s *stage) (one, other *v1.Pod) {
	one = podWithLabels(map[string]string{coschedulingLabel: "g"})
	other = one.DeepCopy()
	other.Name, other.UID = "pod-2", "pod-2"
	s.cluster.pods = []*v1.Pod{one, other}
	return one, other
}

func TestAMemberOfAGroupEvictsNobodyForItselfAlone(t *testing.T) {
	s := newStage(t, claim("a", ""))
	reply := protocol.PreFilterReply{Complete: true, Preemptible: true, Message: "no node fits"}
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: reply})
	pod, _ := gangOf(s)
	_, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.Unschedulable)
	_, status = s.PostFilter(t.Context(), s.state, pod, nil)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, s.paths(), "/v1/prefilter")
}

func TestAllMembersThatWaitAreSentIfTheAllocatorAsksForThem(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: protocol.PreFilterReply{MembersNeeded: true}})
	s.server.Reply("/v1/prefilterGroup", allocatortest.Reply{Body: protocol.PreFilterReply{
		Complete: true, Fit: []protocol.NodeScore{{Node: "n1"}},
	}})
	pod, other := gangOf(s)
	held, bound, gone, gated, ended := other.DeepCopy(), other.DeepCopy(), other.DeepCopy(), other.DeepCopy(), other.DeepCopy()
	held.UID, bound.UID, gone.UID, gated.UID, ended.UID = "held", "bound", "gone", "gated", "ended"
	s.held.add("held")
	bound.Spec.NodeName = "n1"
	gone.DeletionTimestamp = &metav1.Time{}
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "later"}}
	ended.Status.Phase = v1.PodFailed
	s.cluster.pods = append(s.cluster.pods, held, bound, gone, gated, ended)
	names, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.Success)
	checkTexts(t, names, "n1")
	sent := s.server.Take()
	var request protocol.PreFilterGroupRequest
	if err := json.Unmarshal(sent[1].Body, &request); err != nil {
		t.Fatal(err)
	}
	var members []string
	for _, member := range request.Members {
		members = append(members, member.Pod.UID)
	}
	checkTexts(t, members, "pod-1", "pod-2")
	if request.Group.Scheduled != 2 || request.PodUID != "pod-1" || len(request.Members[1].Claims) != 1 {
		t.Errorf("got %+v", request)
	}
}

func TestAsManyMembersAreSentAsMustRun(t *testing.T) {
	for minimum, want := range map[int]int{2: maxMembers, maxMembers + 3: maxMembers + 2} { // one is held
		s := newStage(t, claim("a", ""))
		s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: protocol.PreFilterReply{MembersNeeded: true}})
		s.server.Reply("/v1/prefilterGroup", allocatortest.Reply{Body: protocol.PreFilterReply{}})
		pod, other := gangOf(s)
		pod.Labels[minAvailableLabel] = strconv.Itoa(minimum)
		s.held.add(other.UID)
		for number := range maxMembers + 1 {
			another := other.DeepCopy()
			another.UID = podUID(number)
			s.cluster.pods = append(s.cluster.pods, another)
		}
		s.preFilter(t, pod)
		var request protocol.PreFilterGroupRequest
		if err := json.Unmarshal(s.server.Take()[1].Body, &request); err != nil || len(request.Members) != want {
			t.Errorf("minimum %d: got %d members, %v", minimum, len(request.Members), err)
		}
	}
}

const largeMembers = 20

// largeGang returns a gang whose claims are too large for one request. Each of them is sent in a short time.
func largeGang(s *stage, reply protocol.PreFilterReply) *v1.Pod {
	pod, other := gangOf(s)
	for number := range largeMembers - 2 {
		another := other.DeepCopy()
		another.UID = podUID(number)
		s.cluster.pods = append(s.cluster.pods, another)
	}
	large := s.cluster.existing["default/a"]
	large.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "pod-1"}}
	large.ResourceVersion, large.Annotations = "7", map[string]string{"large": strings.Repeat("x", protocol.MaxMessageBytes/largeMembers)}
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: reply})
	return pod
}

func TestTheMetadataOfClaimsIsSentIfTheyAreTooLarge(t *testing.T) {
	s := newStage(t, claim("a", ""))
	pod := largeGang(s, protocol.PreFilterReply{MembersNeeded: true, PartialClaims: true})
	s.server.Reply("/v1/prefilterGroup", allocatortest.Reply{Body: protocol.PreFilterReply{
		Complete: true, Fit: []protocol.NodeScore{{Node: "n1"}},
	}})
	names, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.Success)
	checkTexts(t, names, "n1")
	var request protocol.PreFilterGroupRequest
	if err := json.Unmarshal(s.server.Take()[1].Body, &request); err != nil {
		t.Fatal(err)
	}
	for _, member := range request.Members {
		sent := member.Claims[0]
		checkTexts(t, []string{sent.Kind, sent.Namespace, sent.Name, string(sent.UID), sent.ResourceVersion, sent.OwnerReferences[0].Name},
			protocol.PartialKind, "default", "a", "uid-a", "7", "pod-1")
	}
	if len(request.Members) != largeMembers || s.cluster.existing["default/a"].Annotations == nil {
		t.Error("a member is missing, or the scheduler's own object changed")
	}
}

func TestAnAllocatorThatWantsWholeClaimsGetsNoMetadata(t *testing.T) {
	s := newStage(t, claim("a", ""))
	_, status := s.preFilter(t, largeGang(s, protocol.PreFilterReply{MembersNeeded: true}))
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, s.paths(), "/v1/prefilter")
}

func TestAGangWaitsUntilTheAllocatorHasSeenItsClaims(t *testing.T) {
	s := newStage(t, claim("a", ""))
	pod := largeGang(s, protocol.PreFilterReply{MembersNeeded: true, PartialClaims: true})
	s.server.Reply("/v1/prefilterGroup", allocatortest.Reply{Body: protocol.PreFilterReply{MembersNeeded: true, Message: "not seen yet"}})
	_, status := s.preFilter(t, pod)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, append(s.unanswered.list(), status.Message()), "pod-1", "not seen yet")
	if s.allocator.pausedBecause() != nil {
		t.Error("others wait, too")
	}
}

// A panic would end the scheduler.
func TestAPodAloneHasNoMembersThatAnAllocatorCanAskFor(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.server.Reply("/v1/prefilter", allocatortest.Reply{Body: protocol.PreFilterReply{MembersNeeded: true, Message: "ask"}})
	_, status := s.preFilter(t, podWith("a"))
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, append(s.paths(), s.unanswered.list()...), "/v1/prefilter", "pod-1")
}

func TestAPodWithoutOthersInItsGroupIsAloneIfTheGroupNeedsNoMore(t *testing.T) {
	for minimum, alone := range map[string]bool{"1": true, "2": false, "": false} {
		s := newStage(t, claim("a", ""))
		s.fits(true, "n1")
		pod, _ := gangOf(s)
		pod.Labels[minAvailableLabel] = minimum
		s.cluster.pods = s.cluster.pods[:1]
		s.preFilter(t, pod)
		var request protocol.PreFilterRequest
		if err := json.Unmarshal(s.server.Take()[0].Body, &request); err != nil || (request.Group == nil) != alone {
			t.Errorf("minimum %q: got %+v, %v", minimum, request.Group, err)
		}
	}
}

func TestALoneMemberCanEvictForWhatIsNotADevice(t *testing.T) {
	s := newStage(t, claim("a", ""))
	pod, _ := gangOf(s)
	if !s.isMember(pod) {
		t.Error("a member beside others is not one")
	}
	s.cluster.pods = s.cluster.pods[:1]
	if s.isMember(pod) {
		t.Error("the only member of a group without a minimum waits for others")
	}
}
