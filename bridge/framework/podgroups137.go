//go:build kubernetes137

package framework

import schedulinglisters "k8s.io/client-go/listers/scheduling/v1beta1"

// podGroupLister reads the groups in the version that the scheduler reads.
type podGroupLister = schedulinglisters.PodGroupLister

func listPodGroups(handle Handle) podGroupLister {
	return handle.SharedInformerFactory().Scheduling().V1beta1().PodGroups().Lister()
}
