package plugin

import (
	"context"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

// PostFilter runs when no node is left for the pod. It has the pod tried again with every node, or
// has an allocation taken back that keeps the pod on a node it cannot use, or evicts pods with a
// lower priority. DefaultPreemption runs after it only for pods without claims, and for allocators
// that name no victims.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ framework.NodeToStatusReader) (result *framework.PostFilterResult, status *fwk.Status) {
	defer func() {
		if status.Code() == fwk.Error {
			p.cluster.activate([]*v1.Pod{pod}) // the scheduler only logs the error, and keeps the pod for an event
		}
	}()
	found := readState(state)
	if found == nil {
		if names, err := claimNames(pod); err != nil || len(names) > 0 {
			return nil, stop() // the allocator did not answer
		}
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.unheard.remove(pod.UID)
	for name := range found.scores {
		if !p.cluster.hasNode(name) {
			p.unheard.add(pod.UID) // the watch of the scheduler is behind
			break
		}
	}
	if found.reservedOn != "" {
		p.Unreserve(ctx, state, pod, found.reservedOn) // others can have these devices
	}
	if len(found.scores) > 0 && !found.complete && !p.everyNode.has(pod.UID) {
		p.everyNode.add(pod.UID)
		p.cluster.activate([]*v1.Pod{pod})
		return nil, stop(fmt.Sprintf("other plugins reject the %d nodes that were tried; every node is tried next", len(found.scores)))
	}
	if found.allocated {
		if status := p.takeBack(ctx, pod); status != nil {
			return nil, status
		}
	}
	switch {
	case found.groupPreemptible:
		return nil, p.preemption.preemptGroup(ctx, state, pod)
	case found.preemptible && p.isMember(pod):
		// A victim for one member is a victim for nothing while the others do not fit.
		return nil, stop("preemption: not for single members of a group")
	case found.preemptible:
		return p.preemption.preempt(ctx, state, pod)
	case len(found.scores) == 0:
		// The pod waits for devices, or cannot have any. A nomination stays as it is.
		return nil, stop()
	default:
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
}

// takeBack has the allocator take back the allocation of an unbound pod. The status is nil if there
// is nothing to take back.
func (p *Plugin) takeBack(ctx context.Context, pod *v1.Pod) *fwk.Status {
	reply, err := p.allocator.postFilter(ctx, protocol.PodReference{PodUID: string(pod.UID)})
	switch {
	case err != nil:
		return p.failure(ctx, pod, err)
	case len(reply.Released) > 0:
		return stop(fmt.Sprintf("the allocation of %s is taken back, because the pod cannot use its node",
			strings.Join(reply.Released, ", ")))
	case reply.Message != "":
		return stop(reply.Message)
	}
	return nil
}
