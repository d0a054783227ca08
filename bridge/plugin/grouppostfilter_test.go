//go:build kubernetes137

package plugin

import (
	"net/http"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

// groupCycle is a cycle for a PodGroup of the pod of a preemptionCluster, and of copies of it.
type groupCycle struct {
	*preemptionCluster
	state *schedulerframework.CycleState
}

func newGroupCycle(t *testing.T, nodes ...string) *groupCycle {
	t.Helper()
	a := newPreemptionCluster(t, nodes...)
	a.pod.Labels = map[string]string{coschedulingLabel: "g", minAvailableLabel: "2"}
	a.cluster.pods = []*v1.Pod{a.pod}
	return &groupCycle{a, schedulerframework.NewCycleState()}
}

// try runs PreFilter for a member.
func (c *groupCycle) try(t *testing.T, pod *v1.Pod) fwk.CycleState {
	t.Helper()
	if c.framework == nil {
		c.open(t)
	}
	state := schedulerframework.NewCycleState()
	state.SetPodGroupSchedulingCycle(c.state)
	c.framework.RunPreFilterPlugins(t.Context(), state, pod)
	return state
}

// another returns a second member.
func (c *groupCycle) another() *v1.Pod {
	pod := c.pod.DeepCopy()
	pod.Name, pod.UID = "pod-2", "pod-2"
	return pod
}

func (c *groupCycle) end(t *testing.T) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	t.Helper()
	return c.PodGroupPostFilter(t.Context(), c.state, nil, nil)
}

// refuse lets the allocator refuse the group, and name victims for it.
func (c *groupCycle) refuse(reply protocol.PreemptReply) {
	c.answer(reply)
	c.server.Reply("/v1/prefilter", allocatortest.Reply{Body: protocol.PreFilterReply{
		Complete: true, GroupPreemptible: true, Message: "0 of 2 members of the group fit",
	}})
}

func TestVictimsOfAGroupAreEvictedAtTheEndOfItsCycle(t *testing.T) {
	c := newGroupCycle(t, "n1", "n2", "n3")
	c.run("one", "n1", lowPriority, "1", "a")
	c.run("two", "n2", lowPriority, "1", "b")
	c.run("three", "n3", lowPriority, "1", "c")
	c.refuse(protocol.PreemptReply{Evictions: []protocol.Eviction{
		{Node: "n1", Victims: []string{"one"}}, {Node: "n3", Victims: []string{"three"}},
	}})
	c.try(t, c.pod)
	checkTexts(t, c.evicted(t))
	_, status := c.end(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, status.Reasons(), "preemption: 2 pods are evicted for the group")
	checkTexts(t, c.evicted(t), "one", "three")
}

func TestAMemberThatIsReservedAsksForNoVictims(t *testing.T) {
	c := newGroupCycle(t, "n1")
	c.run("low", "n1", lowPriority, "1", "a")
	c.answer(protocol.PreemptReply{}, "n1")
	c.server.Reply("/v1/reserve", allocatortest.Reply{Body: protocol.ReserveReply{Reserved: true}})
	state := c.try(t, c.another())
	checkCode(t, c.Reserve(t.Context(), state, c.another(), "n1"), fwk.Success)
	c.refuse(protocol.PreemptReply{Message: "not enough"})
	c.try(t, c.pod)
	c.server.Take()
	_, status := c.end(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, c.paths(), "/v1/preempt")
}

func TestMembersThatAreToldTheSameAreNamedOnce(t *testing.T) {
	c := newGroupCycle(t, "n1")
	c.run("low", "n1", lowPriority, "1", "a")
	c.refuse(protocol.PreemptReply{Message: "not enough"})
	c.try(t, c.another())
	c.try(t, c.pod)
	_, status := c.end(t)
	checkTexts(t, status.Reasons(), "preemption: not enough")
}

func TestAMemberOfAGroupThatIsNoGangIsNominated(t *testing.T) {
	c := newGroupCycle(t, "n1")
	c.pod.Labels = nil
	c.run("low", "n1", lowPriority, "1", "a")
	c.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"low"}})
	c.try(t, c.pod)
	result, status := c.end(t)
	checkCode(t, status, fwk.Success)
	checkTexts(t, c.evicted(t), "low")
	for name, nominated := range result.NominatingInfos {
		checkTexts(t, []string{name.String(), nominated.NominatedNodeName}, "default/pod-1", "n1")
	}
	if len(result.NominatingInfos) != 1 {
		t.Errorf("nominated %v", result.NominatingInfos)
	}
}

func TestAGroupWithoutClaimsIsLeftToDefaultPreemption(t *testing.T) {
	c := newGroupCycle(t, "n1")
	c.pod.Spec.ResourceClaims = nil
	c.answer(protocol.PreemptReply{})
	c.try(t, c.pod)
	_, status := c.end(t)
	checkCode(t, status, fwk.Unschedulable)
	checkTexts(t, c.paths())
}

func TestAnAllocatorThatDoesNotAnswerEvictsNobodyForAGroup(t *testing.T) {
	c := newGroupCycle(t, "n1")
	c.run("low", "n1", lowPriority, "1", "a")
	c.refuse(protocol.PreemptReply{})
	c.server.Reply("/v1/prefilter", failing(protocol.CodeNotReady, http.StatusServiceUnavailable))
	c.try(t, c.pod)
	_, status := c.end(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, c.evicted(t))
}

// The scheduler takes a result without nominations for granted where the status is a success.
func TestAResultIsNeverMissing(t *testing.T) {
	c := newGroupCycle(t, "n1")
	if result, _ := c.end(t); result == nil {
		t.Error("there is no result")
	}
}
