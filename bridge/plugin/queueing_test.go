package plugin

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
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

func TestOnlyItsOwnClaimsWakeAPod(t *testing.T) {
	annotated := claim("a", "")
	annotated.Annotations = map[string]string{"a": "b"}
	replaced := claim("a", "")
	replaced.UID = "another"
	elsewhere := claim("a", "")
	elsewhere.Namespace = "elsewhere"
	cases := map[string]struct {
		before, after any
		hint          fwk.QueueingHint
	}{
		"its claim is created":         {nil, claim("a", ""), fwk.Queue},
		"its claim is allocated":       {claim("a", ""), allocatedClaim("a"), fwk.Queue},
		"its claim is deallocated":     {allocatedClaim("a"), claim("a", ""), fwk.Queue},
		"its claim is created anew":    {claim("a", ""), replaced, fwk.Queue},
		"its claim is annotated":       {claim("a", ""), annotated, fwk.QueueSkip},
		"another claim is deallocated": {allocatedClaim("b"), claim("b", ""), fwk.QueueSkip},
		"a claim in another namespace": {nil, elsewhere, fwk.QueueSkip},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			hint, err := afterClaimChange(klog.Background(), podWith("a"), each.before, each.after)
			if err != nil || hint != each.hint {
				t.Errorf("got %v, %v; want %v", hint, err, each.hint)
			}
		})
	}
}

func TestOnlyItsOwnGeneratedClaimsWakeAPod(t *testing.T) {
	other := podFromTemplate("a")
	other.UID = "pod-2"
	for changed, want := range map[*v1.Pod]fwk.QueueingHint{podFromTemplate("a"): fwk.Queue, other: fwk.QueueSkip} {
		hint, err := afterPodChange(klog.Background(), podFromTemplate(""), nil, changed)
		if err != nil || hint != want {
			t.Errorf("pod %s: got %v, %v; want %v", changed.UID, hint, err, want)
		}
	}
}

func TestEventsThatFreeDevicesOfOthersAreLeftToTheAllocator(t *testing.T) {
	events, err := newStage(t).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range events {
		if event.QueueingHintFn == nil {
			t.Errorf("%v has no hint", event.Event)
		}
		if event.Event.Resource != fwk.ResourceClaim && event.Event.Resource != fwk.Pod {
			t.Errorf("%v wakes pods", event.Event)
		}
	}
}
