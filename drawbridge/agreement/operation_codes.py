"""The finding codes about the operation of Drawbridge: events of the controller and allocator."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

# The cluster and the translated pods.

SERVER_VERSION_UNKNOWN = CODES.define(
    "ServerVersionUnknown",
    Severity.WARNING,
    text=(
        "This release of Drawbridge does not support the version of the API server. It assumes the "
        "nearest version that it supports."
    ),
    example="the API server has version 1.39, which Drawbridge does not know; assuming 1.37",
    remedy="Install a release of Drawbridge that supports this version.",
)
CONFIGURATION_REJECTED = CODES.define(
    "ConfigurationRejected",
    Severity.WARNING,
    text=(
        "The configuration in ConfigMap `drawbridge-config` is not valid, or there is none. All "
        "processes keep the last valid one, also after a restart."
    ),
    example=(
        "the last valid one stays in use: placement: placement must be native or bridge, not "
        '"natve"; did you mean native?'
    ),
    remedy=(
        "Correct the ConfigMap. `drawbridge config print --config FILE` shows all errors of a file."
    ),
)
PROBE_REFUSED = CODES.define(
    "ProbeRefused",
    Severity.WARNING,
    text=(
        "The API server rejected a dry run that checks whether it keeps a field of a claim. "
        "Requests that need the field are not translated."
    ),
    example="exactly.capacity: 422 Invalid: spec.spec.devices.requests[0]: ...",
    remedy=(
        "Fix the cause that the message names. Another admission webhook may reject the template."
    ),
)
OPERANDS_ON_DRIVER_NODES = CODES.define(
    "OperandsOnDriverNodes",
    Severity.WARNING,
    text=(
        "Operands of NVIDIA's GPU Operator run on nodes of the DRA driver. The device plugin hands "
        "out the same GPUs, and the MIG manager changes their partitions while claims have them."
    ),
    example=(
        "operand device-plugin (2) of GPU Operator runs on 2 nodes with devices of gpu.nvidia.com: "
        "gpu-1, gpu-2"
    ),
    remedy=(
        "Drain the nodes, and set the labels nvidia.com/gpu.deploy.* of these operands to false."
    ),
)
TWO_GPU_MODELS = CODES.define(
    "TwoGpuModels",
    Severity.WARNING,
    text=(
        "A ClusterPolicy and a GPUCluster of NVIDIA's GPU Operator exist together. NVIDIA supports "
        "one of them in a cluster, and does not move one to the other."
    ),
    example=(
        "ClusterPolicy cluster-policy, GPUCluster gpu-cluster exist together, and NVIDIA supports "
        "one"
    ),
    remedy=(
        "Keep the ClusterPolicy and install the DRA driver by its own chart, node group by node "
        "group, or use a GPUCluster in a new cluster."
    ),
)
OPERANDS_KEPT_OFF = CODES.define(
    "OperandsKeptOff",
    Severity.WARNING,
    text=(
        "The operands of NVIDIA's GPU Operator do not tolerate the taint of owned nodes. What runs "
        "there goes on. On a node that has the taint first, such as a new one of an autoscaler, "
        "neither the GPU driver nor the DRA driver starts, and the node never offers a device."
    ),
    example="the operands of ClusterPolicy cluster-policy do not tolerate drawbridge.dev/owned",
    remedy=(
        "Add {key: drawbridge.dev/owned, operator: Exists} to the lists daemonsets.tolerations and "
        "node-feature-discovery.worker.tolerations of the operator's chart, and keep what they "
        "have."
    ),
)
AUTOSCALER_IGNORES_CLAIMS = CODES.define(
    "AutoscalerIgnoresClaims",
    Severity.WARNING,
    text=(
        "The autoscaler does not simulate claims: it adds no node for a translated pod that waits "
        "for devices. Karpenter ignores claims by default, Cluster Autoscaler before 1.35 too."
    ),
    example="Karpenter 1.15.0 ignores claims, so it adds no node for translated pods",
    remedy="Let the autoscaler simulate claims, or keep enough nodes for the translated pods.",
)
AUTOSCALER_IGNORES_NAMES = CODES.define(
    "AutoscalerIgnoresNames",
    Severity.WARNING,
    text=(
        "Karpenter adds a node for an extended resource and waits until a device plugin serves it. "
        "Where a DeviceClass serves it instead, the new node is never initialized."
    ),
    example=(
        "Karpenter 1.15.0 waits until a device plugin serves nvidia.com/gpu on a new node, but "
        "DeviceClass gpu.nvidia.com serves it"
    ),
    remedy=(
        "Set `decisions.nativeExtendedNames: translate`, so that pods with whole devices get "
        "claims, which Karpenter simulates."
    ),
)
AUTOSCALER_IGNORES_RULES = CODES.define(
    "AutoscalerIgnoresRules",
    Severity.WARNING,
    text=(
        "The autoscaler simulates as the scheduler of Kubernetes allocates. It can add a node that "
        "a rule of a claim refuses, or that no entry of `ownedPools` selects, and none where "
        "preemption would help."
    ),
    example=(
        "Cluster Autoscaler 1.36.1 simulates claims without rules, owned pools and the scheduler "
        "drawbridge"
    ),
    remedy=(
        "Give the templates of node groups the label that `ownedPools` selects and the taint "
        "drawbridge.dev/owned. Use constraints of the claim instead of rules where they suffice."
    ),
)
AUTOSCALER_LACKS_DEVICES = CODES.define(
    "AutoscalerLacksDevices",
    Severity.WARNING,
    text=(
        "The autoscaler simulates claims, but does not know which devices of this driver a new "
        "node has, because its provider does not describe them, or only with a feature gate. It "
        "adds no node for pods whose claims need them."
    ),
    example=(
        "Karpenter 1.15.1 (karpenter.k8s.aws) adds no node for claims on gpu.nvidia.com: it needs "
        "the feature gate DRANVIDIAGPU"
    ),
    remedy="Set what the message names, or keep enough nodes for the translated pods.",
)
AUTOSCALER_LIMITS = CODES.define(
    "AutoscalerLimits",
    Severity.INFO,
    text=(
        "The autoscaler simulates claims, but adds no node for some forms of claims, or keeps "
        "nodes that it could remove."
    ),
    example="Karpenter 1.15.0 adds no node for claims with distinctAttribute",
    remedy=(
        "Keep enough nodes for such claims: NICs in any number, and several shares on different "
        "GPUs, are written with distinctAttribute, and preferred kinds with firstAvailable."
    ),
)
NODES_UNLIKE = CODES.define(
    "NodesUnlike",
    Severity.WARNING,
    text=(
        "Nodes of one node group, or of one instance type of a NodePool, publish different "
        "devices. An autoscaler takes one of them for all, so it can add nodes that do not help, "
        "or none."
    ),
    example=(
        "the nodes of group gpu-pool have different devices of gpu.nvidia.com: 8x NVIDIA H100 80Gi "
        "on 4 nodes such as gpu-1; 4x NVIDIA H100 80Gi on 1 node such as gpu-5"
    ),
    remedy="Give nodes with other devices, or another MIG layout, a node group of their own.",
)
NODES_NOT_EXPECTED = CODES.define(
    "NodesNotExpected",
    Severity.WARNING,
    text=(
        "An autoscaler can add nodes with devices of a class that no entry of `fleet` expects. "
        "While the class is closed, requests that only these nodes would satisfy are denied, so "
        "the nodes are never added for them."
    ),
    example=(
        "node groups can add nodes with 8 devices (MachineDeployment/h200), but class "
        "gpu.nvidia.com is closed: requests that only these satisfy are denied"
    ),
    remedy=("List the shapes of these nodes in `fleet[].expectedShapes`, or set `closed: false`."),
)
NAME_NOT_ACTIVE = CODES.define(
    "NameNotActive",
    Severity.WARNING,
    text=(
        "The webhook configuration in the cluster does not select every pod that the Drawbridge "
        "configuration covers. Such pods may be admitted without translation."
    ),
    example="webhook pods.drawbridge.dev: condition asks-for-devices has a different expression",
    remedy=(
        "Wait until the controller updates the webhook configuration. If the message stays, check "
        "that the controller runs, that it may patch the configuration, and that no other client "
        "changes these matchConditions."
    ),
)
SWITCHED_OFF = CODES.define(
    "SwitchedOff",
    Severity.WARNING,
    text=(
        "An administrator has switched Drawbridge off with `drawbridge off`: the API server calls "
        "none of its webhooks, and pods are created as their manifests say."
    ),
    example="webhook pods.drawbridge.dev: switched off",
    remedy="Run `drawbridge on` to switch it on again.",
)
DUAL_NODES = CODES.define(
    "DualNodes",
    Severity.WARNING,
    text=(
        "Nodes offer the same devices through a device plugin and through DRA, so a device could "
        "be allocated twice. Translated pods avoid these nodes."
    ),
    example=(
        "gpu-a, gpu-b advertise nvidia.com/gpu although ResourceSlices have the same devices; "
        "idle DRA devices: 16 on 2 nodes"
    ),
    remedy="Remove the device plugin or the DRA driver from these nodes.",
)
DUAL_NODES_HELD = CODES.define(
    "DualNodesHeld",
    Severity.WARNING,
    text=(
        "A node has no device plugin or no ResourceSlices any more, but running pods still use "
        "devices that the plugin allocated. Translated pods avoid the node until these pods end."
    ),
    example=(
        "the device plugin on node gpu-a is gone, but 3 pods still hold devices that the device "
        "plugin allocated for nvidia.com/gpu; translated pods keep off the node"
    ),
    remedy="Drain the node, or delete these pods. The controller then removes the node label.",
)
OTHER_WEBHOOK = CODES.define(
    "OtherWebhook",
    Severity.WARNING,
    text="Another webhook changes or checks the device requests of the same pods.",
    example=(
        "HAMi: webhook vgpu.hami.io of hami-webhook runs after Drawbridge; it assigns pods with "
        "its resources to hami-scheduler and may reject privileged pods"
    ),
    remedy="Exclude translated namespaces in the namespaceSelector of that webhook.",
)
TEMPLATE_NOT_REPRODUCED = CODES.define(
    "TemplateNotReproduced",
    Severity.WARNING,
    text=(
        "A pod waits for a deleted ResourceClaimTemplate. The controller translated the pod again "
        "with every version of the facts that it has, but no result has the name of the template."
    ),
    example=(
        "cannot recreate ResourceClaimTemplate drawbridge-4b7d...: the pod was translated with "
        "facts sha256:ab.., and translating it again gives a template with another name, with "
        "all facts that the controller still has"
    ),
    remedy="Delete the pod. Its owner creates a new one, which admission translates; create a pod "
    "without an owner again yourself.",
)
TEMPLATE_OUT_OF_SCOPE = CODES.define(
    "TemplateOutOfScope",
    Severity.WARNING,
    text=(
        "A pod waits for a deleted ResourceClaimTemplate. The controller does not create the "
        "template, because the webhook would no longer translate the pod."
    ),
    example=(
        "cannot recreate ResourceClaimTemplate drawbridge-4b7d...: admission does not translate "
        "this pod now; namespace team, its labels, the pod or the configuration changed"
    ),
    remedy=(
        "Delete the pod. To let the controller create the template instead, label the namespace "
        "`drawbridge.dev/translate: enforce` and include the pod in `scope`."
    ),
)
QUOTA_MIRRORED = CODES.define(
    "QuotaMirrored",
    Severity.INFO,
    text=(
        "A ResourceQuota limits a resource that no DeviceClass maps, so it does not count claims. "
        "The controller maintains the ResourceQuota drawbridge-quota, which gives "
        "claims the amount that device-plugin requests leave, and the reverse. If both are created "
        "at the same time, the total can reach twice the limit. The entry "
        "count/recounts.drawbridge.dev of this quota limits nothing."
    ),
    example=(
        "no DeviceClass maps nvidia.com/gpu, so pods and claims of gpu.nvidia.com share the limit "
        "requests.nvidia.com/gpu: 10 of team-quota through drawbridge-quota"
    ),
    remedy=(
        "No action is needed. To let Kubernetes count both, set extendedResourceName of the "
        "DeviceClass to the resource."
    ),
)
QUOTA_DOES_NOT_BIND = CODES.define(
    "QuotaDoesNotBind",
    Severity.WARNING,
    text="A ResourceQuota on a device resource does not limit the claims that replace it.",
    example=(
        "the entry requests.nvidia.com/gpumem: 8000 does not count devices, so it does not limit "
        "claims"
    ),
    remedy=(
        "Add the entry <class>.deviceclass.resource.k8s.io/devices for the DeviceClass to a "
        "ResourceQuota."
    ),
)
QUOTA_COUNTS_DEVICES = CODES.define(
    "QuotaCountsDevices",
    Severity.INFO,
    text=(
        "The resource is a share of a device, but the quota of its DeviceClass counts each share "
        "as one device."
    ),
    example="the entry requests.nvidia.com/gpu.shared: 10 counts each share as 1 device",
    remedy="Set the limit to a number of shares, not of devices.",
)

# Owned nodes and pools.

FENCE_MISSING = CODES.define(
    "FenceMissing",
    Severity.ERROR,
    text=(
        "Nodes with owned pools do not have the taint that keeps pods of other schedulers away, so "
        "another scheduler can allocate the same devices. The allocator does not use these pools."
    ),
    example="nodes gpu-a, gpu-b lack the taint drawbridge.dev/owned:NoSchedule",
    remedy=(
        "Wait until the controller adds the taint, and check that the controller runs and that no "
        "other client removes the taint. To run without it, set `unfenced: true` in the entry of "
        "`ownedPools`."
    ),
)
FENCE_WITHOUT_RULES = CODES.define(
    "FenceWithoutRules",
    Severity.WARNING,
    text=(
        "An entry of `ownedPools` sets `fence: rules`, but the cluster cannot keep this fence. The "
        "nodes have the taint instead, which also keeps pods without devices away."
    ),
    example=(
        "ownedPools[0] sets fence: rules, but ValidatingAdmissionPolicy drawbridge-owned-devices "
        "does not exist; the nodes have the taint drawbridge.dev/owned:NoSchedule"
    ),
    remedy=(
        "Create the objects of examples/owned-devices-policy.yaml, with the namespace of "
        "Drawbridge, and serve DeviceTaintRules. Or set `fence: taint`."
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
        "ownedPools[0] and ownedPools[1] select node gpu-a, and only some of these entries set "
        "unfenced: true, so the taint stays"
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
    text="An entry of `ownedPools` selects no node, so it gives the allocator no pools.",
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
        "except pools whose devices a device plugin serves. A simulation gives the devices of the "
        "other pools only to pods of other schedulers."
    ),
    example="ownedPools: the allocator of Drawbridge does not use 3 of 8 pools",
    remedy="No action is needed. To simulate all pools, pass a Configuration that owns them.",
)

# The certificate authority.

AUTHORITY_ROTATED = CODES.define(
    "AuthorityRotated",
    Severity.INFO,
    text=(
        "The certificate authority (CA) is being rotated: the leading controller made a new CA, "
        "the new CA now signs the serving certificates, or the old CA expired."
    ),
    example=(
        "CA 3f2a9c1e5b7d8a60 signs the serving certificates now; it is valid until "
        "2027-11-21T02:48:28Z"
    ),
    remedy="No action is needed.",
)
AUTHORITY_RESTORED = CODES.define(
    "AuthorityRestored",
    Severity.WARNING,
    text=(
        "The Secret drawbridge-ca was deleted, damaged or replaced. The leading controller wrote "
        "it again from its memory. If the CA was no longer in its memory, it made a new CA."
    ),
    example="Secret drawbridge-ca: tls.key is missing; the controller wrote it again",
    remedy="Find out who changed the Secret; only the controller may write it.",
)
SECRET_NOT_OWNED = CODES.define(
    "SecretNotOwned",
    Severity.WARNING,
    text=(
        "A Secret with the name drawbridge-ca or drawbridge-allocator-tls exists that Drawbridge "
        "did not write. The controller does not overwrite it. Running processes continue with the "
        "CA or the certificate that they know, until it expires. A webhook or judge that starts "
        "does not become ready, and an allocator that starts serves its API only if the Secret has "
        "a certificate."
    ),
    example="Secret drawbridge-ca was not written by Drawbridge",
    remedy=(
        "Save a copy of the Secret if it is needed, then delete it. The controller then creates "
        "its own."
    ),
)
USAGE_BOOK_UNREADABLE = CODES.define(
    "UsageBookUnreadable",
    Severity.WARNING,
    text=(
        "A ConfigMap with the book of usage of a day was changed, so that the controller cannot "
        "read it. The controller continues from an older book, or begins another one. What the "
        "damaged book had is lost."
    ),
    example="the ConfigMap cannot be read: data has no book.json",
    remedy=(
        "Find the client that changes the ConfigMap. If there is a copy of it, restore the copy "
        "while no controller runs."
    ),
)
BUNDLE_MANAGED_ELSEWHERE = CODES.define(
    "BundleManagedElsewhere",
    Severity.WARNING,
    text=(
        "A webhook configuration has an annotation of cert-manager that sets its caBundle, and the "
        "controller makes certificates as well. The controller leaves the caBundle alone."
    ),
    example=(
        "MutatingWebhookConfiguration drawbridge has an annotation with which cert-manager sets "
        "its caBundle"
    ),
    remedy=(
        "Remove the annotation, or start the controller with --certificates=external and the "
        "webhook with --tls-cert and --tls-key."
    ),
)
