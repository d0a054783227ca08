"""What became of one pod: what was asked, what that is now, its claims and devices, what lacks.

Takes plain objects as the API server or a file has them and believes none: a part that cannot be
read is as if it were not there. Where the objects come from is not known here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from documents.document import name_of
from documents.paths import get
from documents.values import Value
from dra.finding import Finding
from dra.names import (
    FACTS_ANNOTATION,
    ORIGINAL_ANNOTATION,
    TEMPLATE_PREFIX,
    TRANSLATE_LABEL,
    USED_ANNOTATION,
)
from report import codes
from report.claim_requests import amounts, described
from translate.changes.patch import restored
from translate.changes.template import digest, stored
from translate.legacy.pod_view import is_device, items, mapping

# No name that a pod could give one of its claims.
SERVED: Final = "of extended resources"
ENFORCE: Final = "enforce"
_IN: Final = {"report": "only reported on", "off": "opted out"}
_MOST_EVENTS: Final = 5
_STARTED: Final = frozenset({"Running", "Succeeded", "Failed"})
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True)
class Scene:
    """A pod and what of its namespace has to do with it, by name; without a mode it is unknown."""

    pod: Value
    claims: Mapping[str, Value] = field(default_factory=dict)
    templates: Mapping[str, Value] = field(default_factory=dict)
    events: Sequence[Value] = ()
    namespace: Value = None


class Asked(msgspec.Struct, frozen=True):
    """A device resource of one container as the manifest had it."""

    container: str
    resource: str
    amount: str


class Device(msgspec.Struct, frozen=True):
    """One device that the pod holds, or a share of one."""

    request: str
    driver: str
    pool: str
    device: str
    consumed: Mapping[str, str] = {}


class ClaimOf(msgspec.Struct, frozen=True):
    """One of the pod's claims, from what it asks to what it holds."""

    name: str  # as the pod calls it
    state: str  # template missing, not generated, missing, pending, allocated, reserved
    template: str | None = None
    claim: str | None = None
    containers: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    devices: tuple[Device, ...] = ()


class Explanation(msgspec.Struct, frozen=True):
    """What a person wants to know of a pod."""

    pod: str
    phase: str
    node: str | None
    placed: bool
    translated: bool
    mode: str | None
    facts: str | None
    asked: tuple[Asked, ...]
    hints: Mapping[str, str]  # annotations and labels that the translation took away
    claims: tuple[ClaimOf, ...]
    findings: tuple[Finding, ...]
    events: tuple[str, ...]


def explain(scene: Scene) -> Explanation:
    """Put together what the objects say of the pod."""
    pod = scene.pod
    metadata, status = mapping(get(pod, ("metadata",))), mapping(get(pod, ("status",)))
    before = restored(pod)
    marked = get(pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)) is not None
    node = _text(get(pod, ("spec", "nodeName")))
    claims = tuple(_claims(scene))
    labels = mapping(get(scene.namespace, ("metadata", "labels")))
    told = Explanation(
        pod=f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}",
        phase=_text(status.get("phase")) or "Pending",
        node=node or None,
        placed=bool(node) and all(each.state in _HELD for each in claims),
        translated=marked,
        mode=None
        if scene.namespace is None
        else _text(labels.get(TRANSLATE_LABEL)) or "not opted in",
        facts=_text(get(pod, ("metadata", "annotations", FACTS_ANNOTATION))) or None,
        asked=tuple(_asked(pod, before)),
        hints=_hints(pod, before),
        claims=claims,
        findings=(),
        events=tuple(_events(scene)),
    )
    found = tuple(_findings(scene, told, readable=before is not None or not marked))
    return msgspec.structs.replace(told, findings=found)


def names(pod: Value) -> tuple[list[str], list[str]]:
    """Give the names of the claims and of the templates that a pod refers to."""
    statuses = items(get(pod, ("status", "resourceClaimStatuses")))
    entries = [*items(get(pod, ("spec", "resourceClaims"))), get(pod, _EXTENDED)]
    keys = ("resourceClaimName", "resourceClaimTemplateName")
    claims, templates = (
        [_text(name) for each in (*entries, *statuses) if (name := mapping(each).get(key))]
        for key in keys
    )
    return claims, templates


# --- what was asked ------------------------------------------------------------------------------


def _asked(pod: Value, before: Value | None) -> Iterator[Asked]:
    """Give the devices asked for the old way: those taken away, or those that are there."""
    now = {(each.container, each.resource) for each in _resources(pod)}
    for each in _resources(pod if before is None else before):
        if before is None or (each.container, each.resource) not in now:
            yield each


