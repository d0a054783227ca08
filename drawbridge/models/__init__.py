"""Models of what surrounds Drawbridge in a cluster: what each part does with an event. Pure.

The audit rehearses its plan with them, and a simulated world can run with them. Each is small, and
decides as the part that it stands for: `pods` is what is known of pods and nodes, `budgets` and
`budgeted_kinds` the eviction API with PodDisruptionBudgets, `jobs` the Job controller when a pod
ends, `workloads` who creates a pod again and where, `admission` which pods are translated, `nodes`
a node with kubelet, device manager, plugin and driver, `scheduler` which node a pod gets; `cluster`
plays them together.
"""
