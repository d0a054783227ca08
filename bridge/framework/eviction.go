package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Eviction is the node for a pod, and the pods that must go there, the most important one first.
type Eviction struct {
	Node       string
	Victims    []*v1.Pod
	Violations int
}

// Evict evicts the victims as DefaultPreemption does, and nominates the pod to the node. It returns
// when all evictions are sent: an asynchronous one would keep the pod from being woken meanwhile.
func Evict(ctx context.Context, plugin string, handle Handle, state fwk.CycleState, pod *v1.Pod, eviction *Eviction) (*PostFilterResult, *fwk.Status) {
	unschedulable := fwk.NewStatus(fwk.Unschedulable)
	other := fwk.NewStatus(fwk.UnschedulableAndUnresolvable)
	nodes := schedulerframework.NewNodeToStatus(map[string]*fwk.Status{eviction.Node: unschedulable}, other)
	return newEvaluator(plugin, handle, (*chosen)(eviction)).Preempt(ctx, state, pod, nodes)
}

// NominateNone is the result that clears the nomination of a pod.
func NominateNone() *PostFilterResult {
	return schedulerframework.NewPostFilterResultWithNominatedNode("")
}

// chosen gives upstream's preemption an eviction that is decided already.
type chosen Eviction

var _ preemption.Interface = &chosen{}

// GetOffsetAndNumCandidates returns that there is one candidate.
func (c *chosen) GetOffsetAndNumCandidates(int32) (offset, candidates int32) {
	return 0, 1
}

// CandidatesToVictimsMap returns the victims by node.
func (c *chosen) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	victims := make(map[string]*extenderv1.Victims, len(candidates))
	for _, each := range candidates {
		victims[each.Name()] = each.Victims()
	}
	return victims
}

// PodEligibleToPreemptOthers returns true, because that is decided already.
func (c *chosen) PodEligibleToPreemptOthers(context.Context, *v1.Pod, *fwk.Status) (eligible bool, reason string) {
	return true, ""
}

// OrderedScoreFuncs returns nil, because there is one candidate.
func (c *chosen) OrderedScoreFuncs(context.Context, map[string]*extenderv1.Victims) []func(node string) int64 {
	return nil
}
