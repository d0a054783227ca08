"""The findings of this package."""

from dra.finding import Code, Codes, Severity

VERSION_UNKNOWN = Code(
    name="ServerVersionUnknown",
    severity=Severity.WARNING,
    text="The API server is of a version that is not known here; the nearest known one is assumed.",
    example="the API server is 1.39, and 1.37 is assumed",
    remedy="Use a release of Drawbridge that knows the version.",
)
PROBE_REFUSED = Code(
    name="ProbeRefused",
    severity=Severity.WARNING,
    text=(
        "Whether the API server keeps a field of a claim could not be tried, because it refused "
        "the trial. Nothing that needs the field is translated."
    ),
    example="exactly.capacity: 422 Invalid: spec.spec.devices.requests[0]: ...",
    remedy="See what the message names; another admission webhook may refuse the template.",
)
NAME_NOT_ACTIVE = Code(
    name="NameNotActive",
    severity=Severity.WARNING,
    text=(
        "The webhook configuration in the cluster does not send every pod that the configuration "
        "of Drawbridge speaks of, so such pods may be admitted untranslated."
    ),
    example="webhook pods.drawbridge.dev: its condition asks-for-devices is another than ours",
    remedy=(
        "Wait a moment, the controller corrects it; if the message stays, see that the controller "
        "runs, may patch the configuration, and that nobody else writes these matchConditions."
    ),
)
DUAL_NODES = Code(
    name="DualNodes",
    severity=Severity.WARNING,
    text=(
        "Nodes advertise a device plugin's resource beside slices with the same devices. One "
        "device could be handed out twice, so translated pods keep off these nodes."
    ),
    example="gpu-a, gpu-b advertise nvidia.com/gpu beside slices: 16 devices of DRA stay idle",
    remedy="Turn the device plugin off there, or the DRA driver.",
)
DUAL_HELD = Code(
    name="DualNodesHeld",
    severity=Severity.WARNING,
    text=(
        "A node no longer advertises the devices that slices show, but what its device plugin gave "
        "away is still held. Translated pods keep off until it is given back."
    ),
    example="gpu-a: 3 pods still hold what a plugin gave them for nvidia.com/gpu",
    remedy="Drain the node, or delete these pods: the label goes with the last of them.",
)
OTHER_WEBHOOK = Code(
    name="OtherWebhook",
    severity=Severity.WARNING,
    text="Another webhook changes or checks the same pods for devices.",
    example="hami-webhook (vgpu.hami.io, HAMi) runs after ours on the same pods",
    remedy="Keep it off the namespaces that are translated, by its namespaceSelector.",
)
TEMPLATE_UNKNOWN = Code(
    name="TemplateNotReproduced",
    severity=Severity.WARNING,
    text=(
        "A pod waits for a ResourceClaimTemplate that is gone, and what the pod says does not "
        "give a template of that name with any facts that are still known."
    ),
    example="drawbridge-4b7d... was made with facts sha256:ab.., which are no longer kept",
    remedy="Delete the pod; its owner makes it again, and it is translated anew.",
)
QUOTA_MIRRORED = Code(
    name="QuotaMirrored",
    severity=Severity.INFO,
    text=(
        "No class is mapped to a resource with a quota. What claims may hold is limited by a "
        "quota of ours, drawbridge-quota, and device plugins and claims share the limit. Each is "
        "held to it at once; what both take at the same moment may together be up to twice the "
        "limit. The entry count/recounts.drawbridge.dev limits nothing."
    ),
    example="requests.nvidia.com/gpu: 10 in team-a: gpu.nvidia.com 10 in drawbridge-quota",
    remedy="A DeviceClass with that extendedResourceName lets Kubernetes count both by itself.",
)
QUOTA_UNBOUND = Code(
    name="QuotaDoesNotBind",
    severity=Severity.WARNING,
    text="A quota on a device resource does not limit the claims that take its place.",
    example="requests.nvidia.com/gpumem in team-a limits no number of devices",
    remedy="Limit the class by <class>.deviceclass.resource.k8s.io/devices in a quota of your own.",
)
QUOTA_SHARES = Code(
    name="QuotaCountsDevices",
    severity=Severity.INFO,
    text="The resource is a share of a device, and the quota of its class counts every one as one.",
    example="requests.nvidia.com/gpu.shared: 10 in team-a: each share counts as a device",
    remedy="Set the limit for shares, not for devices.",
)

CODES = Codes(
    "controller",
    [
        VERSION_UNKNOWN,
        PROBE_REFUSED,
        NAME_NOT_ACTIVE,
        DUAL_NODES,
        DUAL_HELD,
        OTHER_WEBHOOK,
        TEMPLATE_UNKNOWN,
        QUOTA_MIRRORED,
        QUOTA_UNBOUND,
        QUOTA_SHARES,
    ],
)
