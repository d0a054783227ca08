package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/protocol"
)

func TestTheVictimsThatTheAllocatorNamesAreEvicted(t *testing.T) {
	a := newPreemptionCluster(t, "n1", "n2")
	a.run("one", "n1", lowPriority, "1", "a")
	a.run("two", "n2", lowPriority, "1", "b")
	a.answer(protocol.PreemptReply{Node: "n2", Victims: []string{"two"}})
	nominated, status := a.schedule(t)
	checkCode(t, status, fwk.Success)
	if nominated == nil || *nominated != "n2" {
		t.Errorf("nominated to %v", nominated)
	}
	checkTexts(t, a.evicted(t), "two")
	if event := <-a.events.Events; !strings.Contains(event, "Preempted by pod pod-1 on node n2") {
		t.Errorf("got the event %q", event)
	}
}

func TestAllPodsWithClaimsOfANodeAreListed(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.run("high", "n1", highPriority, "1", "a")
	a.run("low", "n1", lowPriority, "1", "b")
	a.run("plain", "n1", lowPriority, "1")
	a.answer(protocol.PreemptReply{})
	a.schedule(t)
	var content protocol.PreemptRequest
	sent := a.server.Take()
	if err := json.Unmarshal(sent[len(sent)-1].Body, &content); err != nil {
		t.Fatal(err)
	}
	running := content.Nodes[0].Running
	slices.Sort(running)
	checkTexts(t, running, "high", "low")
}

// An eviction that goes on after PostFilter would hold the pod in PreEnqueue when it is woken.
func TestAllEvictionsAreSentBeforePostFilterReturns(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	var names []string
	for number := range 8 {
		names = append(names, fmt.Sprintf("low-%d", number))
		a.run(names[number], "n1", lowPriority, "0", "a")
	}
	a.answer(protocol.PreemptReply{Node: "n1", Victims: names})
	a.schedule(t)
	checkTexts(t, a.evicted(t), names...)
	checkCode(t, a.PreEnqueue(t.Context(), a.pod), fwk.Success)
}

func TestOnlyPodsWithALowerPriorityAndClaimsAreNamed(t *testing.T) {
	a := newPreemptionCluster(t, "n1", "n2")
	a.run("important", "n1", 50, "1", "a")
	a.run("older", "n1", lowPriority, "1", "b")
	a.run("newer", "n1", lowPriority, "1", "c")
	a.run("equal", "n1", highPriority, "1", "d")
	a.run("unrelated", "n2", lowPriority, "1")
	a.answer(protocol.PreemptReply{Message: "not enough"})
	nominated, status := a.schedule(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, []string{status.Message()}, "preemption: not enough")
	if nominated == nil || *nominated != "" {
		t.Error("an earlier nomination is not cleared")
	}
	asked := a.asked(t)
	checkTexts(t, asked["n1"], "important", "older", "newer")
	if len(asked) != 1 {
		t.Errorf("asked for %v", asked)
	}
	checkTexts(t, a.evicted(t))
}

func TestPodsWhoseEvictionViolatesABudgetAreKeptFirst(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.run("important", "n1", 50, "1", "a")
	a.run("guarded", "n1", lowPriority, "1", "b")
	a.run("allowed", "n1", lowPriority, "1", "c")
	a.protect("none", 0, "guarded")
	a.protect("one", 1, "allowed")
	a.answer(protocol.PreemptReply{})
	a.schedule(t)
	checkTexts(t, a.asked(t)["n1"], "guarded violates", "important", "allowed")
}

func TestANodeThatDoesNotFitThePodIsNotNamed(t *testing.T) {
	a := newPreemptionCluster(t, "n1", "n2")
	a.pod.Spec.Containers = []v1.Container{{Resources: requests("2")}}
	a.run("high", "n1", highPriority, "3")
	a.run("low", "n1", lowPriority, "1", "a")
	a.run("other", "n2", lowPriority, "1", "b")
	a.answer(protocol.PreemptReply{})
	a.schedule(t)
	asked := a.asked(t)
	checkTexts(t, asked["n2"], "other")
	if len(asked) != 1 {
		t.Errorf("asked for %v", asked)
	}
}

