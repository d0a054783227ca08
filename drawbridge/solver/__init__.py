"""Which devices a pod's claims get on a node, or the reasons why there are none.

The plan, for each node of a call (`solve`):

1. Answer from the cache, if the node and its pools are the same objects as at the last call for
   equal claims, and the use of these is equal (`answer_cache`). Other nodes are solved again.
2. List the candidates: the devices of the usable pools that the node sees (`node_view`). Selectors
   and capacities are checked once for each device and text, whatever asks (`eligibility`).
3. Take what mode All demands, before anything is tried (`orders`).
4. Search depth-first (`search`): claim by claim, request by request, alternative by alternative,
   device by device, in the order of the slices or of the claim's strategy (`orders`). `state`
   checks each candidate: use, node, counters, taints, constraints, rules. The first solution
   counts, because kube-scheduler takes it too.
5. After a few dead ends, prune (`bounds`, `rule_bounds`): leave a branch for which counting proves
   too few devices, a device that is interchangeable with one that failed, and a state that failed
   before. An equal node has the same result (`node_classes`). Pruning loses no solution and no
   error.
6. Keep each preferred rule that a further search can satisfy as well (`node_classes`).
7. Compose the allocations (`answers`), or explain the deepest dead end (`reasons`).

It ends: each step moves one position forward in finite lists, and `STEPS` limits the steps.
With a clock, the time of the processor is limited as well (`meter`). Then the answer is that the
search gave up.
"""
