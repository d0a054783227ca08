"""Finding codes of objects of any kind."""

from drawbridge.finding import Activity, Codes, Severity

CODES = Codes(Activity.TRANSLATE)

REQUEST_NOT_IN_POD = CODES.define(
    "RequestNotInPod",
    Severity.WARNING,
    text=(
        "An object requests a device outside a pod template that Drawbridge knows. The request "
        "stays unchanged."
    ),
    example=(
        "spec.trainer.resourcesPerNode.limits[nvidia.com/gpu]: TrainJob requests "
        "nvidia.com/gpu outside a known pod template"
    ),
    remedy=(
        "Let the webhook translate the pods when they are created, or translate the object "
        "that creates them."
    ),
)
RENDERED_LATER = CODES.define(
    "RenderedLater",
    Severity.WARNING,
    text=(
        "An object of Flux, Argo CD or K3s has values or patches for what the tool renders. They "
        "may request devices in ways that are known only after that."
    ),
    example=(
        "spec.values: HelmRelease changes what it renders by values, which is not translated; it "
        "names nvidia.com/gpu"
    ),
    remedy=(
        "Let the webhook translate the pods when they are created, or translate the output of the "
        "tool. docs/gitops.md shows how."
    ),
)
LEGACY_NAME_USED = CODES.define(
    "LegacyNameUsed",
    Severity.WARNING,
    text=(
        "A flavor, a node pool or a policy names a resource or a node label of a device plugin. "
        "Translated pods no longer request the resource, and nodes without the plugin do not have "
        "its labels, so the object no longer has an effect on them."
    ),
    example="spec.nodeLabels: ResourceFlavor names nvidia.com/gpu.product",
    remedy=(
        "Use labels that are not from the device plugin, and read the claims of pods in policies."
    ),
)
CLAIMS_REFUSED = CODES.define(
    "ClaimsRefused",
    Severity.WARNING,
    text=(
        "Knative refuses objects with `resources.claims` in a container. A Service of Knative is "
        "not translated, and an InferenceService of KServe works only if KServe does not use "
        "Knative for it."
    ),
    example=(
        "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]: Knative refuses claims "
        "in a Service, so nvidia.com/gpu stays in it"
    ),
    remedy="Let the webhook translate the pods when they are created.",
)
QUOTA_COUNTS_NAMES = CODES.define(
    "QuotaCountsNames",
    Severity.WARNING,
    text=(
        "A quota counts an extended resource that translated pods no longer request, so it "
        "does not limit them."
    ),
    example=(
        "spec.hard[requests.nvidia.com/gpu]: requests.nvidia.com/gpu does not count translated pods"
    ),
    remedy=(
        "Limit the DeviceClasses of the claims as well. In a ResourceQuota, add the entry "
        "<class>.deviceclass.resource.k8s.io/devices."
    ),
)
TEMPLATE_IN_INPUT_DIFFERS = CODES.define(
    "TemplateInInputDiffers",
    Severity.ERROR,
    text=(
        "A ResourceClaimTemplate in the input has the name of a generated template but "
        "different content."
    ),
    example=(
        "ResourceClaimTemplate/team/drawbridge-4f.. spec: drawbridge-4f.. exists in the input with "
        "different content"
    ),
    remedy="Remove the template from the input. The translation generates it again.",
)

RAY_GPUS_LOST = CODES.define(
    "RayGpusLost",
    Severity.WARNING,
    text=(
        "KubeRay reads the number of GPUs of a Ray group from the limits of its first container. "
        "The translation removes this limit, so Ray schedules no GPU tasks on the group."
    ),
    example=(
        "spec.workerGroupSpecs[0].rayStartParams: num-gpus is not set, and KubeRay can no longer "
        "read it from the limit nvidia.com/gpu: 2, which the translation removes"
    ),
    remedy='Set `rayStartParams.num-gpus` of the group to the number of GPUs, such as "2".',
)
ORIGINAL_UNUSABLE = CODES.define(
    "OriginalUnusable",
    Severity.ERROR,
    text=(
        "The annotation with the original requests is invalid, or the object was changed so that "
        "it no longer fits. The object stays as it is."
    ),
    example=(
        "metadata.annotations[drawbridge.dev/original]: the original requests cannot be restored: "
        "spec.containers[0].name has changed"
    ),
    remedy="Apply the original manifest, or edit the object.",
)