func TestPodsThatMustGoForCPUAreNamedAndEvicted(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.pod.Spec.Containers = []v1.Container{{Resources: requests("2")}}
	a.run("small", "n1", lowPriority, "1", "a")
	a.run("first", "n1", lowPriority, "1")
	a.run("second", "n1", lowPriority, "2")
	a.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"small"}})
	_, status := a.schedule(t)
	checkCode(t, status, fwk.Success)
	checkTexts(t, a.asked(t)["n1"], "small", "second required")
	checkTexts(t, a.evicted(t), "second", "small")
}

func TestPodsStayWhoseCPUTheVictimsForDevicesHave(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.pod.Spec.Containers = []v1.Container{{Resources: requests("2")}}
	a.run("device", "n1", lowPriority, "2", "a")
	a.run("cpu", "n1", lowPriority, "2")
	a.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"device"}})
	a.schedule(t)
	checkTexts(t, a.asked(t)["n1"], "device", "cpu required")
	checkTexts(t, a.evicted(t), "device")
}

func TestCPUIsPreemptedOnANodeWithFreeDevices(t *testing.T) {
	a := newPreemptionCluster(t, "n1", "n2")
	a.pod.Spec.Containers = []v1.Container{{Resources: requests("2")}}
	a.run("cpu", "n1", lowPriority, "4")
	a.run("unrelated", "n2", lowPriority, "4")
	a.answer(protocol.PreemptReply{Node: "n1"}, "n1")
	_, status := a.schedule(t)
	checkCode(t, status, fwk.Success)
	checkTexts(t, a.evicted(t), "cpu")
}

func TestAPodThatWaitsForDevicesEvictsNobodyAndKeepsItsNomination(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.run("low", "n1", lowPriority, "1", "a")
	a.answer(protocol.PreemptReply{Waiting: true, Message: "waits for 1 device"})
	nominated, status := a.schedule(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, []string{status.Message()}, "waits for 1 device")
	if nominated != nil {
		t.Errorf("the nomination changes to %q", *nominated)
	}
	checkTexts(t, a.evicted(t))
}

func TestAPodWithThePreemptionPolicyNeverAsksForNoVictims(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	never := v1.PreemptNever
	a.pod.Spec.PreemptionPolicy = &never
	a.run("low", "n1", lowPriority, "1", "a")
	a.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"low"}})
	_, status := a.schedule(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, a.paths(), "/v1/prefilter")
	checkTexts(t, a.evicted(t))
}

func TestAPodWaitsForTerminatingVictimsOnItsNominatedNode(t *testing.T) {
	byScheduler, longest, tooLong := v1.PodReasonPreemptionByScheduler, int64(maxGraceSeconds), int64(maxGraceSeconds+1)
	cases := map[string]struct {
		reason   string
		end      time.Duration
		grace    *int64
		cordoned bool
		fit      string
		evicted  []string
	}{
		"victim":                        {byScheduler, 0, &longest, false, "n1", nil},
		"evicted by somebody else":      {"EvictionByEvictionAPI", 0, &longest, false, "n1", []string{"other"}},
		"kept by a finalizer":           {byScheduler, -terminationTime, &longest, false, "n1", []string{"other"}},
		"too long a grace period":       {byScheduler, 0, &tooLong, false, "n1", []string{"other"}},
		"on a node that is cordoned":    {byScheduler, 0, &longest, true, "n1", []string{"elsewhere"}},
		"on a node without its devices": {byScheduler, 0, &longest, false, "n2", []string{"other"}},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			a := newPreemptionCluster(t, "n1", "n2")
			a.pod.Status.NominatedNodeName = "n1"
			a.nodes[0].Spec.Unschedulable = each.cordoned
			victim := a.run("victim", "n1", lowPriority, "1", "a")
			end := metav1.NewTime(time.Now().Add(each.end))
			victim.DeletionTimestamp, victim.DeletionGracePeriodSeconds, victim.Finalizers = &end, each.grace, []string{"test"}
			victim.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: each.reason}}
			a.run("other", "n1", lowPriority, "1", "b")
			a.run("elsewhere", "n2", lowPriority, "1", "c")
			reply := protocol.PreemptReply{Node: "n1", Victims: []string{"other"}}
			if each.cordoned {
				reply = protocol.PreemptReply{Node: "n2", Victims: []string{"elsewhere"}}
			}
			a.answer(reply, each.fit)
			a.schedule(t)
			checkTexts(t, a.evicted(t), each.evicted...)
		})
	}
}