def _resources(pod: Value) -> Iterator[Asked]:
    for kind in _CONTAINERS:
        for one in map(mapping, items(get(pod, ("spec", kind)))):
            resources = mapping(one.get("resources"))
            amounts_ = {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}
            for name, amount in amounts_.items():
                if is_device(name):
                    yield Asked(_text(one.get("name")), name, f"{amount}")


def _hints(pod: Value, before: Value | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in ("annotations", "labels") if before is not None else ():
        now = mapping(get(pod, ("metadata", part)))
        for key, value in mapping(get(before, ("metadata", part))).items():
            if now.get(key) != value and key not in (ORIGINAL_ANNOTATION, FACTS_ANNOTATION):
                found[key] = _text(value)
    return found


# --- what it became ------------------------------------------------------------------------------

_EXTENDED: Final = ("status", "extendedResourceClaimStatus")
_MAPPINGS: Final = "requestMappings"
_HELD: Final = ("allocated", "reserved", "not needed")


def _claims(scene: Scene) -> Iterator[ClaimOf]:
    statuses = items(get(scene.pod, ("status", "resourceClaimStatuses")))
    made = {_text(each.get("name")): each for each in map(mapping, statuses)}
    for entry in map(mapping, items(get(scene.pod, ("spec", "resourceClaims")))):
        name = _text(entry.get("name"))
        template = _text(entry.get("resourceClaimTemplateName")) or None
        claim = _text(entry.get("resourceClaimName")) or None
        if template and name in made:
            claim = _text(made[name].get("resourceClaimName")) or None
        there = scene.claims.get(claim or "")
        asks = there if there is not None else _inner(scene.templates.get(template or ""))
        yield ClaimOf(
            name=name,
            state=_state(scene, template, claim, generated=name in made),
            template=template,
            claim=claim,
            containers=tuple(_users(scene.pod, name)),
            requests=tuple(described(asks)),
            devices=tuple(_devices(there)),
        )
    yield from _extended(scene)


def _extended(scene: Scene) -> Iterator[ClaimOf]:
    """Give the claim that the scheduler made for resources that a DeviceClass serves."""
    made = mapping(get(scene.pod, _EXTENDED))
    claim = _text(made.get("resourceClaimName"))
    if not claim:
        return
    there = scene.claims.get(claim)
    users = (_text(mapping(each).get("containerName")) for each in items(made.get(_MAPPINGS)))
    yield ClaimOf(
        name=SERVED,
        state=_state(scene, None, claim, generated=True),
        claim=claim,
        containers=tuple(dict.fromkeys(users)),
        requests=tuple(described(there)),
        devices=tuple(_devices(there)),
    )


def _state(scene: Scene, template: str | None, claim: str | None, *, generated: bool) -> str:
    if claim is None:
        if generated:
            return "not needed"
        return "not generated" if template in scene.templates else "template missing"
    there = scene.claims.get(claim)
    if there is None:
        return "missing"
    if not mapping(get(there, ("status", "allocation"))):
        return "pending"
    uid = get(scene.pod, ("metadata", "uid"))
    users = map(mapping, items(get(there, ("status", "reservedFor"))))
    return "reserved" if any(each.get("uid") == uid for each in users) else "allocated"


def _inner(template: Value) -> Value:
    return get(template, ("spec",))


def _users(pod: Value, name: str) -> Iterator[str]:
    for kind in _CONTAINERS:
        for one in map(mapping, items(get(pod, ("spec", kind)))):
            uses = map(mapping, items(get(one.get("resources"), ("claims",))))
            if any(use.get("name") == name for use in uses):
                yield _text(one.get("name"))


def _devices(claim: Value) -> Iterator[Device]:
    results = items(get(claim, ("status", "allocation", "devices", "results")))
    for each in map(mapping, results):
        yield Device(
            request=_text(each.get("request")),
            driver=_text(each.get("driver")),
            pool=_text(each.get("pool")),
            device=_text(each.get("device")),
            consumed=amounts(each.get("consumedCapacity")),
        )


# --- what lacks ----------------------------------------------------------------------------------


def _findings(scene: Scene, told: Explanation, *, readable: bool) -> Iterator[Finding]:
    about = name_of(scene.pod, 1)
    if not told.translated and told.asked:
        names = ", ".join(dict.fromkeys(each.resource for each in told.asked))
        if told.mode == ENFORCE:
            left = f"it asks for {names}, which was left as it is when it was created"
            yield codes.NOT_TRANSLATED.at("", left, object=about, remedy=codes.ASK_WHY)
        else:
            why = f", and its namespace is {_IN.get(told.mode, told.mode)}" if told.mode else ""
            yield codes.NOT_TRANSLATED.at("", f"it asks for {names}{why}", object=about)
    if not readable:
        path = f"metadata.annotations[{ORIGINAL_ANNOTATION}]"
        yield codes.ORIGINAL_UNREADABLE.at(path, "it does not fit this pod", object=about)
    for i, each in enumerate(told.claims):
        path = "" if each.name == SERVED else f"spec.resourceClaims[{i}]"
        yield from _lacking(scene, each, about, path)
    yield from _waiting(scene, told, about)


def _lacking(scene: Scene, each: ClaimOf, about: str, path: str) -> Iterator[Finding]:
    namespace = get(scene.pod, ("metadata", "namespace")) or "default"
    claim = f"ResourceClaim/{namespace}/{each.claim}"
    if other := _other(scene.templates.get(each.template or "")):
        told = f"its content is {other}"
        template = f"ResourceClaimTemplate/{namespace}/{each.template}"
        yield codes.TEMPLATE_DIFFERS.at("spec", told, object=template)
    if each.state == "template missing":
        told = f"there is no template {each.template}"
        yield codes.TEMPLATE_MISSING.at(path, told, object=about)
    elif each.state == "not generated":
        told = f"no claim was made from {each.template}"
        yield codes.CLAIM_NOT_GENERATED.at(path, told, object=about)
    elif each.state == "missing":
        yield codes.CLAIM_GONE.at(path, f"there is no ResourceClaim {each.claim}", object=about)
    elif each.state == "pending":
        yield codes.CLAIM_PENDING.at("", "no devices are allocated to it", object=claim)
    elif each.state == "allocated":
        users = map(mapping, items(get(scene.claims[each.claim or ""], ("status", "reservedFor"))))
        names = ", ".join(_text(user.get("name")) for user in users) or "nobody"
        yield codes.CLAIM_NOT_RESERVED.at("", f"it is reserved for {names}", object=claim)


def _other(template: Value) -> str:
    """Give the name that the content of a template of ours has, where it is another."""
    name = _text(get(template, ("metadata", "name")))
    if not name.startswith(TEMPLATE_PREFIX):
        return ""
    spec = mapping(_inner(template))
    inner: dict[str, Value] = {"spec": stored(mapping(spec.get("spec")))}
    if metadata := _kept(spec.get("metadata")):
        inner["metadata"] = metadata
    # What others have put beside it since does not make it another template.
    outer: tuple[dict[str, Value], ...] = ({}, _kept(get(template, ("metadata",))))
    names = [TEMPLATE_PREFIX + digest({"metadata": each, "spec": inner}) for each in outer]
    return "" if name in names else names[0]


def _kept(metadata: Value) -> dict[str, Value]:
    parts = {part: mapping(mapping(metadata).get(part)) for part in ("labels", "annotations")}
    kept = {
        part: {key: text for key, text in texts.items() if key != USED_ANNOTATION}
        for part, texts in parts.items()
    }
    return {part: {**texts} for part, texts in kept.items() if texts}


def _waiting(scene: Scene, told: Explanation, about: str) -> Iterator[Finding]:
    if told.phase in _STARTED:
        return
    if told.node is None:
        said = "; ".join(_conditions(scene.pod, "PodScheduled"))
        yield codes.POD_PENDING.at("", said or "the scheduler has said nothing yet", object=about)
    elif told.placed and told.claims:
        said = next((each for each in reversed(told.events) if "Prepare" in each), "")
        yield codes.NOT_PREPARED.at("", said or f"it has not started on {told.node}", object=about)


def _conditions(pod: Value, kind: str) -> Iterator[str]:
    for each in map(mapping, items(get(pod, ("status", "conditions")))):
        if each.get("type") == kind and each.get("status") != "True" and each.get("message"):
            yield _text(each.get("message"))


def _events(scene: Scene) -> list[str]:
    """Give the last different things that were said of the pod, in either API's words."""
    said: dict[str, str] = {}
    for each in map(mapping, scene.events):
        series = mapping(each.get("series"))
        dated = ("lastTimestamp", "eventTime", "firstTimestamp")
        when = series.get("lastObservedTime") or next((each[k] for k in dated if each.get(k)), "")
        text = f"{_text(each.get('reason'))}: {_text(each.get('note') or each.get('message'))}"
        said[text] = max(said.get(text, ""), _text(when))
    return sorted(said, key=lambda text: (said[text], text))[-_MOST_EVENTS:]


def _text(value: Value) -> str:
    return value if isinstance(value, str) else "" if value is None else f"{value}"
