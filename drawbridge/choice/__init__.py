"""Which node and which devices a task takes, of those that fit, and what it leaves behind.

`amounts` says what nodes have left and what tasks ask for, as whole numbers, and `options` which
devices a task can take. A strategy (`strategy`) judges one node for one task: the devices to take,
and a score with its parts. It is a pure function of both, so that equal nodes in equal states are
one question; `cluster` asks each question once. `catalog` lists the strategies by name. Whether a
task fits at all is not decided here: the solver and the ledger know that.
"""
