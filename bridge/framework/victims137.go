//go:build kubernetes137

package framework

import (
	"context"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// SelectVictimsOnNode returns the victims, and ignores those that upstream would consider.
func (c *chosen) SelectVictimsOnNode(_ context.Context, _ fwk.CycleState, _ *v1.Pod, _ fwk.NodeInfo, _ []*preemption.DomainVictim, _ []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	return c.Victims, c.Violations, nil
}
