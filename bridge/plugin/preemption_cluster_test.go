package plugin

import (
	"context"
	"encoding/json"
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
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	schedulerruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	testingframework "k8s.io/kubernetes/pkg/scheduler/testing/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

const lowPriority, highPriority = int32(0), int32(100)

// preemptionCluster is a scheduler with the plugin, some filters, and a client that records what it is sent.
type preemptionCluster struct {
	*stage
	client    *clientsetfake.Clientset
	events    *events.FakeRecorder
	pod       *v1.Pod
	nodes     []*v1.Node
	pods      []*v1.Pod
	pdbs      []*policy.PodDisruptionBudget
	framework schedulerframework.Framework
}

func newPreemptionCluster(t *testing.T, nodes ...string) *preemptionCluster {
	t.Helper()
	metrics.Register()
	a := &preemptionCluster{stage: newStage(t, claim("gpu", "")), pod: podWith("gpu")}
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
func (a *preemptionCluster) run(name, node string, priority int32, cpu string, claims ...string) *v1.Pod {
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

func (a *preemptionCluster) protect(name string, allowed int32, selected string) {
	a.pdbs = append(a.pdbs, &policy.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policy.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": selected}}},
		Status:     policy.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	})
}

// open starts the scheduler's framework with the plugin, NodeResourcesFit and NodeUnschedulable.
func (a *preemptionCluster) open(t *testing.T) {
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
		testingframework.RegisterPluginAsExtensions(nodeunschedulable.Name,
			schedulerruntime.FactoryAdapter(feature.Features{}, nodeunschedulable.New), "Filter"),
	}
	opened, err := testingframework.NewFramework(t.Context(), plugins, "", append(
		withSnapshot(schedulercache.NewSnapshot(a.pods, a.nodes)),
		schedulerruntime.WithClientSet(a.client),
		schedulerruntime.WithEventRecorder(a.events),
		schedulerruntime.WithInformerFactory(factory),
		schedulerruntime.WithPodNominator(schedulerqueue.NewSchedulingQueue(nil, factory)),
		schedulerruntime.WithLogger(klog.FromContext(t.Context())),
		schedulerruntime.WithWaitingPods(schedulerruntime.NewWaitingPodsMap()),
		schedulerruntime.WithPodsInPreBind(schedulerruntime.NewPodsInPreBindMap()),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	a.preemption = newNodePreemption(a.Plugin, opened)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	a.framework = opened
}

func (a *preemptionCluster) plugin(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return a.Plugin, nil
}

// answer lets the allocator say which nodes fit, and name victims.
func (a *preemptionCluster) answer(reply protocol.PreemptReply, fit ...string) {
	nodes := protocol.PreFilterReply{Complete: true, Preemptible: true, Message: "all devices are in use"}
	for _, name := range fit {
		nodes.Fit = append(nodes.Fit, protocol.NodeScore{Node: name})
	}
	a.server.Reply("/v1/prefilter", allocatortest.Reply{Body: nodes})
	a.server.Reply("/v1/preempt", allocatortest.Reply{Body: reply})
}

// schedule runs a scheduling cycle up to PostFilter for a pod that fits nowhere.
func (a *preemptionCluster) schedule(t *testing.T) (nominated *string, status *fwk.Status) {
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
func (a *preemptionCluster) evicted(t *testing.T) []string {
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
func (a *preemptionCluster) asked(t *testing.T) map[string][]string {
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
