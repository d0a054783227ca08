package plugin

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

// Reserve has the allocator reserve devices of the selected node for the pod, unless it has done so with
// its answer to PreFilter.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	found := readState(state)
	if found == nil {
		return nil
	}
	if framework.InGroupCycle(state) {
		framework.ReserveMember(state, pod)
	} else if found.reservedOn == node {
		p.hold(pod)
		return nil
	}
	reply, err := p.allocator.reserve(ctx, protocol.PodOnNode{PodUID: string(pod.UID), Node: node})
	if err != nil {
		return p.failure(ctx, pod, err)
	}
	if !reply.Reserved {
		// Another node may fit. The pod comes back after this cycle, after its back-off.
		p.cluster.activate([]*v1.Pod{pod})
		return fwk.NewStatus(fwk.Unschedulable, reply.Message)
	}
	p.hold(pod)
	return nil
}

func (p *Plugin) hold(pod *v1.Pod) {
	p.everyNode.remove(pod.UID)
	p.unheard.remove(pod.UID)
	p.held.add(pod.UID)
}

// Unreserve takes the promise back. At the end of a cycle for a group that fits, the allocator holds
// the devices until the scheduler reserves the pod again. It lets a promise expire, so a failure is
// only logged.
func (p *Plugin) Unreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ string) {
	if readState(state) == nil {
		return
	}
	p.held.remove(pod.UID)
	request := protocol.UnreserveRequest{PodUID: string(pod.UID)}
	request.Cycle = framework.InGroupCycle(state)
	request.Hold = request.Cycle && p.groups.HasQuorum(state, pod)
	err := p.allocator.unreserve(ctx, request)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("The reservation is left to expire", "pod", klog.KObj(pod), "reason", err)
	}
}

// Bind has the allocator write the allocations and bind the pod.
func (p *Plugin) Bind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	// The pod itself decides, never the state of the cycle: a pod with claims that another plugin
	// binds would start without its devices.
	names, err := claimNames(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if len(names) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	p.held.remove(pod.UID) // a reservation that is being written does not expire
	reply, err := p.allocator.bind(ctx, protocol.PodOnNode{PodUID: string(pod.UID), Node: node})
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !reply.Bound {
		return fwk.AsStatus(errors.New(reply.Message))
	}
	return nil
}
