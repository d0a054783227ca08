package plugin

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"

	"drawbridge.dev/bridge/framework"
	"drawbridge.dev/bridge/protocol"
)

const (
	// Members of a group of the plugin Coscheduling have this label. The controllers of JobSet, MPIJob,
	// RayCluster and LeaderWorkerSet set it where they have a gang scheduled.
	coschedulingLabel = "scheduling.x-k8s.io/pod-group"
	// How many members must run together can be in this label.
	minAvailableLabel = "pod-group.scheduling.sigs.k8s.io/min-available"
)

// groupOf returns the key of the gang of a pod, or "". A group is one of the pod's namespace, so that
// no tenant names one of another. A pod that names two is a member of the scheduler's own. The
// allocator makes the same key of the pods that it watches (key_of_group in groups.py).
func groupOf(pod *v1.Pod) string {
	if name := framework.GroupName(pod); name != "" {
		return pod.Namespace + "/" + name
	}
	if name := pod.Labels[coschedulingLabel]; name != "" {
		return pod.Namespace + "/" + coschedulingLabel + "=" + name
	}
	return ""
}

// minCount returns how many members of the group of a pod must run together; 0 if the pod does not
// say it. The allocator then reads the PodGroup of Coscheduling, or counts the members that exist.
func (p *Plugin) minCount(pod *v1.Pod) (int, error) {
	if framework.GroupName(pod) != "" {
		return p.groups.MinCount(pod)
	}
	count, err := strconv.Atoi(pod.Labels[minAvailableLabel])
	if err != nil || count < 0 {
		return 0, nil
	}
	return count, nil
}

// group is a gang: its members that have no node, and how many others it has.
type group struct {
	key       string
	minCount  int
	waiting   []*v1.Pod
	scheduled int
}

// reference is nil for a pod alone.
func (g *group) reference() *protocol.Group {
	if g == nil {
		return nil
	}
	return &protocol.Group{Key: g.key, MinCount: g.minCount, Scheduled: g.scheduled}
}

// groupReference returns the gang of a pod, or nil. An error says why the pod must wait for it.
func (p *Plugin) groupReference(pod *v1.Pod) (*group, error) {
	key := groupOf(pod)
	if key == "" {
		return nil, nil
	}
	minCount, err := p.minCount(pod)
	if err != nil {
		return nil, err
	}
	if minCount == 0 && framework.GroupName(pod) != "" {
		return nil, nil // its members are scheduled one by one
	}
	found := &group{key: key, minCount: minCount}
	for _, member := range p.cluster.members(key) {
		switch {
		case hasEnded(member) || member.DeletionTimestamp != nil:
		case member.Spec.NodeName != "" || p.held.has(member.UID):
			found.scheduled++
		case member.UID != pod.UID && member.Spec.SchedulerName == pod.Spec.SchedulerName && p.isSchedulable(member):
			found.waiting = append(found.waiting, member)
		}
	}
	// Without a number here, the allocator may know one.
	if len(found.waiting) == 0 && minCount > 0 && minCount <= found.scheduled+1 {
		return nil, nil
	}
	slices.SortStableFunc(found.waiting, func(one, other *v1.Pod) int {
		return cmp.Or(
			-cmp.Compare(corev1helpers.PodPriority(one), corev1helpers.PodPriority(other)),
			one.CreationTimestamp.Compare(other.CreationTimestamp.Time),
			cmp.Compare(one.Name, other.Name),
		)
	})
	asked := max(maxMembers, min(minCount-found.scheduled, maxNeededMembers))
	found.waiting = append([]*v1.Pod{pod}, found.waiting[:min(len(found.waiting), asked-1)]...)
	return found, nil
}

// isMember returns whether a pod is scheduled as a member of a gang.
func (p *Plugin) isMember(pod *v1.Pod) bool {
	found, err := p.groupReference(pod)
	return err != nil || found != nil && (len(found.waiting) > 1 || found.minCount > 0)
}

// askAboutGroup asks for devices for all members that wait. If that is too much for one request, the allocator
// takes the metadata of claims that it has seen, if it says so.
func (p *Plugin) askAboutGroup(ctx context.Context, pod *v1.Pod, found *group, maxNodes int, partial bool) (*protocol.PreFilterReply, error) {
	request := p.groupRequest(pod, found, maxNodes)
	reply, err := p.allocator.preFilterGroup(ctx, request)
	if !partial || !errors.Is(err, protocol.ErrTooLarge) {
		return reply, err
	}
	for index := range request.Members {
		request.Members[index].Claims = metadataOf(request.Members[index].Claims)
	}
	return p.allocator.preFilterGroup(ctx, request)
}

// groupRequest describes all members that wait; their claims exist.
func (p *Plugin) groupRequest(pod *v1.Pod, found *group, maxNodes int) *protocol.PreFilterGroupRequest {
	request := &protocol.PreFilterGroupRequest{PodUID: string(pod.UID), Group: found.reference(), MaxNodes: maxNodes}
	for _, member := range found.waiting {
		claims, err := p.claims(member)
		if err != nil {
			continue // they have just been deleted
		}
		described, err := p.describePod(member)
		if err != nil {
			continue // so has the group
		}
		one := protocol.GroupMember{Pod: described, Claims: withoutManagedFields(claims)}
		request.Members = append(request.Members, one)
	}
	return request
}

// isSchedulable returns whether the scheduler of this profile can schedule a pod now.
func (p *Plugin) isSchedulable(pod *v1.Pod) bool {
	if len(pod.Spec.SchedulingGates) > 0 {
		return false
	}
	_, err := p.claims(pod)
	return err == nil
}

func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
