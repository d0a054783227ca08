package plugin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	policylisters "k8s.io/client-go/listers/policy/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/lru"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

const (
	nobodyLower = "no pod with a lower priority has devices"
	noNodeFits  = "no node fits the pod, even without the pods with a lower priority"
)

// nodePreemption finds the nodes on which a pod could preempt others, and evicts the victims that
// the allocator names. What a node has beside devices, the filters of the scheduler decide.
type nodePreemption struct {
	plugin  *Plugin
	handle  framework.Handle
	budgets policylisters.PodDisruptionBudgetLister
	// offset is where the next search of nodes starts, and groupOffsets where that for each group does.
	offset       atomic.Uint32
	groupOffsets *lru.Cache
}

// newNodePreemption is called before the informers of the scheduler start, which then include budgets.
func newNodePreemption(plugin *Plugin, handle framework.Handle) *nodePreemption {
	budgets := handle.SharedInformerFactory().Policy().V1().PodDisruptionBudgets().Lister()
	return &nodePreemption{plugin: plugin, handle: handle, budgets: budgets, groupOffsets: lru.New(maxRememberedGroups)}
}

// preempt evicts victims so that a pod fits on a node, and nominates the pod to it. The result ends preemption: the one
// of the scheduler knows no devices.
func (n *nodePreemption) preempt(ctx context.Context, state fwk.CycleState, pod *v1.Pod) (*framework.PostFilterResult, *fwk.Status) {
	metrics.PreemptionAttempts.Inc()
	if reason := n.ineligible(ctx, state, pod); reason != "" {
		return nil, stop("preemption: " + reason)
	}
	budgets, err := n.budgets.List(labels.Everything())
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("list PodDisruptionBudgets: %w", err))
	}
	nodes, err := n.nodesToTry(state, pod, n.offset.Add(1))
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("list the nodes of the scheduler: %w", err))
	}
	message := noNodeFits
	if len(nodes) == 0 {
		message = nobodyLower
	}
	for some := range slices.Chunk(nodes, nodesPerRequest) {
		candidates := n.dryRun(ctx, state, pod, some, budgets)
		if len(candidates) == 0 {
			continue
		}
		reply, err := n.plugin.allocator.preempt(ctx, requestVictims(pod, candidates))
		if err != nil {
			return nil, n.plugin.failure(ctx, pod, err)
		}
		if reply.Waiting {
			return nil, stop(reply.Message)
		}
		if chosen, found := candidates[reply.Node]; found {
			return n.evict(ctx, state, pod, chosen, reply.Victims)
		}
		message = reply.Message
	}
	return framework.NominateNone(), stop("preemption: " + message)
}

// preemptGroup evicts victims on several nodes so that enough members of the group of a pod fit, or
// nobody. No member is nominated: the allocator keeps the devices and wakes all of them.
func (n *nodePreemption) preemptGroup(ctx context.Context, state fwk.CycleState, pod *v1.Pod) *fwk.Status {
	metrics.PreemptionAttempts.Inc()
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return stop("preemption: the preemptionPolicy of the pod is Never")
	}
	budgets, err := n.budgets.List(labels.Everything())
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("list PodDisruptionBudgets: %w", err))
	}
	key := groupOf(pod)
	known, _ := n.groupOffsets.Get(key)
	offset, _ := known.(uint32) // 0 for a group that is not known
	nodes, err := n.nodesToTry(state, pod, offset)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("list the nodes of the scheduler: %w", err))
	}
	request, candidates, tried := n.describeNodes(ctx, state, pod, nodes, budgets)
	switch {
	case len(nodes) == 0:
		return stop("preemption: " + nobodyLower)
	case len(candidates) == 0:
		return stop("preemption: " + noNodeFits)
	}
	reply, err := n.plugin.allocator.preempt(ctx, request)
	if err != nil {
		return n.plugin.failure(ctx, pod, err)
	}
	victims := 0
	for _, each := range reply.Evictions {
		chosen, found := candidates[each.Node]
		if !found {
			continue
		}
		if _, status := n.evict(ctx, state, pod, chosen, each.Victims); !status.IsSuccess() {
			return status
		}
		victims += len(each.Victims)
	}
	if victims > 0 {
		return stop(fmt.Sprintf("preemption: %d pods are evicted for the group", victims))
	}
	// The allocator goes on with a search only while the same nodes are named, so other groups move nothing here.
	if tried < len(nodes) && !reply.Waiting && !reply.Unfinished {
		n.groupOffsets.Add(key, offset+uint32(tried))
	}
	return stop("preemption: " + reply.Message)
}

// stop returns the status that ends the list of plugins for preemption.
func stop(reasons ...string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasons...)
}

// ineligible returns why a pod may not preempt others now, as DefaultPreemption decides it, which
// waits without a limit for victims that a finalizer keeps. Where the pod lacks devices, the allocator decides: it knows
// whether the pod waits for those of its victims, or another pod has got them.
func (n *nodePreemption) ineligible(ctx context.Context, state fwk.CycleState, pod *v1.Pod) string {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		return "the preemptionPolicy of the pod is Never"
	}
	if _, hasDevices := readState(state).scores[pod.Status.NominatedNodeName]; !hasDevices {
		return ""
	}
	nominated, err := n.handle.SnapshotSharedLister().NodeInfos().Get(pod.Status.NominatedNodeName)
	if err != nil || newDryRun(n.handle, state, pod, nominated).isHopeless(ctx) {
		return "" // the node is gone, or cordoned for example
	}
	now := time.Now()
	for _, other := range nominated.GetPods() {
		if isLower(other.GetPod(), pod) && isTerminatingVictim(other.GetPod(), now) {
			return "the pod waits for terminating pods on its nominated node"
		}
	}
	return ""
}

