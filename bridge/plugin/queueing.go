package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreEnqueue holds a pod back until its claims exist and belong to it.
func (p *Plugin) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	if _, err := p.claims(pod); err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return nil
}

// EventsToRegister names the events that concern the pod's own claims. Everything else that frees
// or adds devices reaches the allocator, which wakes the pods that can use them.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: afterClaimChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodGeneratedResourceClaim},
			QueueingHintFn: afterPodChange,
		},
	}, nil
}

// afterClaimChange runs for each change of any claim and each waiting pod.
func afterClaimChange(_ klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	claim, ok := newObject.(*resourceapi.ResourceClaim)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event of a ResourceClaim has a %T", newObject)
	}
	if !usesClaim(pod, claim) {
		return fwk.QueueSkip, nil
	}
	before, ok := oldObject.(*resourceapi.ResourceClaim)
	if ok && before.UID == claim.UID && apiequality.Semantic.DeepEqual(before.Status, claim.Status) {
		return fwk.QueueSkip, nil // a finalizer or an annotation
	}
	return fwk.Queue, nil
}

// afterPodChange runs when the claims of a pod are created, for each waiting pod.
func afterPodChange(_ klog.Logger, pod *v1.Pod, _, newObject any) (fwk.QueueingHint, error) {
	changed, ok := newObject.(*v1.Pod)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event of a Pod has a %T", newObject)
	}
	if pod.UID != changed.UID {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
