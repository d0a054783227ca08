"""Finding codes of changes to a pod other than its device requests."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.TRANSLATE)

TOLERATION_ADDED = CODES.define(
    "TolerationAdded",
    Severity.INFO,
    text=(
        "The API server adds tolerations for the extended resources that a pod requests. A "
        "translated pod no longer requests them, so the translation adds the toleration "
        "itself."
    ),
    example=(
        "spec.tolerations: added a toleration for nvidia.com/gpu, because the pod no longer "
        "requests that resource"
    ),
    remedy="No action is needed.",
)
VISIBLE_DEVICES_DROPPED = CODES.define(
    "VisibleDevicesDropped",
    Severity.INFO,
    text=(
        "A container that gets its devices from a claim must not select devices with an "
        "environment variable."
    ),
    example=(
        "spec.containers[0].env[1]: removed NVIDIA_VISIBLE_DEVICES, because the claim selects"
        " the devices"
    ),
    remedy="No action is needed.",
)
VISIBLE_WITHOUT_CLAIM = CODES.define(
    "VisibleWithoutClaim",
    Severity.WARNING,
    text=(
        "An environment variable gives a container access to GPUs that it does not request. "
        "With the vendor's runtime class it sees the GPUs of other pods as well."
    ),
    example=(
        "spec.containers[1].env[0]: NVIDIA_VISIBLE_DEVICES is all, but the container requests"
        " no GPU"
    ),
    remedy="Request the GPUs that the container uses, or remove the variable.",
)
DEVICES_BY_NAME = CODES.define(
    "DevicesByName",
    Severity.WARNING,
    text=(
        "An environment variable, an annotation or a volume names devices by index or name, but "
        "the claim may allocate other devices, and other pods may have these."
    ),
    example=(
        "spec.containers[0].env[0]: NCCL_IB_HCA is =mlx5_0,mlx5_1, but the claim may allocate"
        " other devices"
    ),
    remedy="Remove it, or use a prefix such as mlx5 in the variable.",
)
RUNTIME_CLASS_KEPT = CODES.define(
    "RuntimeClassKept",
    Severity.INFO,
    text=(
        "Devices of a claim need no runtime class. The runtime class stays, because other "
        "features may depend on it."
    ),
    example=(
        "spec.runtimeClassName: runtime class nvidia stays, although the claim does not need it"
    ),
    remedy="Remove the runtime class if nothing else needs it.",
)
ALLOCATION_NOT_ENFORCED = CODES.define(
    "AllocationNotEnforced",
    Severity.WARNING,
    text="A privileged container has access to every device of its node, whatever it is allocated.",
    example=(
        "spec.containers[0]: the container is privileged, so it has access to every device of"
        " the node"
    ),
    remedy="Remove the privilege. RDMA needs only the IPC_LOCK capability.",
)
RDMA_BY_HOST_ACCESS = CODES.define(
    "RdmaByHostAccess",
    Severity.WARNING,
    text=(
        "A container accesses RDMA devices through a hostPath volume without requesting any. "
        "There is nothing to translate, and the devices that it uses are not allocated."
    ),
    example=(
        "spec.volumes[0].hostPath.path: mounts /dev/infiniband of the host, but the pod "
        "requests no network device"
    ),
    remedy="Request a network device, and remove the volume and the privilege.",
)
QUEUE_COUNTS_NAMES = CODES.define(
    "QueueCountsNames",
    Severity.WARNING,
    text=(
        "The pod or job waits in a queue whose quota counts extended resources. Kueue 0.18 and "
        "newer admits no workload with claims of a DeviceClass that its configuration does not map "
        "to a name, and does not try it again. Other queues do not charge such claims. With the "
        "legacy name in the mapping, one quota counts pods before and after their translation."
    ),
    example=(
        "metadata.labels[kueue.x-k8s.io/queue-name]: queue training of Kueue does not admit claims "
        "of gpu.nvidia.com unless it maps the class"
    ),
    remedy=(
        "Map the device classes of the claim in the configuration of the queue; for Kueue, "
        "`deviceClassMappings: [{name: nvidia.com/gpu, deviceClassNames: [gpu.nvidia.com]}]` in "
        "`resources`."
    ),
)
QUEUE_MAPPING_MISSING = CODES.define(
    "QueueMappingMissing",
    Severity.WARNING,
    text=(
        "The configuration of Kueue maps no name to a DeviceClass with devices, so Kueue admits no "
        "workload with claims of the class. Or it maps another name than the one for which there "
        "is a quota, and by which jobs are charged before their pods are translated: then they and "
        "pods that are charged by claims have two quotas for the same devices."
    ),
    example="Kueue maps no name to DeviceClass gpu.nvidia.com, so it admits no claims of the class",
    remedy=(
        "Add the class to `resources.deviceClassMappings` in ConfigMap kueue-manager-config, with "
        "the legacy name that has a quota as name of the mapping, and start the pods of Kueue "
        "again."
    ),
)
DUAL_ADVERTISED = CODES.define(
    "DualAdvertised",
    Severity.WARNING,
    text=(
        "Some nodes offer the same devices through a device plugin and through DRA, so a device "
        "could be allocated twice. The translation keeps the pod off these nodes, so it cannot use "
        "their devices. Pods that are not translated can run there."
    ),
    example=(
        "spec.affinity.nodeAffinity: a device plugin advertises nvidia.com/gpu on 2 nodes that "
        "also publish the same devices in ResourceSlices; the pod avoids these nodes, which leaves "
        "up to 16 devices idle"
    ),
    remedy="Remove the device plugin or the DRA driver from these nodes.",
)
DUAL_NODES_AVOIDED = CODES.define(
    "DualNodesAvoided",
    Severity.INFO,
    text=(
        "A device plugin serves the resource on some nodes. No node offers the same devices "
        "through DRA now; if one does later, the pod avoids it."
    ),
    example=(
        "spec.affinity.nodeAffinity: a device plugin serves nvidia.com/gpu on 3 nodes; the "
        "pod avoids nodes that also publish the devices in ResourceSlices"
    ),
    remedy="No action is needed.",
)
DUAL_DEVICES_HELD = CODES.define(
    "DualDevicesHeld",
    Severity.WARNING,
    text=(
        "No device plugin serves the resource any more, but some nodes still have the label for "
        "it: pods on them still hold devices of the plugin, or the plugin restarts. DRA does not "
        "count these devices as allocated, so the translation keeps the pod off these nodes."
    ),
    example=(
        "spec.affinity.nodeAffinity: pods may still hold devices of gpu.nvidia.com from a "
        "device plugin on 2 nodes; the pod avoids these nodes"
    ),
    remedy=(
        "Wait until these pods end, or drain the nodes. The controller then removes the label."
    ),
)
SCHEDULER_OURS = CODES.define(
    "SchedulerOurs",
    Severity.INFO,
    text=(
        "With `placement: bridge`, the pod uses the scheduler that calls the Drawbridge allocator. "
        "It tolerates the taint of nodes whose pools only this allocator uses."
    ),
    example=(
        "spec.schedulerName: set to drawbridge, with a toleration for the taint "
        "drawbridge.dev/owned"
    ),
    remedy="No action is needed.",
)
BRIDGE_SCHEDULER_MISSING = CODES.define(
    "BridgeSchedulerMissing",
    Severity.WARNING,
    text=(
        "The namespace uses bridge placement, but the scheduler `drawbridge` does not run: nothing "
        "has renewed its Lease for a minute. The pod is translated for native placement, so that "
        "it does not wait for a scheduler that is not there. It gets no devices of owned pools."
    ),
    example=(
        "spec.schedulerName: the scheduler drawbridge does not run, so the pod uses native "
        "placement"
    ),
    remedy=(
        "Check the pods of drawbridge-scheduler with `drawbridge doctor`. Delete the pod when they "
        "run if it needs owned pools. To leave bridge placement, see docs/bridge.md."
    ),
)
DEVICES_DIVIDED = CODES.define(
    "DevicesDivided",
    Severity.WARNING,
    text=(
        "The pod can use only a part of the devices of a class: with bridge placement those of "
        "owned nodes, with native placement those of the other nodes."
    ),
    example=(
        "spec.schedulerName: with bridge placement the pod can use 8 of 18 devices of class "
        "gpu.nvidia.com: 8 of owned nodes, 10 of others"
    ),
    remedy=(
        "Set the label drawbridge.dev/placement of the namespace, or change "
        "`bridge.namespaceSelector` or `ownedPools`."
    ),
)
DRIVER_NOT_OWNED = CODES.define(
    "DriverNotOwned",
    Severity.WARNING,
    text=(
        "With `placement: bridge`, the claim of a translated pod is for the devices of a driver "
        "without an entry in `ownedPools`. The Drawbridge allocator uses owned pools only, so the "
        "pod stays pending."
    ),
    example=(
        "spec.schedulerName: ownedPools has no entry for driver dra.net, so drawbridge cannot "
        "allocate the claim"
    ),
    remedy=(
        "Add an entry for the driver to `ownedPools`, or keep the pod from the translation with "
        'the label drawbridge.dev/translate: "off".'
    ),
)
FENCE_TOLERATED = CODES.define(
    "FenceTolerated",
    Severity.WARNING,
    text=(
        "A pod with claims tolerates the taint of owned nodes, but its scheduler does not call the "
        "Drawbridge allocator. That scheduler can allocate a device that the allocator has given "
        "to another pod."
    ),
    example=(
        "spec.tolerations: the pod tolerates the taint drawbridge.dev/owned, but volcano does not "
        "call the Drawbridge allocator"
    ),
    remedy="Remove the toleration, or set schedulerName to drawbridge.",
)
CLAIMS_LEFT_TO_SCHEDULER = CODES.define(
    "ClaimsLeftToScheduler",
    Severity.INFO,
    text=(
        "A pod with claims of its own keeps the default scheduler, because some drivers of the "
        "cluster have no owned pools. It gets no devices of owned pools."
    ),
    example=(
        "spec.schedulerName: the pod has claims of its own and keeps the default scheduler, which "
        "cannot use the owned pools of gpu.nvidia.com"
    ),
    remedy=("To use owned pools, set schedulerName to drawbridge. The toleration is then added."),
)
GANG_SPLIT = CODES.define(
    "GangSplit",
    Severity.WARNING,
    text=(
        "The members of a gang have several schedulers. A scheduler schedules a gang only if it "
        "has the minimum of members itself, so all members can stay pending without an event."
    ),
    example=(
        "spec.schedulerName: PodGroup ml/train has several schedulers: drawbridge has 3 members "
        "(worker-0, worker-1, worker-2), default-scheduler has 1 member (launcher)"
    ),
    remedy=(
        "Set schedulerName of all members to drawbridge, or remove it from their templates, and "
        "create the pods of the other scheduler again. In a namespace with bridge placement, "
        "admission then gives all of them the scheduler drawbridge."
    ),
)

REQUEST_RETURNED = CODES.define(
    "RequestReturned",
    Severity.INFO,
    text=(
        "Another webhook put back a request that a claim had replaced. The translation removes it "
        "again, so that the container does not get devices twice."
    ),
    example=(
        "spec.containers[0].resources.limits[nvidia.com/gpu]: removed nvidia.com/gpu: 1, because "
        "the container already has a claim for it"
    ),
    remedy="Exclude the namespace from the other webhook.",
)
