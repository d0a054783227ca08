"""The finding codes of the controller."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.OPERATE)

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
        "A node has no device plugin or no ResourceSlices any more for devices that both had, but "
        "running pods still use devices that the plugin allocated. Translated pods avoid the node "
        "until these pods end."
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
        "facts sha256:ab.., and no known facts produce a template with this name"
    ),
    remedy="Delete the pod. Its owner creates it again, and the new pod is translated.",
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
