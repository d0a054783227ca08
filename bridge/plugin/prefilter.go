package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

const (
	stateKey  fwk.StateKey = "Drawbridge"
	servedKey fwk.StateKey = "Drawbridge/served"
)

// podState is what the allocator said about a pod in this scheduling cycle. It does not change.
type podState struct {
	scores map[string]int64
	// complete is true if no other node fits.
	complete bool
	// allocated is true if a claim has an allocation.
	allocated bool
	// preemptible is true if the allocator names victims for the pod.
	preemptible bool
	// groupPreemptible is true if the allocator names victims for all members of the pod's group.
	groupPreemptible bool
	// reservedOn is the node on which devices are reserved for the pod already, if any.
	reservedOn string
	// everyNode is true in a dry run of preemption, where devices do not count.
	everyNode bool
}

// Clone returns the state itself, because nothing changes it.
func (s *podState) Clone() fwk.StateData {
	return s
}

func readState(state fwk.CycleState) *podState {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	found, _ := data.(*podState)
	return found
}

// PreFilter asks the allocator on which nodes the claims of the pod can be allocated.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*framework.PreFilterResult, *fwk.Status) {
	p.leads.Store(true)
	served, refused := p.nodesOfPlugins(pod, nodes)
	if refused != nil {
		return nil, refused
	}
	if served != nil {
		state.Write(servedKey, servedNodes(served))
	}
	claims, err := p.claims(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if len(claims) == 0 {
		if served == nil {
			return nil, fwk.NewStatus(fwk.Skip)
		}
		return &framework.PreFilterResult{NodeNames: served}, nil
	}
	framework.NoteMember(state, pod)
	group, err := p.groupReference(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	request, err := p.preFilterRequest(pod, claims)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	request.Group = group.reference()
	request.Reserve = request.Group == nil && !framework.InGroupCycle(state)
	reply, err := p.allocator.preFilter(ctx, request)
	if err == nil && reply.MembersNeeded && group != nil {
		reply, err = p.askAboutGroup(ctx, pod, group, request.MaxNodes, reply.PartialClaims)
	}
	if err != nil {
		return nil, p.failure(ctx, pod, err)
	}
	if reply.MembersNeeded { // the allocator has not seen all claims
		p.unanswered.add(pod.UID)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reply.Message)
	}
	found := newPodState(reply, claims)
	state.Write(stateKey, found)
	if len(found.scores) == 0 {
		code := fwk.UnschedulableAndUnresolvable
		if found.preemptible || found.groupPreemptible {
			code = fwk.Unschedulable // the other plugins prepare for preemption
		}
		return nil, fwk.NewStatus(code, reply.Message)
	}
	names := sets.KeySet(found.scores)
	if served != nil {
		names = names.Intersection(served)
	}
	return &framework.PreFilterResult{NodeNames: names}, nil
}

// PreFilterExtensions returns nil: other pods on a node do not change what the allocator said.
func (p *Plugin) PreFilterExtensions() framework.PreFilterExtensions {
	return nil
}

func (p *Plugin) preFilterRequest(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (*protocol.PreFilterRequest, error) {
	described, err := p.describePod(pod)
	if err != nil {
		return nil, err
	}
	request := &protocol.PreFilterRequest{
		Pod:      described,
		Claims:   withoutManagedFields(claims),
		MaxNodes: p.args.MaxNodes,
	}
	if p.everyNode.has(pod.UID) {
		request.MaxNodes = 0
	}
	return request, nil
}

// describePod returns what the allocator reads of a pod; an error says why the pod must wait.
func (p *Plugin) describePod(pod *v1.Pod) (protocol.Pod, error) {
	group, err := p.claimsOfGroup(pod)
	if err != nil {
		return protocol.Pod{}, err
	}
	described := protocol.Pod{
		Namespace:    pod.Namespace,
		Name:         pod.Name,
		UID:          string(pod.UID),
		NodeSelector: pod.Spec.NodeSelector,
		Tolerations:  pod.Spec.Tolerations,
		NodeName:     pod.Spec.NodeName,

		ClaimsOfGroup: group,
	}
	if pod.Spec.Priority != nil {
		described.Priority = *pod.Spec.Priority
	}
	if pod.Spec.Affinity != nil {
		described.NodeAffinity = pod.Spec.Affinity.NodeAffinity
	}
	return described, nil
}

func newPodState(reply *protocol.PreFilterReply, claims []*resourceapi.ResourceClaim) *podState {
	found := &podState{
		scores:      make(map[string]int64, len(reply.Fit)),
		complete:    reply.Complete,
		preemptible: reply.Preemptible,
		reservedOn:  reply.ReservedOn,

		groupPreemptible: reply.GroupPreemptible,
	}
	for _, each := range reply.Fit {
		found.scores[each.Node] = min(max(each.Score, 0), framework.MaxScore)
	}
	for _, claim := range claims {
		found.allocated = found.allocated || claim.Status.Allocation != nil
	}
	return found
}

// Filter accepts the nodes that the allocator named. For a nominated node, only Filter runs.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !isServed(state, node) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "no device plugin serves the extended resources of the pod on the node")
	}
	found := readState(state)
	if found == nil || found.everyNode {
		return nil
	}
	if _, fits := found.scores[node.Node().Name]; !fits {
		return fwk.NewStatus(fwk.Unschedulable, "the claims of the pod cannot be allocated on the node")
	}
	return nil
}

// PreScore skips pods without claims.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if readState(state) == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score returns the score that the allocator gave the node.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	found := readState(state)
	if found == nil {
		return 0, nil
	}
	return found.scores[node.Node().Name], nil
}

// ScoreExtensions returns nil: the allocator's scores have the scheduler's scale.
func (p *Plugin) ScoreExtensions() framework.ScoreExtensions {
	return nil
}
