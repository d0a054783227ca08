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

// rulesAnnotation of a claim has the rules that the allocator obeys. The API server lets it change.
const rulesAnnotation = "drawbridge.dev/rules"

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

// EventsToRegister names the events that concern the pod's own claims, what its own object says, and
// who serves its extended resources. Everything else that frees or adds devices reaches the
// allocator, which wakes the pods that can use them.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update},
			QueueingHintFn: afterClaimChange,
		},
		{
			// The allocator compares taints too, so TaintToleration rejects none of the pods that it refuses.
			Event: fwk.ClusterEvent{
				Resource:   fwk.Pod,
				ActionType: fwk.UpdatePodGeneratedResourceClaim | fwk.UpdatePodToleration,
			},
			QueueingHintFn: afterPodChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
			QueueingHintFn: afterLabelChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable},
			QueueingHintFn: p.afterNodeChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: fwk.Update | fwk.Delete},
			QueueingHintFn: afterClassChange,
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
	if ok && before.UID == claim.UID && apiequality.Semantic.DeepEqual(before.Status, claim.Status) &&
		before.Annotations[rulesAnnotation] == claim.Annotations[rulesAnnotation] {
		return fwk.QueueSkip, nil // a finalizer or another annotation
	}
	return fwk.Queue, nil
}

// afterPodChange runs when the claims of a pod are created, or it tolerates more taints, for each
// waiting pod.
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

// afterLabelChange runs when the labels of a pod change, for each waiting pod. Labels of Coscheduling
// say which gang it is in and how many members must run together.
func afterLabelChange(_ klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	before, wasPod := oldObject.(*v1.Pod)
	changed, isPod := newObject.(*v1.Pod)
	if !wasPod || !isPod {
		return fwk.Queue, fmt.Errorf("the event of a Pod has a %T and a %T", oldObject, newObject)
	}
	if pod.UID != changed.UID || groupOf(before) == groupOf(changed) &&
		before.Labels[minAvailableLabel] == changed.Labels[minAvailableLabel] {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterNodeChange queues a pod if device plugins begin to serve its mapped resources on a node, or if it fitted on
// a node of which the scheduler had not heard, and a node is new.
func (p *Plugin) afterNodeChange(_ klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	node, ok := newObject.(*v1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event of a Node has a %T", newObject)
	}
	mapped, status := p.mappedResources(pod)
	if status != nil {
		return fwk.Queue, status.AsError()
	}
	before, existed := oldObject.(*v1.Node)
	if !existed && p.unheard.has(pod.UID) {
		return fwk.Queue, nil
	}
	if len(mapped) == 0 || !servesAll(node, mapped) || existed && servesAll(before, mapped) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterClassChange queues a pod if a DeviceClass no longer maps one of its extended resources.
func afterClassChange(_ klog.Logger, pod *v1.Pod, oldObject, newObject any) (fwk.QueueingHint, error) {
	before, ok := oldObject.(*resourceapi.DeviceClass)
	if !ok {
		return fwk.Queue, fmt.Errorf("the event of a DeviceClass has a %T", oldObject)
	}
	after, _ := newObject.(*resourceapi.DeviceClass) // nil after it was deleted
	name := before.Spec.ExtendedResourceName
	if name == nil || !extendedResources(pod).Has(v1.ResourceName(*name)) ||
		after != nil && isMapped(v1.ResourceName(*name), []*resourceapi.DeviceClass{after}) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}
