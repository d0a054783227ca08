//go:build kubernetes137

package plugin

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"drawbridge.dev/bridge/framework"
)

var _ fwk.PodGroupPostFilterPlugin = &Plugin{}

// PodGroupPostFilter runs once when a PodGroup does not fit. PostFilter does not run for its members then,
// so that this does what PostFilter does for those that had no node. Members without claims, and groups
// of such, are left to DefaultPreemption.
func (p *Plugin) PodGroupPostFilter(ctx context.Context, cycle fwk.PodGroupCycleState, _ fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	nominations := map[types.NamespacedName]*fwk.NominatingInfo{}
	code := fwk.Unschedulable
	var reasons []string
	for _, member := range framework.UnplacedMembers(cycle) {
		result, status := p.PostFilter(ctx, member.State, member.Pod, nil)
		switch status.Code() {
		case fwk.Success:
			if result != nil && result.NominatingInfo != nil {
				nominations[types.NamespacedName{Namespace: member.Pod.Namespace, Name: member.Pod.Name}] = result.NominatingInfo
			}
			code = fwk.Success
		case fwk.Unschedulable, fwk.UnschedulableAndUnresolvable:
			if code == fwk.Unschedulable {
				code = status.Code()
			}
		default:
			return nil, status
		}
		for _, reason := range status.Reasons() {
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	return &fwk.PodGroupPostFilterResult{NominatingInfos: nominations}, fwk.NewStatus(code, reasons...)
}
