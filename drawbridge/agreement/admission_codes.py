"""The finding codes of the webhook."""

from drawbridge.finding import Activity, Codes, Severity, Trait

CODES = Codes(Activity.CREATE_PODS)

SCOPE_LABEL_UNKNOWN = CODES.define(
    "ScopeLabelUnknown",
    Severity.WARNING,
    text="The namespace label drawbridge.dev/translate has an invalid value.",
    example=(
        "namespace team-a has the label value on, which is not valid; its pods are not translated"
    ),
    remedy="Set the label of the namespace to enforce, report or off.",
)
PLACEMENT_LABEL_UNKNOWN = CODES.define(
    "PlacementLabelUnknown",
    Severity.WARNING,
    text=(
        "A namespace has a label drawbridge.dev/placement with another value than native or "
        "bridge. It counts as no label, so `bridge.namespaceSelector` decides."
    ),
    example=(
        "namespace team has the label drawbridge.dev/placement with the value brigde, which is "
        "not valid"
    ),
    remedy="Set the label to native or bridge, or remove it.",
)
POD_LABEL_UNKNOWN = CODES.define(
    "PodLabelUnknown",
    Severity.WARNING,
    text=(
        "The label drawbridge.dev/translate of a pod has a value without effect. A pod can only "
        "opt out with the value off. The label of the namespace sets the mode."
    ),
    example=(
        "metadata.labels[drawbridge.dev/translate]: the label value is report, but on a pod only "
        "off has an effect"
    ),
    remedy=(
        "To opt out, set the label of the pod to off. To change the mode, set the label of the "
        "namespace."
    ),
)
TEMPLATE_TAKEN = CODES.define(
    "TemplateTaken",
    Severity.ERROR,
    Trait.DEPENDS_ON_NAMESPACE,
    text=(
        "The pod needs a ResourceClaimTemplate that exists with different content. The name of the "
        "template contains a hash of the content, so a user or another client created it."
    ),
    example="ResourceClaimTemplate team-a/drawbridge-0a1b... exists with different content",
    remedy="Delete the template. Drawbridge then creates it with the right content.",
)
CLAIM_FIELD_DROPPED = CODES.define(
    "ClaimFieldDropped",
    Severity.ERROR,
    text=(
        "The API server drops a field of the claim, because its version is too old or a feature "
        "gate is disabled. Without the field, the claim would get more or other devices than the "
        "pod requests."
    ),
    example=(
        "ResourceClaimTemplate drawbridge-0a1b...: this API server drops the field "
        "spec.spec.devices.requests[0].exactly.capacity"
    ),
    remedy=(
        "Enable the feature gate in the API server and the scheduler, or request whole devices."
    ),
)
TEMPLATE_LATER = CODES.define(
    "TemplateLater",
    Severity.INFO,
    text=(
        "The template for a claim of the pod has not been created yet. The pod stays pending "
        "until it exists."
    ),
    example="ResourceClaimTemplate team-a/drawbridge-0a1b... has not been created yet",
    remedy="No action is needed. The controller creates the template.",
)
TEMPLATE_REFUSED = CODES.define(
    "TemplateRefused",
    Severity.WARNING,
    text=(
        "The API server rejects the template for a claim of the pod because of a quota, a policy, "
        "or a missing permission. The pod stays pending until the template exists."
    ),
    example="ResourceClaimTemplate drawbridge-0a1b...: 403 Forbidden: exceeded quota: objects",
    remedy="Fix the cause that the message names. The controller tries again every few seconds.",
)
LIMIT_RANGE_EXCEEDED = CODES.define(
    "LimitRangeExceeded",
    Severity.ERROR,
    Trait.DEPENDS_ON_NAMESPACE,
    text="The device requests of a pod violate a LimitRange of the namespace.",
    example=(
        "LimitRange gpus allows at most 2 nvidia.com/gpu per Container, but container main has "
        "limit 4 and request 4"
    ),
    remedy=(
        "Request an amount that the LimitRange allows, or ask the administrator to change the "
        "LimitRange."
    ),
)
LIMIT_RANGE_UNMEETABLE = CODES.define(
    "LimitRangeUnmeetable",
    Severity.ERROR,
    Trait.DEPENDS_ON_NAMESPACE,
    text=(
        "A LimitRange requires each container or pod to request a device by its legacy name. A "
        "translated pod has no such request, so the API server would reject it."
    ),
    example=(
        "LimitRange gpus requires at least 1 nvidia.com/gpu per Container, but container main "
        "requests these devices through a claim"
    ),
    remedy="Remove the entry from the LimitRange, and limit claims with a ResourceQuota.",
)
QUOTA_EXCEEDED = CODES.define(
    "QuotaExceeded",
    Severity.ERROR,
    Trait.DEPENDS_ON_NAMESPACE,
    text="The charges for the claims of the pod exceed the remaining amount of a ResourceQuota.",
    example=(
        "ResourceQuota gpus: requests.nvidia.com/gpu: the claims of the pod request 2, but 7 of 8 "
        "are in use"
    ),
    remedy=(
        "Wait until devices are released, request fewer devices, or ask the administrator to raise "
        "the quota."
    ),
)
QUOTA_NOT_ON_CLAIMS = CODES.define(
    "QuotaNotOnClaims",
    Severity.WARNING,
    text=(
        "A ResourceQuota limits a legacy name that no DeviceClass maps. It does not count the "
        "claims of translated pods, because claims are charged to their DeviceClass."
    ),
    example=(
        "ResourceQuota gpus: requests.nvidia.com/gpu does not count claims; no quota limits them"
    ),
    remedy="Add <class>.deviceclass.resource.k8s.io/devices to a ResourceQuota of the namespace.",
)
DEVICES_FIXED = CODES.define(
    "DevicesFixed",
    Severity.ERROR,
    text="The device requests of an existing pod cannot be changed.",
    example=(
        "spec.containers[0].resources.limits: container main: the update changes nvidia.com/gpu "
        "from 1 to 2"
    ),
    remedy="Delete the pod and create it again.",
)
HINT_WITHOUT_EFFECT = CODES.define(
    "HintWithoutEffect",
    Severity.WARNING,
    text="An update changes an annotation about devices after the devices of the pod were chosen.",
    example=(
        "metadata.annotations[gpu-fraction]: the value was 0.5 when the pod was created, and the "
        "update changes it to 0.7"
    ),
    remedy="Delete the pod and create it again.",
)
REQUESTS_ADDED_LATE = CODES.define(
    "RequestsAddedLate",
    Severity.ERROR,
    text=(
        "A pod requests devices by a legacy name after all mutating webhooks have run. Another "
        "webhook added the request after Drawbridge had seen the pod, or added the first request "
        "of a pod that the API server does not send to Drawbridge. Without the denial the pod "
        "would use the device plugin. For a few minutes after a change of the configuration, the "
        "facts or the match conditions, and after the start of the webhook, this is a warning."
    ),
    example=(
        "spec.containers[0].resources: container main: the request for nvidia.com/gpu was added by "
        "a webhook that ran after pods.drawbridge.dev, so the pod was not translated"
    ),
    remedy=(
        "Give MutatingWebhookConfiguration drawbridge a name that sorts after the configuration of "
        "the webhook that adds the request, or set admission.everyPod: true."
    ),
)
