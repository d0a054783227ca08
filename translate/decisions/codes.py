"""The findings of decisions about asks."""

from dra.finding import Code, Codes, Severity

LEFT_TO_CLASS = Code(
    name="LeftToClass",
    severity=Severity.INFO,
    text="A DeviceClass serves the name as it stands, so the request needs no translation.",
    example="spec.containers[0]: nvidia.com/gpu is served by class gpu.nvidia.com",
    remedy="Say decisions.nativeExtendedNames: translate to have a claim all the same.",
)
CLASS_WOULD_SERVE = Code(
    name="ClassWouldServe",
    severity=Severity.INFO,
    text="A request is translated that a DeviceClass would have served as it stood.",
    example="spec.containers[0]: class gpu.nvidia.com would have served nvidia.com/gpu",
    remedy="Say decisions.nativeExtendedNames: leave to leave such requests alone.",
)
LEFT_TO_PLUGIN = Code(
    name="LeftToPlugin",
    severity=Severity.WARNING,
    text="A request stays with its device plugin, because a claim would give something worth less.",
    example="spec.containers[0]: rdma/hca_shared_devices_a stays with its device plugin",
    remedy="Nothing while the plugin stays; take the plugin away to have it translated.",
)
LEFT_AS_IT_IS = Code(
    name="LeftAsItIs",
    severity=Severity.WARNING,
    text="A claim cannot say what is asked for; it stays with who serves it.",
    example="spec.containers[0]: nvidia.com/gpumem stays with the plugin that serves it",
    remedy="See the finding beside it for what keeps it from being said.",
)
NOTHING_SAYS_IT = Code(
    name="NothingSaysIt",
    severity=Severity.ERROR,
    text="What is asked for has no counterpart in DRA.",
    example="spec.containers[0]: koordinator.sh/fpga becomes nothing: no DRA driver is known",
    remedy="Run the pod where a device plugin serves the name, or take the request away.",
)
LOST_ALWAYS = Code(
    name="LostInClaims",
    severity=Severity.WARNING,
    text="A property of what is asked for is lost, whichever driver serves the claim.",
    example="spec.containers[0]: intel.com/sriov loses environment in a claim",
    remedy="Check that the pod does without it.",
)
SERVER_UNKNOWN = Code(
    name="ServerUnknown",
    severity=Severity.WARNING,
    text="Nothing is known of the cluster, so a legacy name counts as served by a device plugin.",
    example="spec: nvidia.com/gpu counts as served by a device plugin",
    remedy="Give the cluster with --context or --cluster, or its facts with --facts.",
)
POD_BOUND = Code(
    name="PodBound",
    severity=Severity.WARNING,
    text="The pod has a node already, so nobody would allocate a claim of it; it is left alone.",
    example="spec.nodeName: the pod is on node worker-1",
    remedy="Take nodeName away, or translate the workload it comes from.",
)
POD_MIRRORED = Code(
    name="PodMirrored",
    severity=Severity.WARNING,
    text="The pod mirrors a static one of its node, which cannot have claims; it is left alone.",
    example="metadata.annotations[kubernetes.io/config.mirror]: the pod is a mirror",
    remedy="Make the static pod a workload of the cluster.",
)
PLACE_TAKEN = Code(
    name="PlaceTaken",
    severity=Severity.ERROR,
    text="A place where claims are to be added holds something else than a list of claims.",
    example="spec.resourceClaims: it is no list",
    remedy="Correct the pod.",
)

CODES = Codes(
    "translate: decisions",
    [
        LEFT_TO_CLASS,
        CLASS_WOULD_SERVE,
        LEFT_TO_PLUGIN,
        LEFT_AS_IT_IS,
        NOTHING_SAYS_IT,
        LOST_ALWAYS,
        SERVER_UNKNOWN,
        POD_BOUND,
        POD_MIRRORED,
        PLACE_TAKEN,
    ],
)
