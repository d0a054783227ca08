//go:build kubernetes135

package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha1"
	"k8s.io/kubernetes/pkg/features"
)

// Groups reads the groups that the scheduler itself schedules as gangs.
type Groups struct {
	// workloads is nil while the API server does not serve them.
	workloads schedulinglisters.WorkloadLister
}

// NewGroups is called before the informers of the scheduler start, which then include the groups.
func NewGroups(handle Handle) *Groups {
	groups := &Groups{}
	if utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		groups.workloads = handle.SharedInformerFactory().Scheduling().V1alpha1().Workloads().Lister()
	}
	return groups
}

// GroupName returns the name of the scheduler's group of a pod, or "".
func GroupName(pod *v1.Pod) string {
	if pod.Spec.WorkloadRef == nil {
		return ""
	}
	reference := pod.Spec.WorkloadRef
	return reference.Name + "/" + reference.PodGroup + "/" + reference.PodGroupReplicaKey
}

// MinCount returns how many members of the group of a pod must run together; 0 if the group is no gang.
func (g *Groups) MinCount(pod *v1.Pod) (int, error) {
	if g == nil || g.workloads == nil || pod.Spec.WorkloadRef == nil {
		return 0, nil
	}
	workload, err := g.workloads.Workloads(pod.Namespace).Get(pod.Spec.WorkloadRef.Name)
	if err != nil {
		return 0, fmt.Errorf("read the Workload of the pod: %w", err)
	}
	for _, group := range workload.Spec.PodGroups {
		if group.Name == pod.Spec.WorkloadRef.PodGroup && group.Policy.Gang != nil {
			return int(group.Policy.Gang.MinCount), nil
		}
	}
	return 0, nil
}