// nodesToTry returns the nodes on which the pods with a lower priority can have what the pod needs:
// devices, or something else on a node with free devices. The one at the offset is the first.
func (n *nodePreemption) nodesToTry(state fwk.CycleState, pod *v1.Pod, offset uint32) ([]fwk.NodeInfo, error) {
	all, err := n.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	scores := readState(state).scores
	nodes := make([]fwk.NodeInfo, 0, len(all))
	for _, node := range all {
		_, hasDevices := scores[node.Node().Name]
		if slices.ContainsFunc(node.GetPods(), func(other fwk.PodInfo) bool {
			return isLower(other.GetPod(), pod) && (hasDevices || len(other.GetPod().Spec.ResourceClaims) > 0)
		}) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 0 {
		return nodes, nil
	}
	start := int(offset) % len(nodes)
	return append(nodes[start:], nodes[:start]...), nil
}

// dryRun returns the nodes that the pod can use without some pods with a lower priority, by name.
func (n *nodePreemption) dryRun(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) map[string]*candidate {
	found := make([]*candidate, len(nodes))
	n.handle.Parallelizer().Until(ctx, len(nodes), func(index int) {
		run := newDryRun(n.handle, state, pod, nodes[index])
		found[index] = run.findCandidate(ctx, budgets)
	}, Name)
	candidates := make(map[string]*candidate, len(nodes))
	for _, each := range found {
		if each != nil {
			candidates[each.node.Node().Name] = each
		}
	}
	return candidates
}

// describeNodes returns as many nodes that the pod can use as one request can name, and how many nodes were tried.
func (n *nodePreemption) describeNodes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) (request *protocol.PreemptRequest, candidates map[string]*candidate, tried int) {
	request, candidates = requestVictims(pod, nil), map[string]*candidate{}
	size := 0
	for some := range slices.Chunk(nodes, nodesPerRequest) {
		found := n.dryRun(ctx, state, pod, some, budgets)
		part := requestVictims(pod, found)
		if size += part.Size(); tried > 0 && size > protocol.MaxMessageBytes {
			break
		}
		request.Nodes = append(request.Nodes, part.Nodes...)
		maps.Copy(candidates, found)
		tried += len(some)
	}
	return request, candidates, tried
}

func (n *nodePreemption) evict(ctx context.Context, state fwk.CycleState, pod *v1.Pod, chosen *candidate, forDevices []string) (*framework.PostFilterResult, *fwk.Status) {
	run := newDryRun(n.handle, state, pod, chosen.node)
	victims, err := run.findVictims(ctx, chosen, forDevices)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	eviction := &framework.Eviction{Node: chosen.node.Node().Name}
	for _, each := range victims {
		eviction.Victims = append(eviction.Victims, each.pod())
		if each.violates {
			eviction.Violations++
		}
	}
	result, status := framework.Evict(ctx, Name, n.handle, state, pod, eviction)
	if status.IsRejected() {
		return result, stop("preemption: " + status.Message())
	}
	return result, status
}

func requestVictims(pod *v1.Pod, candidates map[string]*candidate) *protocol.PreemptRequest {
	request := &protocol.PreemptRequest{PodUID: string(pod.UID)}
	for _, name := range slices.Sorted(maps.Keys(candidates)) {
		node := protocol.PreemptionNode{Node: name}
		for _, one := range candidates[name].lower {
			if one.required || len(one.pod().Spec.ResourceClaims) > 0 {
				node.Pods = append(node.Pods, one.message())
			}
		}
		for _, other := range candidates[name].node.GetPods() {
			if len(other.GetPod().Spec.ResourceClaims) > 0 {
				node.Running = append(node.Running, string(other.GetPod().UID))
			}
		}
		request.Nodes = append(request.Nodes, node)
	}
	return request
}

func isLower(other, pod *v1.Pod) bool {
	return corev1helpers.PodPriority(other) < corev1helpers.PodPriority(pod)
}

const (
	// maxGraceSeconds and terminationTime are MAX_GRACE_SECONDS and TERMINATION_SECONDS of the allocator, which waits no
	// longer for a terminating pod.
	maxGraceSeconds = 600
	terminationTime = 30 * time.Second
)

// isTerminatingVictim returns whether a pod terminates because the scheduler preempted it, and not for longer than others
// wait for it: a tenant sets the grace period of its pods, and their finalizers.
func isTerminatingVictim(pod *v1.Pod, now time.Time) bool {
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace > maxGraceSeconds {
		return false
	}
	// The time of the deletion is the end of the grace period.
	if pod.DeletionTimestamp == nil || !now.Before(pod.DeletionTimestamp.Add(terminationTime)) {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(each v1.PodCondition) bool {
		return each.Type == v1.DisruptionTarget && each.Status == v1.ConditionTrue && each.Reason == v1.PodReasonPreemptionByScheduler
	})
}
