package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientsetfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	schedulerqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	testingframework "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

const lowPriority, highPriority = int32(0), int32(100)

// arena is a scheduler with the plugin, some filters, and a client that records what it is sent.
type arena struct {
	*stage
	client    *clientsetfake.Clientset
	events    *events.FakeRecorder
	pod       *v1.Pod
	nodes     []*v1.Node
	pods      []*v1.Pod
	pdbs      []*policy.PodDisruptionBudget
	framework schedulerframework.Framework
}

func newArena(t *testing.T, nodes ...string) *arena {
	t.Helper()
	metrics.Register()
	a := &arena{stage: newStage(t, claim("gpu", "")), pod: podWith("gpu")}
	a.pod.Spec.Priority = new(int32)
	*a.pod.Spec.Priority = highPriority
	for _, name := range nodes {
		a.nodes = append(a.nodes, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("10")}},
		})
	}
	return a
}

// run adds a pod with a claim to a node.
func (a *arena) run(name, node string, priority int32, cpu string, claims ...string) *v1.Pod {
	pod := podWith(claims...)
	pod.Name, pod.UID = name, types.UID(name)
	pod.Labels = map[string]string{"name": name}
	pod.Spec.NodeName, pod.Spec.Priority = node, &priority
	pod.Spec.Containers = []v1.Container{{Name: "main", Resources: requests(cpu)}}
	started := metav1.NewTime(time.Unix(int64(len(a.pods)), 0))
	pod.Status.StartTime = &started
	a.pods = append(a.pods, pod)
	return pod
}

func requests(cpu string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
}

func (a *arena) protect(name string, allowed int32, selected string) {
	a.pdbs = append(a.pdbs, &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": selected}}},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
}

// open starts the scheduler's framework with the plugin and NodeResourcesFit.
func (a *arena) open(t *testing.T) {
	t.Helper()
	objects := []runtime.Object{a.pod}
	for _, pod := range a.pods {
		objects = append(objects, pod)
	}
	for _, budget := range a.pdbs {
		objects = append(objects, budget)
	}
	a.client = clientsetfake.NewClientset(objects...)
	a.events = events.NewFakeRecorder(100)
	factory := informers.NewSharedInformerFactory(a.client, 0)
	plugins := []testingframework.RegisterPluginFunc{
		testingframework.RegisterQueueSortPlugin(queuesort.Name, queuesort.New),
		testingframework.RegisterPluginAsExtensions(Name, a.plugin, "PreFilter", "Filter", "Bind"),
		testingframework.RegisterPluginAsExtensions(noderesources.Name,
			schedulerruntime.FactoryAdapter(feature.Features{}, noderesources.NewFit), "PreFilter", "Filter"),
	}
	opened, err := testingframework.NewFramework(t.Context(), plugins, "",
		schedulerruntime.WithClientSet(a.client),
		schedulerruntime.WithEventRecorder(a.events),
		schedulerruntime.WithInformerFactory(factory),
		schedulerruntime.WithPodNominator(schedulerqueue.NewSchedulingQueue(nil, factory)),
		schedulerruntime.WithSnapshotSharedLister(schedulercache.NewSnapshot(a.pods, a.nodes)),
		schedulerruntime.WithLogger(klog.FromContext(t.Context())),
		schedulerruntime.WithWaitingPods(schedulerruntime.NewWaitingPodsMap()),
		schedulerruntime.WithPodsInPreBind(schedulerruntime.NewPodsInPreBindMap()),
	)
	if err != nil {
		t.Fatal(err)
	}
	a.preemption = newNodePreemption(a.Plugin, opened)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	a.framework = opened
}

func (a *arena) plugin(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return a.Plugin, nil
}

// answer lets the allocator say which nodes fit, and name victims.
func (a *arena) answer(reply protocol.PreemptReply, fit ...string) {
	nodes := protocol.PreFilterReply{Complete: true, Preemptible: true, Message: "all devices are in use"}
	for _, name := range fit {
		nodes.Fit = append(nodes.Fit, protocol.NodeScore{Node: name})
	}
	a.server.Reply("/v1/prefilter", allocatortest.Reply{Body: nodes})
	a.server.Reply("/v1/preempt", allocatortest.Reply{Body: reply})
}

// schedule runs a scheduling cycle up to PostFilter for a pod that fits nowhere.
func (a *arena) schedule(t *testing.T) (nominated *string, status *fwk.Status) {
	t.Helper()
	if a.framework == nil {
		a.open(t)
	}
	_, status, _ = a.framework.RunPreFilterPlugins(t.Context(), a.state, a.pod)
	if status.Code() == fwk.UnschedulableAndUnresolvable {
		t.Fatalf("PreFilter ends the cycle: %s", status.Message())
	}
	result, status := a.PostFilter(t.Context(), a.state, a.pod, nil)
	if result == nil || result.NominatingInfo == nil {
		return nil, status
	}
	return &result.NominatedNodeName, status
}

// evicted returns the pods that the client deleted, and checks that each got its condition before.
func (a *arena) evicted(t *testing.T) []string {
	t.Helper()
	var deleted, marked []string
	for _, action := range a.client.Actions() {
		switch action := action.(type) {
		case clienttesting.PatchAction:
			if strings.Contains(string(action.GetPatch()), string(v1.DisruptionTarget)) {
				marked = append(marked, action.GetName())
			}
		case clienttesting.DeleteAction:
			deleted = append(deleted, action.GetName())
		}
	}
	slices.Sort(deleted)
	slices.Sort(marked)
	checkTexts(t, marked, deleted...)
	return deleted
}

// asked returns what the allocator was asked: the pods of each node in their order.
func (a *arena) asked(t *testing.T) map[string][]string {
	t.Helper()
	nodes := map[string][]string{}
	for _, request := range a.server.Take() {
		if request.Path != "/v1/preempt" {
			continue
		}
		var content protocol.PreemptRequest
		if err := json.Unmarshal(request.Body, &content); err != nil {
			t.Fatal(err)
		}
		for _, node := range content.Nodes {
			names := []string{}
			for _, pod := range node.Pods {
				name := pod.UID
				if pod.Violates {
					name += " violates"
				}
				if pod.Required {
					name += " required"
				}
				names = append(names, name)
			}
			nodes[node.Node] = names
		}
	}
	return nodes
}

func TestTheVictimsThatTheAllocatorNamesAreEvicted(t *testing.T) {
	a := newArena(t, "n1", "n2")
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
	a := newArena(t, "n1")
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
	a := newArena(t, "n1")
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
	a := newArena(t, "n1", "n2")
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
	a := newArena(t, "n1")
	a.run("important", "n1", 50, "1", "a")
	a.run("guarded", "n1", lowPriority, "1", "b")
	a.run("allowed", "n1", lowPriority, "1", "c")
	a.protect("none", 0, "guarded")
	a.protect("one", 1, "allowed")
	a.answer(protocol.PreemptReply{})
	a.schedule(t)
	checkTexts(t, a.asked(t)["n1"], "guarded violates", "important", "allowed")
}

func TestANodeWithoutPlaceForThePodIsNotNamed(t *testing.T) {
	a := newArena(t, "n1", "n2")
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
	a := newArena(t, "n1")
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
	a := newArena(t, "n1")
	a.pod.Spec.Containers = []v1.Container{{Resources: requests("2")}}
	a.run("device", "n1", lowPriority, "2", "a")
	a.run("cpu", "n1", lowPriority, "2")
	a.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"device"}})
	a.schedule(t)
	checkTexts(t, a.asked(t)["n1"], "device", "cpu required")
	checkTexts(t, a.evicted(t), "device")
}

