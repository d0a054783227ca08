"""The finding codes about owned nodes and pools."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

FENCE_MISSING = CODES.define(
    "FenceMissing",
    Severity.ERROR,
    text=(
        "Nodes with owned pools do not have the taint that keeps pods of other schedulers away, so "
        "another scheduler can allocate the same devices. The allocator does not start."
    ),
    example="nodes gpu-a, gpu-b lack the taint drawbridge.dev/owned:NoSchedule",
    remedy=(
        "Wait until the controller adds the taint, and check that the controller runs and that no "
        "other client removes the taint. To run without it, set `unfenced: true` in the entry of "
        "`ownedPools`."
    ),
)
FENCE_DISAGREES = CODES.define(
    "FenceDisagrees",
    Severity.WARNING,
    text=(
        "Entries of `ownedPools` select the same node, and only some of them set `unfenced`. The "
        "node has the taint."
    ),
    example=(
        "node gpu-a is selected by entries with and without unfenced: true, and has the taint"
    ),
    remedy="Set `unfenced` to the same value in all entries that select the node.",
)
FENCE_AROUND_ALL_NODES = CODES.define(
    "FenceAroundAllNodes",
    Severity.WARNING,
    text=(
        "`ownedPools` selects every node of the cluster, so no node is left for pods that do not "
        "tolerate the taint. Pods of cluster components and of Drawbridge itself stay pending."
    ),
    example="every node of the cluster has the taint drawbridge.dev/owned:NoSchedule",
    remedy="Select only the nodes with devices in the `nodeSelector` of `ownedPools`.",
)
OWNED_NODES_MISSING = CODES.define(
    "OwnedNodesMissing",
    Severity.WARNING,
    text="An entry of `ownedPools` selects no node, so the allocator owns no pool by it.",
    example="ownedPools[0] selects no node",
    remedy="Correct the `nodeSelector` of the entry, or label the nodes.",
)
POOL_NOT_LOCAL = CODES.define(
    "PoolNotLocal",
    Severity.WARNING,
    text=(
        "A driver of `ownedPools` publishes a pool that is not local to one node. The taint of a "
        "node does not keep other schedulers away from it, so the allocator of Drawbridge does "
        "not allocate from it, and refuses claims that need it."
    ),
    example=(
        "pool fabric of driver net.example.com is not local to one node: ResourceSlice fabric-1 "
        "sets allNodes"
    ),
    remedy=(
        "Leave the pool to the default scheduler: request its devices in pods that "
        "Drawbridge does not translate, or use `placement: native`."
    ),
)
POOLS_NOT_OWNED = CODES.define(
    "PoolsNotOwned",
    Severity.INFO,
    text=(
        "With `placement: bridge`, the allocator uses only the pools that `ownedPools` selects, "
        "except those whose devices a device plugin has. A simulation gives the devices of the "
        "other pools only to pods of other schedulers."
    ),
    example="ownedPools: the allocator of Drawbridge does not use 3 of 8 pools",
    remedy="No action is needed. To simulate all pools, pass a Configuration that owns them.",
)
