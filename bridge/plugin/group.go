package plugin

import (
	"strconv"

	v1 "k8s.io/api/core/v1"

	"drawbridge.dev/bridge/framework"
)

const (
	// coscheduling sets its label on the members of its PodGroup, and so do the controllers of MPIJob and
	// RayCluster when they have it schedule a gang.
	coschedulingLabel = "scheduling.x-k8s.io/pod-group"
	// A group without an object has its name and its size in these labels.
	podGroupLabel = "pod-group.scheduling.sigs.k8s.io/name"
	podGroupMin   = "pod-group.scheduling.sigs.k8s.io/min-available"
	// LeaderWorkerSet creates and restarts the pods of a group together.
	leaderWorkerLabel = "leaderworkerset.sigs.k8s.io/group-key"
)

// groupOf returns the key of the gang of a pod, or "". A group is one of the pod's namespace, so that
// no tenant names one of another. A pod that names several is a member of the first.
func groupOf(pod *v1.Pod) string {
	if name := framework.GroupName(pod); name != "" {
		return pod.Namespace + "/" + name
	}
	for _, label := range []string{coschedulingLabel, podGroupLabel, leaderWorkerLabel} {
		if name := pod.Labels[label]; name != "" {
			return pod.Namespace + "/" + label + "=" + name
		}
	}
	return ""
}

// minCount returns how many members of the group of a pod must run together; 0 if only the members
// that exist say so.
func (p *Plugin) minCount(pod *v1.Pod) (int, error) {
	if framework.GroupName(pod) != "" {
		return p.groups.MinCount(pod)
	}
	count, err := strconv.Atoi(pod.Labels[podGroupMin])
	if err != nil || count < 0 {
		return 0, nil
	}
	return count, nil
}
