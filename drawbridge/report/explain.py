"""Explains one pod: its original requests, its claims, the allocated devices, and what is missing.

Takes plain objects from the API server or from files. Ignores malformed parts of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from drawbridge.config.model import Configuration
from drawbridge.documents.document import name_object
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.counted import list_some
from drawbridge.dra.quantity import format_amount
from drawbridge.finding import EXPLAINED, Finding
from drawbridge.ledger.allocation_mark import is_allocated_by_us
from drawbridge.names import (
    FACTS_ANNOTATION,
    NAMESPACE,
    ORIGINAL_ANNOTATION,
    POD_ANNOTATIONS,
    TEMPLATE_PREFIX,
    USED_ANNOTATION,
)
from drawbridge.report import codes, gangs, scheduling
from drawbridge.report.claim_requests import describe_claim, read_amounts
from drawbridge.report.device_holders import is_pod_group
from drawbridge.report.events import SeenEvent, describe_events, is_about
from drawbridge.report.not_translated import FindMode, find_no_mode, report_not_translated
from drawbridge.report.stuck.codes import CODES as STUCK
from drawbridge.report.stuck.codes import NEVER_PREPARED
from drawbridge.report.stuck.find import report_stuck
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.tied_pods import report_tied
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.changes.template import generate_name
from drawbridge.translate.legacy.pod_view import is_device_resource
from drawbridge.translate.legacy.read import read_hints
from drawbridge.translate.returned_requests import list_own_claims, report_beside_claims

# The name of the claim that the scheduler creates. No entry of a pod can have it.
EXTENDED_RESOURCES: Final = "of extended resources"
_STARTED: Final = frozenset({"Running", "Succeeded", "Failed"})
_MOST_UNREADY: Final = 3
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True)
class PodObjects:
    """A pod, its claims and templates by name, its events, and its namespace if known.

    `pods` are those of the namespace, or None if they may not be read, and `groups` the objects of
    groups, as far as they are known.
    `lease` is the Lease of Drawbridge's scheduler in the namespace `installed_in`: empty if there
    is none, None if unknown. `find_mode` tells the mode of a pod of the namespace. Of what is
    `stuck`, only what is about the pod is told. Of a pod that `is_live`, the reasons of the nodes
    are told with the explanation. `nodes` are nodes by name, as far as they are known. Without a
    `configuration`, nothing is told of requests beside claims, which takes long in large pods.
    """

    pod: Value
    claims: Mapping[str, Value] = field(default_factory=dict)
    templates: Mapping[str, Value] = field(default_factory=dict)
    events: Sequence[Value] = ()
    namespace: Value = None
    lease: Value = None
    installed_in: str = NAMESPACE
    pods: Sequence[Value] | None = ()
    groups: Sequence[Value] = ()
    find_mode: FindMode = find_no_mode
    stuck: Sequence[Stuck] = ()
    is_live: bool = False
    nodes: Mapping[str, Value] = field(default_factory=dict)
    configuration: Configuration | None = None


class RequestedResource(msgspec.Struct, frozen=True):
    """A device resource that one container requested in the original manifest."""

    container: str
    resource: str
    amount: str


class AllocatedDevice(msgspec.Struct, frozen=True):
    """A device, or a share of one, that is allocated to the pod."""

    request: str
    driver: str
    pool: str
    device: str
    consumed: Mapping[str, str] = {}


class ExplainedClaim(msgspec.Struct, frozen=True):
    """A claim of the pod: its requests, state and devices."""

    name: str  # the name in the pod spec
    # template missing, not generated, missing, pending, being allocated, allocated, reserved
    state: str
    template: str | None = None
    claim: str | None = None
    containers: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    devices: tuple[AllocatedDevice, ...] = ()
    allocator: str | None = None  # of an allocated claim, if it is Drawbridge's
    allocated: str | None = None  # when it was


class Explanation(msgspec.Struct, frozen=True):
    """The state of a pod and its claims; `rule` is what decided its mode."""

    pod: str
    phase: str
    node: str | None
    scheduler: str
    placed: bool
    translated: bool
    mode: str | None
    rule: str | None
    facts: str | None
    asked: tuple[RequestedResource, ...]
    hints: Mapping[str, str]  # annotations and labels that request devices, or did before
    claims: tuple[ExplainedClaim, ...]
    findings: tuple[Finding, ...]
    events: tuple[SeenEvent, ...]
    created: str | None = None
    gang: gangs.ExplainedGang | None = None


def explain(objects: PodObjects) -> Explanation:
    """Explain the pod of these objects."""
    pod = objects.pod
    metadata = as_mapping(get_value(pod, ("metadata",)))
    status = as_mapping(get_value(pod, ("status",)))
    before = restore_original(pod)
    marked = get_value(pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)) is not None
    node = _text(get_value(pod, ("spec", "nodeName")))
    claims = tuple(_claims(objects))
    mode = objects.find_mode(pod)
    explanation = Explanation(
        pod=f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}",
        phase=_text(status.get("phase")) or "Pending",
        node=node or None,
        scheduler=scheduling.scheduler_of(pod),
        placed=bool(node) and all(each.state in _HELD for each in claims),
        translated=bool(list_own_claims(pod)),
        mode=mode and mode.mode,
        rule=mode and mode.rule,
        facts=_text(get_value(pod, ("metadata", "annotations", FACTS_ANNOTATION))) or None,
        asked=tuple(_requested_resources(pod, before)),
        hints=_hints(pod, before),
        claims=claims,
        findings=(),
        events=tuple(describe_events(_events_about(pod, objects.events))),
        created=_text(metadata.get("creationTimestamp")) or None,
        gang=gangs.explain_gang(pod, objects.pods, objects.groups),
    )
    unreadable = "does not match this pod" if marked and before is None else ""
    findings = tuple(_findings(objects, explanation, unreadable))
    return msgspec.structs.replace(explanation, findings=findings)


def is_stuck(pod: Explanation) -> bool:
    """Whether something about the pod does not go on."""
    return any(each.code in STUCK for each in pod.findings)


def referenced_names(pod: Value) -> tuple[list[str], list[str]]:
    """Return the names of the claims and of the templates that a pod refers to."""
    statuses = as_list(get_value(pod, ("status", "resourceClaimStatuses")))
    entries = [*as_list(get_value(pod, ("spec", "resourceClaims"))), get_value(pod, _EXTENDED)]
    keys = ("resourceClaimName", "resourceClaimTemplateName")
    claims, templates = (
        [_text(name) for each in (*entries, *statuses) if (name := as_mapping(each).get(key))]
        for key in keys
    )
    return claims, templates


# --- original requests ---------------------------------------------------------------------------


def _requested_resources(pod: Value, before: Value | None) -> Iterator[RequestedResource]:
    """Yield the resources that the translation removed, or those of an untranslated pod."""
    now = {(each.container, each.resource) for each in _device_resources(pod)}
    for device_resource in _device_resources(pod if before is None else before):
        if before is None or (device_resource.container, device_resource.resource) not in now:
            yield device_resource


def _device_resources(pod: Value) -> Iterator[RequestedResource]:
    for kind in _CONTAINERS:
        for container in map(as_mapping, as_list(get_value(pod, ("spec", kind)))):
            resources = as_mapping(container.get("resources"))
            limits = as_mapping(resources.get("limits"))
            amounts = {**as_mapping(resources.get("requests")), **limits}
            of = _text(container.get("name"))
            for name in filter(is_device_resource, amounts):
                yield RequestedResource(of, name, format_amount(amounts[name]))


def _hints(pod: Value, before: Value | None) -> dict[str, str]:
    """Return the annotations and labels that the translation removed, or that request devices."""
    hints: dict[str, str] = {}
    if before is None:
        return {key: _text(value) for key, value in read_hints(pod).items()}
    for part in ("annotations", "labels"):
        now = as_mapping(get_value(pod, ("metadata", part)))
        for key, value in as_mapping(get_value(before, ("metadata", part))).items():
            if now.get(key) != value and key not in POD_ANNOTATIONS:
                hints[key] = _text(value)
    return hints


# --- claims --------------------------------------------------------------------------------------

_EXTENDED: Final = ("status", "extendedResourceClaimStatus")
_MAPPINGS: Final = "requestMappings"
_NOT_NEEDED: Final = "not needed"
_HELD: Final = ("allocated", "reserved", _NOT_NEEDED)
_NO_CLAIM: Final = ("template missing", "not generated", "missing")


def _claims(objects: PodObjects) -> Iterator[ExplainedClaim]:
    statuses = as_list(get_value(objects.pod, ("status", "resourceClaimStatuses")))
    generated = {_text(each.get("name")): each for each in map(as_mapping, statuses)}
    for entry in map(as_mapping, as_list(get_value(objects.pod, ("spec", "resourceClaims")))):
        name = _text(entry.get("name"))
        template = _text(entry.get("resourceClaimTemplateName")) or None
        claim = _text(entry.get("resourceClaimName")) or None
        if template and name in generated:
            claim = _text(generated[name].get("resourceClaimName")) or None
        claim_object = objects.claims.get(claim or "")
        source = claim_object
        if source is None:
            source = _template_spec(objects.templates.get(template or ""))
        yield ExplainedClaim(
            name=name,
            state=_state(objects, template, claim, generated=name in generated),
            template=template,
            claim=claim,
            containers=tuple(_containers_using(objects.pod, name)),
            requests=tuple(describe_claim(source)),
            devices=tuple(_devices(claim_object)),
            allocator=_allocator(claim_object),
            allocated=_allocation_time(claim_object),
        )
    yield from _extended_resource_claim(objects)


def _extended_resource_claim(objects: PodObjects) -> Iterator[ExplainedClaim]:
    """Yield the claim that the scheduler created for extended resources of a DeviceClass."""
    status = as_mapping(get_value(objects.pod, _EXTENDED))
    claim = _text(status.get("resourceClaimName"))
    if not claim:
        return
    claim_object = objects.claims.get(claim)
    users = (
        _text(as_mapping(mapping).get("containerName"))
        for mapping in as_list(status.get(_MAPPINGS))
    )
    yield ExplainedClaim(
        name=EXTENDED_RESOURCES,
        state=_state(objects, None, claim, generated=True),
        claim=claim,
        containers=tuple(dict.fromkeys(users)),
        requests=tuple(describe_claim(claim_object)),
        devices=tuple(_devices(claim_object)),
        allocated=_allocation_time(claim_object),
    )


def _state(objects: PodObjects, template: str | None, claim: str | None, *, generated: bool) -> str:
    if claim is None:
        if generated:
            return _NOT_NEEDED
        return "not generated" if template in objects.templates else "template missing"
    claim_object = objects.claims.get(claim)
    if claim_object is None:
        return "missing"
    if not as_mapping(get_value(claim_object, ("status", "allocation"))):
        return "being allocated" if scheduling.is_marked(claim_object) else "pending"
    uid = get_value(objects.pod, ("metadata", "uid"))
    if scheduling.is_reserved_for(claim_object, uid):
        return "reserved"
    users = map(as_mapping, as_list(get_value(claim_object, ("status", "reservedFor"))))
    # A pod does not know the UID of its group.
    group = get_value(objects.pod, ("spec", "schedulingGroup", "podGroupName"))
    is_reserved = any(is_pod_group(each) and each.get("name") == group for each in users)
    return "reserved" if is_reserved else "allocated"


def _allocator(claim: Value) -> str | None:
    read = read_claim(claim)
    return "drawbridge" if isinstance(read, Claim) and is_allocated_by_us(read) else None


def _allocation_time(claim: Value) -> str | None:
    return _text(get_value(claim, ("status", "allocation", "allocationTimestamp"))) or None


def _template_spec(template: Value) -> Value:
    return get_value(template, ("spec",))


def _containers_using(pod: Value, name: str) -> Iterator[str]:
    for kind in _CONTAINERS:
        for container in map(as_mapping, as_list(get_value(pod, ("spec", kind)))):
            uses = map(as_mapping, as_list(get_value(container.get("resources"), ("claims",))))
            if any(use.get("name") == name for use in uses):
                yield _text(container.get("name"))


def _devices(claim: Value) -> Iterator[AllocatedDevice]:
    results = as_list(get_value(claim, ("status", "allocation", "devices", "results")))
    for result in map(as_mapping, results):
        yield AllocatedDevice(
            request=_text(result.get("request")),
            driver=_text(result.get("driver")),
            pool=_text(result.get("pool")),
            device=_text(result.get("device")),
            consumed=read_amounts(result.get("consumedCapacity")),
        )


# --- findings ------------------------------------------------------------------------------------


def _findings(objects: PodObjects, pod: Explanation, unreadable: str) -> Iterator[Finding]:
    about = name_object(objects.pod, 1)
    if not pod.translated and (pod.asked or pod.hints):
        names = (*(request.resource for request in pod.asked), *pod.hints)
        yield report_not_translated(objects.pod, names, objects.find_mode(objects.pod), about)
    if objects.configuration is not None:
        for finding in report_beside_claims(objects.pod, objects.configuration, None):
            yield msgspec.structs.replace(finding, object=about)
    if unreadable:
        path = f"metadata.annotations[{ORIGINAL_ANNOTATION}]"
        yield codes.ORIGINAL_UNREADABLE.at(path, unreadable, object=about)
    for i, claim in enumerate(pod.claims):
        path = "" if claim.name == EXTENDED_RESOURCES else f"spec.resourceClaims[{i}]"
        yield from _claim_findings(objects, claim, about, path, pod.events)
    stuck = [*report_stuck(_select_stuck(objects.stuck, pod))]
    yield from stuck
    told = {each.code for each in stuck}
    for finding in _pod_findings(objects, pod, about):
        if not (finding.code == codes.DEVICES_NOT_PREPARED.name and NEVER_PREPARED.name in told):
            yield finding


def _select_stuck(stuck: Sequence[Stuck], pod: Explanation) -> Iterator[Stuck]:
    """Yield what is about the pod, its claims or its namespace."""
    namespace = pod.pod.partition("/")[0]
    mine = {f"Pod/{pod.pod}", f"Namespace/{namespace}"}
    mine |= {f"ResourceClaim/{namespace}/{each.claim}" for each in pod.claims if each.claim}
    return (each for each in stuck if each.about & mine)


def _claim_findings(
    objects: PodObjects,
    explained: ExplainedClaim,
    about: str,
    path: str,
    events: Sequence[SeenEvent],
) -> Iterator[Finding]:
    namespace = get_value(objects.pod, ("metadata", "namespace")) or "default"
    claim = f"ResourceClaim/{namespace}/{explained.claim}"
    if other := _find_other_name(objects.templates.get(explained.template or "")):
        message = f"content has the hash of {other}"
        template = f"ResourceClaimTemplate/{namespace}/{explained.template}"
        yield codes.TEMPLATE_DIFFERS.at("spec", message, object=template)
    if explained.state == "template missing":
        message = f"ResourceClaimTemplate {explained.template} not found"
        remedy = _refer_to_event(explained.template or "", events)
        yield codes.TEMPLATE_MISSING.at(path, message, object=about, remedy=remedy)
    elif explained.state == "not generated":
        message = f"no claim created from template {explained.template} yet"
        yield codes.CLAIM_NOT_GENERATED.at(path, message, object=about)
    elif explained.state == "missing":
        yield codes.CLAIM_GONE.at(path, f"ResourceClaim {explained.claim} not found", object=about)
    elif explained.state == "pending":
        remedy = codes.SEE_CONDITION if objects.is_live else None
        yield codes.CLAIM_PENDING.at("", "no devices allocated", object=claim, remedy=remedy)
    elif explained.state == "allocated":
        users = as_list(get_value(objects.claims[explained.claim or ""], ("status", "reservedFor")))
        names = ", ".join(_text(as_mapping(user).get("name")) for user in users) or "no pod"
        message = f"reserved for {names}, not for this pod"
        yield codes.CLAIM_NOT_RESERVED.at("", message, object=claim)


def _refer_to_event(template: str, events: Sequence[SeenEvent]) -> str | None:
    """Return the remedy if the last event that names the template is a finding of Drawbridge."""
    reasons = [e.reason for e in events if e.reason in EXPLAINED and template in e.message]
    return codes.SEE_EVENT.format(reasons[-1]) if reasons else None


def _find_other_name(template: Value) -> str:
    """Return the name that belongs to the content of a template of ours, if it has another one.

    Labels and annotations that others add to a template later do not change its name.
    """
    name = _text(get_value(template, ("metadata", "name")))
    if not name.startswith(TEMPLATE_PREFIX):
        return ""
    spec = as_mapping(_template_spec(template))
    spec = {"metadata": _labels_and_annotations(spec.get("metadata")), "spec": spec.get("spec")}
    first = generate_name({}, spec)
    if name == first:
        return ""
    labelled = generate_name(_labels_and_annotations(get_value(template, ("metadata",))), spec)
    return "" if name == labelled else first


def _labels_and_annotations(metadata: Value) -> dict[str, Value]:
    """Return the labels and annotations without the one that says when a template was used."""
    return {
        part: {key: text for key, text in texts.items() if key != USED_ANNOTATION}
        for part in ("labels", "annotations")
        if (texts := as_mapping(as_mapping(metadata).get(part)))
    }


def _pod_findings(objects: PodObjects, pod: Explanation, about: str) -> Iterator[Finding]:
    if pod.phase in _STARTED:
        return
    if pod.gang is not None and pod.node is None:
        for finding in gangs.report_gang(pod.gang, objects.pod):
            yield msgspec.structs.replace(finding, object=about)
    conditions = [*_conditions(objects.pod, "PodScheduled")]
    if pod.node is None and not conditions and any(e.state in _NO_CLAIM for e in pod.claims):
        # Until it has its claims, no scheduler tries the pod.
        return
    held = [
        objects.claims.get(each.claim or "") for each in pod.claims if each.state != _NOT_NEEDED
    ]
    is_bound_next = scheduling.is_being_bound(objects.pod, held)
    unready = [*scheduling.find_unready_devices(held)] if is_bound_next else []
    is_untried = scheduling.is_untried(objects.pod)
    lease = scheduling.describe_lease(objects.lease, objects.installed_in) if is_untried else ""
    if unready or (is_bound_next and is_untried):
        yield _report_binding(pod, unready, (lease, *conditions), about)
    elif is_untried:
        text = f"the scheduler {pod.scheduler} has not tried the pod yet"
        message = ": ".join(filter(None, (text, lease)))
        yield codes.POD_PENDING.at("", message, object=about, remedy=scheduling.REMEDY)
    elif pod.node is None:
        message = "; ".join(conditions)
        remedy = codes.FREE_RESOURCES if objects.is_live else None
        remedy = remedy if message else f"Check that the scheduler {pod.scheduler} runs."
        message = message or f"no message from the scheduler {pod.scheduler} yet"
        yield codes.POD_PENDING.at("", message, object=about, remedy=remedy)
        if pod.translated:
            kept = {each.resource for each in _device_resources(objects.pod)}
            asked = (each.resource for each in pod.asked if each.resource not in kept)
            yield from report_tied(objects.pod, asked, objects.nodes, about)
    elif pod.placed and pod.claims:
        told = (each.text for each in reversed(pod.events))
        message = next((each for each in told if "Prepare" in each), "")
        yield codes.DEVICES_NOT_PREPARED.at(
            "", message or f"not started on node {pod.node}", object=about
        )


def _report_binding(
    pod: Explanation, unready: Sequence[str], said: Sequence[str], about: str
) -> Finding:
    """Report a pod that has its devices and no node; `said` may say why it is not bound."""
    shown = list_some(unready, _MOST_UNREADY, "device")
    text = f"the pod has its devices, and the scheduler {pod.scheduler} has not bound it yet"
    message = "; ".join(filter(None, (text, shown, *said)))
    remedy = scheduling.WAIT_FOR_DRIVER if unready else scheduling.REMEDY
    return codes.POD_PENDING.at("", message, object=about, remedy=remedy)


def _conditions(pod: Value, kind: str) -> Iterator[str]:
    for condition in map(as_mapping, as_list(get_value(pod, ("status", "conditions")))):
        if (
            condition.get("type") == kind
            and condition.get("status") != "True"
            and condition.get("message")
        ):
            yield _text(condition.get("message"))


def _events_about(pod: Value, events: Sequence[Value]) -> list[Value]:
    metadata = as_mapping(get_value(pod, ("metadata",)))
    return [each for each in events if is_about(each, "Pod", metadata)]


def _text(value: Value) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value}"
