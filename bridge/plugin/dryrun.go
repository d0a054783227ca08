package plugin

import (
	"context"
	"slices"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

// candidate is a node that the pod can use without some pods, apart from devices.
type candidate struct {
	node fwk.NodeInfo
	// lower are the pods with a lower priority, in the order in which they are kept if possible.
	lower []*potentialVictim
}

type potentialVictim struct {
	fwk.PodInfo
	// violates is true if the eviction violates a PodDisruptionBudget.
	violates bool
	// required is true if the pod must be evicted for a reason other than devices.
	required bool
}

func (v *potentialVictim) pod() *v1.Pod {
	return v.GetPod()
}

func (v *potentialVictim) message() protocol.PotentialVictim {
	pod := v.pod()
	message := protocol.PotentialVictim{
		UID:      string(pod.UID),
		Priority: corev1helpers.PodPriority(pod),
		Violates: v.violates,
		Required: v.required,
	}
	if pod.Status.StartTime != nil {
		message.StartTime = pod.Status.StartTime.UTC().Format(time.RFC3339)
	}
	return message
}

// dryRun adds and removes pods on copies of a node and of the state of the cycle.
type dryRun struct {
	handle framework.Handle
	pod    *v1.Pod
	origin fwk.NodeInfo
	node   fwk.NodeInfo
	state  fwk.CycleState
}

func newDryRun(handle framework.Handle, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *dryRun {
	run := &dryRun{handle: handle, pod: pod, origin: node, node: node.Snapshot(), state: state.Clone()}
	// The allocator decides about devices.
	run.state.Write(stateKey, &podState{everyNode: true})
	return run
}

// findCandidate returns the node with its pods of a lower priority, or nil if the pod cannot use it
// without them. As few as possible of them are required to go.
func (r *dryRun) findCandidate(ctx context.Context, budgets []*policy.PodDisruptionBudget) *candidate {
	found := &candidate{node: r.origin, lower: r.lowerPods(budgets)}
	if r.fits(ctx) {
		return found
	}
	for _, each := range found.lower {
		if r.remove(ctx, each) != nil {
			return nil
		}
	}
	if !r.fits(ctx) {
		return nil
	}
	if r.reprieve(ctx, found.lower) != nil {
		return nil
	}
	return found
}

// findVictims returns the pods that must go for devices, and the required ones that must still go
// without those, the most important one first.
func (r *dryRun) findVictims(ctx context.Context, chosen *candidate, forDevices []string) ([]*potentialVictim, error) {
	var victims, required []*potentialVictim
	for _, each := range chosen.lower {
		switch {
		case slices.Contains(forDevices, string(each.pod().UID)):
			victims = append(victims, each)
		case each.required:
			required = append(required, each)
		default:
			continue
		}
		if err := r.remove(ctx, each); err != nil {
			return nil, err
		}
	}
	if err := r.reprieve(ctx, required); err != nil {
		return nil, err
	}
	for _, each := range required {
		if each.required {
			victims = append(victims, each)
		}
	}
	sort.SliceStable(victims, func(i, j int) bool { return util.MoreImportantPod(victims[i].pod(), victims[j].pod()) })
	return victims, nil
}

// reprieve adds removed pods again as long as the pod fits, in their order.
func (r *dryRun) reprieve(ctx context.Context, removed []*potentialVictim) error {
	for _, each := range removed {
		if err := r.add(ctx, each); err != nil {
			return err
		}
		if each.required = !r.fits(ctx); each.required {
			if err := r.remove(ctx, each); err != nil {
				return err
			}
		}
	}
	return nil
}

// lowerPods returns the pods with a lower priority: first those whose eviction violates a budget,
// then the others, each by importance.
func (r *dryRun) lowerPods(budgets []*policy.PodDisruptionBudget) []*potentialVictim {
	var lower []*potentialVictim
	for _, each := range r.node.GetPods() {
		if isLower(each.GetPod(), r.pod) {
			lower = append(lower, &potentialVictim{PodInfo: each})
		}
	}
	sort.SliceStable(lower, func(i, j int) bool { return util.MoreImportantPod(lower[i].pod(), lower[j].pod()) })
	markViolations(lower, budgets)
	sort.SliceStable(lower, func(i, j int) bool { return lower[i].violates && !lower[j].violates })
	return lower
}

func (r *dryRun) fits(ctx context.Context) bool {
	return r.handle.RunFilterPluginsWithNominatedPods(ctx, r.state, r.pod, r.node).IsSuccess()
}

// isHopeless returns whether the pod cannot use the node whatever pods are evicted.
func (r *dryRun) isHopeless(ctx context.Context) bool {
	return r.handle.RunFilterPluginsWithNominatedPods(ctx, r.state, r.pod, r.node).Code() == fwk.UnschedulableAndUnresolvable
}

func (r *dryRun) add(ctx context.Context, victim *potentialVictim) error {
	r.node.AddPodInfo(victim.PodInfo)
	return r.handle.RunPreFilterExtensionAddPod(ctx, r.state, r.pod, victim.PodInfo, r.node).AsError()
}

func (r *dryRun) remove(ctx context.Context, victim *potentialVictim) error {
	if err := r.node.RemovePod(klog.FromContext(ctx), victim.pod()); err != nil {
		return err
	}
	return r.handle.RunPreFilterExtensionRemovePod(ctx, r.state, r.pod, victim.PodInfo, r.node).AsError()
}

// markViolations charges the evictions to the budgets in the order of the pods, as the scheduler does.
func markViolations(pods []*potentialVictim, budgets []*policy.PodDisruptionBudget) {
	allowed := make([]int32, len(budgets))
	for i, budget := range budgets {
		allowed[i] = budget.Status.DisruptionsAllowed
	}
	for _, each := range pods {
		for i, budget := range budgets {
			if counts(budget, each.pod()) {
				allowed[i]--
				each.violates = each.violates || allowed[i] < 0
			}
		}
	}
}

// counts returns whether the eviction of a pod is charged to a budget. A budget for all pods of its
// namespace does not count for the scheduler, nor does a pod that is charged already.
func counts(budget *policy.PodDisruptionBudget, pod *v1.Pod) bool {
	if budget.Namespace != pod.Namespace || len(pod.Labels) == 0 {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil || selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, charged := budget.Status.DisruptedPods[pod.Name]
	return !charged
}
