package plugin

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/allocatortest"
	"drawbridge.dev/bridge/protocol"
)

func deleted(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.DeletionTimestamp = &metav1.Time{}
	return claim
}

func TestAPodIsHeldBackUntilItsClaimsExistAndBelongToIt(t *testing.T) {
	cases := map[string]struct {
		pod     *v1.Pod
		claims  []*resourceapi.ResourceClaim
		message string
	}{
		"without claims":                      {pod: podWith()},
		"with a claim":                        {pod: podWith("a"), claims: []*resourceapi.ResourceClaim{claim("a", "")}},
		"without its claim":                   {pod: podWith("a"), message: "default/a does not exist"},
		"with one of two claims":              {podWith("a", "b"), []*resourceapi.ResourceClaim{claim("a", "")}, "default/b does not exist"},
		"while its claim is being deleted":    {podWith("a"), []*resourceapi.ResourceClaim{deleted(claim("a", ""))}, "is being deleted"},
		"before its claim is created":         {podFromTemplate(""), nil, "spec.resourceClaims[0] (gpu) is not created yet"},
		"with its own claim":                  {pod: podFromTemplate("a"), claims: []*resourceapi.ResourceClaim{claim("a", "pod-1")}},
		"with the claim of an earlier pod":    {podFromTemplate("a"), []*resourceapi.ResourceClaim{claim("a", "pod-0")}, "was not created for this pod"},
		"with a claim that nobody owns":       {podFromTemplate("a"), []*resourceapi.ResourceClaim{claim("a", "")}, "was not created for this pod"},
		"with a template that needs no claim": {pod: podWithoutGenerated()},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			status := newStage(t, each.claims...).PreEnqueue(t.Context(), each.pod)
			if (each.message == "") != status.IsSuccess() || !strings.Contains(status.Message(), each.message) {
				t.Errorf("got %s: %s", status.Code(), status.Message())
			}
		})
	}
}

func podWithoutGenerated() *v1.Pod {
	pod := podFromTemplate("a")
	pod.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
	return pod
}

// hint returns what the plugin says of an event about a pod that it refused: QueueSkip if it did not
// register for it.
func (s *stage) hint(t *testing.T, pod *v1.Pod, event fwk.ClusterEvent, before, after any) fwk.QueueingHint {
	t.Helper()
	events, err := s.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, registered := range events {
		if registered.Event.Resource != event.Resource || registered.Event.ActionType&event.ActionType == 0 {
			continue
		}
		hint, err := registered.QueueingHintFn(klog.Background(), pod, before, after)
		if err != nil {
			t.Fatal(err)
		}
		if hint == fwk.Queue {
			return fwk.Queue
		}
	}
	return fwk.QueueSkip
}

func TestOnlyItsOwnClaimsWakeAPod(t *testing.T) {
	annotated := claim("a", "")
	annotated.Annotations = map[string]string{"a": "b"}
	ruled := claim("a", "")
	ruled.Annotations = map[string]string{"drawbridge.dev/rules": "{}"}
	replaced := claim("a", "")
	replaced.UID = "another"
	elsewhere := claim("a", "")
	elsewhere.Namespace = "elsewhere"
	added := fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add}
	updated := fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Update}
	cases := map[string]struct {
		event         fwk.ClusterEvent
		before, after any
		hint          fwk.QueueingHint
	}{
		"its claim is created":         {added, nil, claim("a", ""), fwk.Queue},
		"its claim is allocated":       {updated, claim("a", ""), allocatedClaim("a"), fwk.Queue},
		"its claim is deallocated":     {updated, allocatedClaim("a"), claim("a", ""), fwk.Queue},
		"its claim is created anew":    {updated, claim("a", ""), replaced, fwk.Queue},
		"its claim is annotated":       {updated, claim("a", ""), annotated, fwk.QueueSkip},
		"its claim gets rules":         {updated, claim("a", ""), ruled, fwk.Queue},
		"its claim loses its rules":    {updated, ruled, claim("a", ""), fwk.Queue},
		"the rules of its claim stay":  {updated, ruled, ruled, fwk.QueueSkip},
		"another claim is deallocated": {updated, allocatedClaim("b"), claim("b", ""), fwk.QueueSkip},
		"a claim in another namespace": {added, nil, elsewhere, fwk.QueueSkip},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			if hint := newStage(t).hint(t, podWith("a"), each.event, each.before, each.after); hint != each.hint {
				t.Errorf("got %v; want %v", hint, each.hint)
			}
		})
	}
}

func TestOnlyItsOwnChangesWakeAPod(t *testing.T) {
	tolerating := podFromTemplate("a")
	tolerating.Spec.Tolerations = []v1.Toleration{{Key: "gpu", Operator: v1.TolerationOpExists}}
	labelled := func(labels ...string) *v1.Pod {
		pod := podFromTemplate("a")
		pod.Labels = map[string]string{coschedulingLabel: labels[0], minAvailableLabel: labels[1], "app": labels[2]}
		return pod
	}
	cases := map[string]struct {
		action        fwk.ActionType
		before, after *v1.Pod
		hint          fwk.QueueingHint
	}{
		"its claim is created":       {fwk.UpdatePodGeneratedResourceClaim, podFromTemplate(""), podFromTemplate("a"), fwk.Queue},
		"it tolerates a taint":       {fwk.UpdatePodToleration, podFromTemplate("a"), tolerating, fwk.Queue},
		"its gang needs fewer":       {fwk.UpdatePodLabel, labelled("g", "4", ""), labelled("g", "1", ""), fwk.Queue},
		"it is of another gang":      {fwk.UpdatePodLabel, labelled("g", "4", ""), labelled("h", "4", ""), fwk.Queue},
		"it gets a label of others":  {fwk.UpdatePodLabel, labelled("g", "4", ""), labelled("g", "4", "a"), fwk.QueueSkip},
		"a change that says nothing": {fwk.UpdatePodScaleDown, podFromTemplate("a"), podFromTemplate("a"), fwk.QueueSkip},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			event := fwk.ClusterEvent{Resource: fwk.Pod, ActionType: each.action}
			s := newStage(t)
			if hint := s.hint(t, each.before, event, each.before, each.after); hint != each.hint {
				t.Errorf("got %v; want %v", hint, each.hint)
			}
			other := each.before.DeepCopy()
			other.UID = "pod-2"
			if hint := s.hint(t, other, event, each.before, each.after); hint != fwk.QueueSkip {
				t.Errorf("another pod: got %v", hint)
			}
		})
	}
}

