//go:build kubernetes134

package framework

import v1 "k8s.io/api/core/v1"

// Groups reads the groups that the scheduler itself schedules as gangs; this version has none.
type Groups struct{}

// NewGroups returns the groups of the scheduler.
func NewGroups(Handle) *Groups {
	return &Groups{}
}

// GroupName returns the name of the scheduler's group of a pod, or "".
func GroupName(*v1.Pod) string {
	return ""
}

// MinCount returns how many members of the group of a pod must run together; 0 if the group is no gang.
func (g *Groups) MinCount(*v1.Pod) (int, error) {
	return 0, nil
}
