//go:build !kubernetes137

package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SelectVictimsOnNode returns the victims.
func (c *chosen) SelectVictimsOnNode(_ context.Context, _ fwk.CycleState, _ *v1.Pod, _ fwk.NodeInfo, _ []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	return c.Victims, c.Violations, nil
}