func TestTheNextNodesAreTriedIfTheFirstOnesDoNotHelp(t *testing.T) {
	names := []string{}
	for number := range nodesPerRequest + 1 {
		names = append(names, fmt.Sprintf("n%03d", number))
	}
	a := newPreemptionCluster(t, names...)
	for _, name := range names {
		a.run("on-"+name, name, lowPriority, "1", "a")
	}
	a.answer(protocol.PreemptReply{Message: "not enough"})
	a.schedule(t)
	if asked := a.asked(t); len(asked) != len(names) {
		t.Errorf("asked for %d nodes", len(asked))
	}
}

func TestTheReasonOfTheAllocatorIsToldIfTheNextNodesDoNotFit(t *testing.T) {
	a := newPreemptionCluster(t, "fits")
	for number := range 2 * nodesPerRequest {
		a.nodes = append(a.nodes, a.nodes[0].DeepCopy())
		added := a.nodes[number+1]
		added.Name, added.Spec.Unschedulable = fmt.Sprintf("n%03d", number), true
	}
	for _, node := range a.nodes {
		a.run("on-"+node.Name, node.Name, lowPriority, "1", "a")
	}
	a.answer(protocol.PreemptReply{Message: "not enough"})
	_, status := a.schedule(t)
	checkTexts(t, []string{status.Message()}, "preemption: not enough")
}

func TestAPodOrMemberWhoseEvictionFailsIsTriedAgain(t *testing.T) {
	alone := newPreemptionCluster(t, "n1")
	alone.run("low", "n1", lowPriority, "1", "a")
	alone.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"low"}})
	member := newGroupCluster(t, 1, protocol.PreemptReply{
		Evictions: []protocol.Eviction{{Node: "n000", Victims: []string{"on-n000"}}},
	})
	for name, a := range map[string]*preemptionCluster{"alone": alone, "member": member} {
		t.Run(name, func(t *testing.T) {
			a.open(t)
			a.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("not now")
			})
			_, status := a.schedule(t)
			checkCode(t, status, fwk.Error)
			checkTexts(t, append(a.cluster.taken(), status.Message()), "pod-1", "not now")
		})
	}
}

func TestAnAllocatorThatDoesNotAnswerEvictsNobody(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.run("low", "n1", lowPriority, "1", "a")
	a.answer(protocol.PreemptReply{})
	a.server.Reply("/v1/preempt", failing(protocol.CodeNotReady, http.StatusServiceUnavailable))
	_, status := a.schedule(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, a.evicted(t))
}

func TestAPodWithoutClaimsIsLeftToDefaultPreemption(t *testing.T) {
	a := newPreemptionCluster(t, "n1")
	a.pod.Spec.ResourceClaims = nil
	a.run("low", "n1", lowPriority, "4", "a")
	a.answer(protocol.PreemptReply{})
	_, status := a.schedule(t)
	checkCode(t, status, fwk.Unschedulable)
	checkTexts(t, a.paths())
}
