//go:build kubernetes134 || kubernetes135

package framework

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// InGroupCycle returns whether the members of the pod's group are scheduled together now, which this
// version does not do.
func InGroupCycle(fwk.CycleState) bool {
	return false
}

// Owns returns whether a claim was generated for a pod.
func Owns(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return metav1.IsControlledBy(claim, pod)
}

// ClaimsOfGroup returns nil, because groups have no claims in this version.
func (g *Groups) ClaimsOfGroup(*v1.Pod) (*ClaimsOfGroup, error) {
	return nil, nil
}

// NoteMember is called when a pod is tried.
func NoteMember(fwk.CycleState, *v1.Pod) {}

// ReserveMember is called when a member is reserved in a cycle for its group.
func ReserveMember(fwk.CycleState, *v1.Pod) {}

// HasQuorum returns whether enough members fit in the cycle for the group.
func (g *Groups) HasQuorum(fwk.CycleState, *v1.Pod) bool {
	return false
}
