//go:build kubernetes134 || kubernetes135

package framework

import "k8s.io/kubernetes/pkg/scheduler/framework/preemption"

// newEvaluator returns upstream's preemption without asynchronous API calls.
func newEvaluator(plugin string, handle Handle, chosen preemption.Interface) *preemption.Evaluator {
	return preemption.NewEvaluator(plugin, handle, chosen, false)
}
