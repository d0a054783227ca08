//go:build !kubernetes134 && !kubernetes135 && !kubernetes137

package framework

import schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"

// podGroupLister reads the groups in the version that the scheduler reads.
type podGroupLister = schedulinglisters.PodGroupLister

func listPodGroups(handle Handle) podGroupLister {
	return handle.SharedInformerFactory().Scheduling().V1alpha2().PodGroups().Lister()
}
