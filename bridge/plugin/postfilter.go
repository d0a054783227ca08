package plugin

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

// PostFilter runs when no node is left for the pod, before preemption. It has the pod tried again
// with every node, or has an allocation taken back that keeps the pod on a node it cannot use. In
// both cases it stops preemption, because the pod may need no victim.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *fwk.Status) {
	found := readState(state)
	if found == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if len(found.scores) > 0 && !found.complete && !p.everyNode.has(pod.UID) {
		p.everyNode.add(pod.UID)
		p.cluster.activate([]*v1.Pod{pod})
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("other plugins reject the %d nodes that were tried; every node is tried next", len(found.scores)))
	}
	if !found.allocated {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	reply, err := p.allocator.postFilter(ctx, protocol.PodReference{PodUID: string(pod.UID)})
	if err != nil {
		klog.FromContext(ctx).Error(err, "An allocation may keep the pod on an unusable node", "pod", klog.KObj(pod))
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if len(reply.Released) == 0 {
		return nil, fwk.NewStatus(fwk.Unschedulable, reply.Message)
	}
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf(
		"the allocation of %s is taken back, because the pod cannot use its node", strings.Join(reply.Released, ", ")))
}