func TestWhoServesItsExtendedResourcesWakesAPod(t *testing.T) {
	const gpu = "nvidia.com/gpu"
	maps := func(name string) *resourceapi.DeviceClass {
		return &resourceapi.DeviceClass{Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &name}}
	}
	serves := node("n", v1.ResourceList{gpu: resource.MustParse("8")}).Node()
	fewer := node("n", v1.ResourceList{gpu: resource.MustParse("7")}).Node()
	driver := node("n", v1.ResourceList{gpu: resource.MustParse("0")}).Node()
	added := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	updated := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}
	cases := map[string]struct {
		requested     string
		event         fwk.ClusterEvent
		before, after any
		hint          fwk.QueueingHint
	}{
		"a node with a plugin":         {gpu, added, nil, serves, fwk.Queue},
		"a node without a plugin":      {gpu, added, nil, driver, fwk.QueueSkip},
		"a plugin begins to serve":     {gpu, updated, driver, serves, fwk.Queue},
		"a plugin serves more":         {gpu, updated, fewer, serves, fwk.QueueSkip},
		"a plugin ends to serve":       {gpu, updated, serves, driver, fwk.QueueSkip},
		"a name that no class maps":    {"example.com/fpga", added, nil, serves, fwk.QueueSkip},
		"a pod with claims alone":      {"", added, nil, serves, fwk.QueueSkip},
		"a node says that it is alive": {gpu, fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeCondition}, driver, serves, fwk.QueueSkip},
		"its class is deleted":         {gpu, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Delete}, maps(gpu), nil, fwk.Queue},
		"its class maps another name":  {gpu, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update}, maps(gpu), maps("b"), fwk.Queue},
		"its class maps no name":       {gpu, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update}, maps(gpu), &resourceapi.DeviceClass{}, fwk.Queue},
		"its class maps it still":      {gpu, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update}, maps(gpu), maps(gpu), fwk.QueueSkip},
		"another class is deleted":     {gpu, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Delete}, maps("b"), nil, fwk.QueueSkip},
		"a class without a name goes":  {gpu, fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Delete}, &resourceapi.DeviceClass{}, nil, fwk.QueueSkip},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.cluster.mapping = []*resourceapi.DeviceClass{maps(gpu)}
			pod := podRequesting(each.requested)
			if each.requested == "" {
				pod = podWith("a")
			}
			if hint := s.hint(t, pod, each.event, each.before, each.after); hint != each.hint {
				t.Errorf("got %v; want %v", hint, each.hint)
			}
		})
	}
}

func TestAPodWaitsForANodeOfWhichTheSchedulerHasNotHeard(t *testing.T) {
	s := newStage(t, claim("a", ""))
	s.fits(true, "heard", "unheard")
	s.server.Reply("/v1/reserve", allocatortest.Reply{Body: protocol.ReserveReply{Reserved: true}})
	pod, other, node := podWith("a"), podWith("a"), node("unheard", nil).Node()
	other.UID = "pod-2"
	added := fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}
	check := func(what string, pod *v1.Pod, before any, want fwk.QueueingHint) {
		t.Helper()
		if hint := s.hint(t, pod, added, before, node); hint != want {
			t.Errorf("%s: got %v", what, hint)
		}
	}
	s.preFilter(t, pod)
	s.PostFilter(t.Context(), s.state, pod, nil)
	check("it has heard of all nodes", pod, nil, fwk.QueueSkip)
	s.cluster.unheard = "unheard"
	s.PostFilter(t.Context(), s.state, pod, nil)
	check("it hears of the node", pod, nil, fwk.Queue)
	check("a node changes", pod, node, fwk.QueueSkip)
	check("another pod", other, nil, fwk.QueueSkip)
	s.Reserve(t.Context(), s.state, pod, "unheard")
	check("the pod is reserved", pod, nil, fwk.QueueSkip)
	s.PostFilter(t.Context(), s.state, pod, nil)
	s.cluster.unheard = ""
	s.PostFilter(t.Context(), s.state, pod, nil)
	check("it has heard of the node", pod, nil, fwk.QueueSkip)
}

func TestEventsThatFreeDevicesOfOthersAreLeftToTheAllocator(t *testing.T) {
	concern := sets.New(fwk.ResourceClaim, fwk.Pod, fwk.Node, fwk.DeviceClass)
	events, err := newStage(t).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if event.QueueingHintFn == nil {
			t.Errorf("%v has no hint", event.Event)
		}
		if !concern.Has(event.Event.Resource) {
			t.Errorf("%v wakes pods", event.Event)
		}
	}
}