func TestCPUIsPreemptedOnANodeWithFreeDevices(t *testing.T) {
	a := newArena(t, "n1", "n2")
	a.pod.Spec.Containers = []v1.Container{{Resources: requests("2")}}
	a.run("cpu", "n1", lowPriority, "4")
	a.run("unrelated", "n2", lowPriority, "4")
	a.answer(protocol.PreemptReply{Node: "n1"}, "n1")
	_, status := a.schedule(t)
	checkCode(t, status, fwk.Success)
	checkTexts(t, a.evicted(t), "cpu")
}

func TestAPodThatWaitsForDevicesEvictsNobodyAndKeepsItsNomination(t *testing.T) {
	a := newArena(t, "n1")
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
	a := newArena(t, "n1")
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
	for _, reason := range []string{v1.PodReasonPreemptionByScheduler, "EvictionByEvictionAPI"} {
		a := newArena(t, "n1")
		a.pod.Status.NominatedNodeName = "n1"
		victim := a.run("victim", "n1", lowPriority, "1", "a")
		now := metav1.Now()
		victim.DeletionTimestamp, victim.Finalizers = &now, []string{"test"}
		victim.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}
		a.run("other", "n1", lowPriority, "1", "b")
		a.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"other"}})
		a.schedule(t)
		if reason == v1.PodReasonPreemptionByScheduler {
			checkTexts(t, a.evicted(t))
		} else {
			checkTexts(t, a.evicted(t), "other")
		}
	}
}

func TestTheNextNodesAreTriedIfTheFirstOnesDoNotHelp(t *testing.T) {
	names := []string{}
	for number := range nodesPerRequest + 1 {
		names = append(names, fmt.Sprintf("n%03d", number))
	}
	a := newArena(t, names...)
	for _, name := range names {
		a.run("on-"+name, name, lowPriority, "1", "a")
	}
	a.answer(protocol.PreemptReply{Message: "not enough"})
	a.schedule(t)
	if asked := a.asked(t); len(asked) != len(names) {
		t.Errorf("asked for %d nodes", len(asked))
	}
}

func TestAFailedEvictionIsAnErrorSoThatThePodIsTriedAgain(t *testing.T) {
	a := newArena(t, "n1")
	a.run("low", "n1", lowPriority, "1", "a")
	a.answer(protocol.PreemptReply{Node: "n1", Victims: []string{"low"}})
	a.open(t)
	a.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not now")
	})
	_, status := a.schedule(t)
	checkCode(t, status, fwk.Error)
}

func TestAnAllocatorThatDoesNotAnswerEvictsNobody(t *testing.T) {
	a := newArena(t, "n1")
	a.run("low", "n1", lowPriority, "1", "a")
	a.answer(protocol.PreemptReply{})
	a.server.Reply("/v1/preempt", failing(protocol.CodeNotReady, http.StatusServiceUnavailable))
	_, status := a.schedule(t)
	checkCode(t, status, fwk.UnschedulableAndUnresolvable)
	checkTexts(t, a.evicted(t))
}

func TestAPodWithoutClaimsIsLeftToDefaultPreemption(t *testing.T) {
	a := newArena(t, "n1")
	a.pod.Spec.ResourceClaims = nil
	a.run("low", "n1", lowPriority, "4", "a")
	a.answer(protocol.PreemptReply{})
	_, status := a.schedule(t)
	checkCode(t, status, fwk.Unschedulable)
	checkTexts(t, a.paths())
}
