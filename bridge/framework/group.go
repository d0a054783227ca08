//go:build !kubernetes134 && !kubernetes135

package framework

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
)

const (
	quorumKey  fwk.StateKey = "DrawbridgeQuorum"
	membersKey fwk.StateKey = "DrawbridgeMembers"
)

// quorum says whether enough members of a group fit in the cycle for the group.
type quorum bool

// Clone returns the value itself.
func (q quorum) Clone() fwk.StateData {
	return q
}

// Member is a member of a group that was tried, and the state of the attempt.
type Member struct {
	Pod   *v1.Pod
	State fwk.CycleState
}

type members []Member

// Clone returns the value itself, because nothing changes it.
func (m members) Clone() fwk.StateData {
	return m
}

// Groups reads the groups that the scheduler itself schedules as gangs.
type Groups struct {
	handle Handle
	// groups is nil while the API server does not serve them.
	groups podGroupLister
}

// NewGroups is called before the informers of the scheduler start, which then include the groups.
func NewGroups(handle Handle) *Groups {
	groups := &Groups{handle: handle}
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		groups.groups = listPodGroups(handle)
	}
	return groups
}

// GroupName returns the name of the scheduler's group of a pod, or "".
func GroupName(pod *v1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

// MinCount returns how many members of the group of a pod must run together; 0 if the group is no gang.
func (g *Groups) MinCount(pod *v1.Pod) (int, error) {
	if g == nil || g.groups == nil {
		return 0, nil
	}
	group, err := g.groups.PodGroups(pod.Namespace).Get(GroupName(pod))
	if err != nil {
		return 0, fmt.Errorf("read the PodGroup of the pod: %w", err)
	}
	if group.Spec.SchedulingPolicy.Gang == nil {
		return 0, nil
	}
	return int(group.Spec.SchedulingPolicy.Gang.MinCount), nil
}

// InGroupCycle returns whether the members of the pod's group are scheduled together now. The scheduler
// reserves all of them, gives all of them back, and reserves those that fit again outside such a cycle.
func InGroupCycle(state fwk.CycleState) bool {
	return state.IsPodGroupSchedulingCycle()
}

// NoteMember is called when a pod is tried. It notes a member that is tried in a cycle for its group, with
// the state of the attempt, because the end of such a cycle is told neither.
func NoteMember(state fwk.CycleState, pod *v1.Pod) {
	if !InGroupCycle(state) {
		return
	}
	forgetMember(state, pod)
	cycle := state.GetPodGroupSchedulingCycle()
	cycle.Write(membersKey, members(append(UnplacedMembers(cycle), Member{Pod: pod, State: state})))
}

// UnplacedMembers returns the members that were tried in the cycle for their group and not reserved, in the
// order of the attempts.
func UnplacedMembers(cycle fwk.PodGroupCycleState) []Member {
	data, err := cycle.Read(membersKey)
	if err != nil {
		return nil
	}
	found, _ := data.(members)
	return found
}

func forgetMember(state fwk.CycleState, pod *v1.Pod) {
	cycle := state.GetPodGroupSchedulingCycle()
	others := slices.DeleteFunc(slices.Clone(UnplacedMembers(cycle)), func(member Member) bool { return member.Pod.UID == pod.UID })
	cycle.Write(membersKey, members(others))
}

// ReserveMember is called when a member is reserved in a cycle for its group.
func ReserveMember(state fwk.CycleState, pod *v1.Pod) {
	forgetMember(state, pod)
	state.GetPodGroupSchedulingCycle().Delete(quorumKey)
}

// HasQuorum returns whether enough members fit in the cycle for the group, so that they are reserved
// again. The scheduler gives members back one after the other: only the first call counts them.
func (g *Groups) HasQuorum(state fwk.CycleState, pod *v1.Pod) bool {
	cycle := state.GetPodGroupSchedulingCycle()
	if data, err := cycle.Read(quorumKey); err == nil {
		found, _ := data.(quorum)
		return bool(found)
	}
	minCount, err := g.MinCount(pod)
	if err != nil {
		return false
	}
	group, err := g.handle.SnapshotSharedLister().PodGroupStates().Get(pod.Namespace, GroupName(pod))
	found := err == nil && group.ScheduledPodsCount() >= minCount
	cycle.Write(quorumKey, quorum(found))
	return found
}

// Owns returns whether a claim was generated for a pod, or for its group.
func Owns(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return resourceclaim.IsForPod(pod, claim, claimsOfGroups()) == nil
}

// ClaimsOfGroup returns the entries of spec.resourceClaims that are claims of the pod's group, and for
// whom these are reserved; nil without any.
func (g *Groups) ClaimsOfGroup(pod *v1.Pod) (*ClaimsOfGroup, error) {
	if g == nil || g.groups == nil || !claimsOfGroups() || GroupName(pod) == "" {
		return nil, nil
	}
	group, err := g.groups.PodGroups(pod.Namespace).Get(GroupName(pod))
	if err != nil {
		return nil, fmt.Errorf("read the PodGroup of the pod: %w", err)
	}
	var found *ClaimsOfGroup
	for index := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[index]
		consumer, err := resourceclaim.BindTo(pod, group, entry)
		if err != nil {
			return nil, fmt.Errorf("tell claims of the pod from those of its PodGroup: %w", err)
		}
		if consumer.UID != group.UID {
			continue
		}
		if found == nil {
			found = &ClaimsOfGroup{Name: consumer.Name, UID: consumer.UID}
		}
		found.Entries = append(found.Entries, entry.Name)
	}
	return found, nil
}

func claimsOfGroups() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.DRAWorkloadResourceClaims)
}
