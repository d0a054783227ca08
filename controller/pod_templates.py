"""Rebuilds the templates of a pod from its original request, unless admission refuses it. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from controller.protocols import WatchedObject
from controller.watched_objects import WatchedPod
from drawbridge.agreement.device_quotas import check_device_quotas
from drawbridge.agreement.operation_codes import TEMPLATE_NOT_REPRODUCED, TEMPLATE_OUT_OF_SCOPE
from drawbridge.agreement.owned_templates import is_exclusively_owned, name_matches_content
from drawbridge.config.model import Placement
from drawbridge.config.policy import apply_policies
from drawbridge.documents.values import Value
from drawbridge.dra.claim import Template, read_template
from drawbridge.dra.counted import list_some
from drawbridge.dra.device_quotas import (
    Charge,
    DeviceQuota,
    add_charges,
    charge_choices,
    least_charge,
    limited_amounts,
)
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity
from drawbridge.foreign_json import UNDECODABLE
from drawbridge.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION, PLACEMENT_LABEL
from drawbridge.translate.changes.patch import list_inputs
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.pods import translate

# A tenant writes the annotation and any number of claims. A digest has 71 characters.
_MAX_SHOWN: Final = 80
_MAX_NAMES: Final = 5
_MAX_REFUSAL: Final = 400


def rebuild_templates(
    pod: WatchedObject[WatchedPod],
    missing: frozenset[str],
    contexts: Iterable[TranslationContext],
    quotas: tuple[DeviceQuota, ...],
    *,
    admin_access: bool,
) -> tuple[ClaimTemplate, ...] | Finding:
    """Rebuild the missing templates from the pod's original request, or return why not all of them.

    Admission refuses a pod by policies, and by `quotas`, those of the namespace. The first context
    is that of admission. A pod that admission translated twice, because another webhook added
    requests in between, has templates of both translations, perhaps by different contexts.
    `admin_access` tells whether the namespace allows it.
    """
    inputs = [*list_inputs(msgspec.json.decode(pod.raw))]
    templates: dict[str, ClaimTemplate] = {}
    refusals: list[Finding] = []
    for context in contexts:
        policies, refused = context.configuration.findings, list[Value]()
        for given in inputs:
            translation = translate(given, context, pod.namespace, admin_access=admin_access)
            # Other errors leave no templates.
            mild = (e for e in translation.findings if e.severity is not Severity.ERROR)
            if error := _find_error(apply_policies(mild, policies)):
                refusals.append(error)
                refused.append(given)
                continue
            templates |= {each.name: each for each in translation.templates}
            if missing <= templates.keys():
                excess = _check_quotas(pod, templates, quotas)
                if error := _find_error(apply_policies(excess, policies)):
                    return _describe_refused(pod.value, missing, error)
                return tuple(templates[name] for name in sorted(missing))
        # Older facts, which a tenant can note, may not tell why a policy refuses them.
        inputs = [each for each in inputs if all(each is not one for one in refused)]
    if refusals:
        return _describe_refused(pod.value, missing, refusals[0])
    return _describe_unknown(pod.value, missing)


def _find_error(findings: Iterable[Finding]) -> Finding | None:
    return next((each for each in findings if each.severity is Severity.ERROR), None)


def _check_quotas(
    pod: WatchedObject[WatchedPod],
    templates: Mapping[str, ClaimTemplate],
    quotas: tuple[DeviceQuota, ...],
) -> Iterator[Finding]:
    """Report a quota that the claims of a pod exceed: one for each reference to a template."""
    limited, charges = limited_amounts(quotas), dict[str, Charge]()
    for name in templates if limited else ():
        read = read_template(templates[name].object)
        if isinstance(read, Template):
            charges[name] = least_charge(charge_choices(read.spec.spec, limited))
    charge = add_charges(charges.get(name, {}) for name in pod.value.template_names)
    yield from check_device_quotas(charge, pod.namespace, quotas)


def list_contexts(
    pod: WatchedPod,
    current: TranslationContext,
    find_facts: Callable[[str], Facts | None],
    placement: Placement,
) -> Iterator[TranslationContext]:
    """Yield the contexts to try: for each placement the current facts, the noted ones, and none.

    That of admission is first. The placement of the namespace precedes the noted one; the other one
    follows where both are configured: the label of the namespace or the configuration may have
    changed.
    """
    annotations = pod.metadata.annotations or {}
    noted = [Placement.BRIDGE] if annotations.get(PLACEMENT_LABEL) == Placement.BRIDGE else []
    others = list(Placement) if current.configuration.owned_pools else []
    for candidate in dict.fromkeys((placement, *noted, *others)):
        for context in _list_by_facts(pod, current, find_facts):
            yield context.placed(candidate)


def _list_by_facts(
    pod: WatchedPod, current: TranslationContext, find_facts: Callable[[str], Facts | None]
) -> Iterator[TranslationContext]:
    noted = (pod.metadata.annotations or {}).get(FACTS_ANNOTATION, "")
    facts = find_facts(noted) if noted else None
    yield current
    if facts is not None and noted != current.facts_digest:
        yield current.by_facts(facts, noted)
    if not noted:
        yield current.by_facts(None)


def check_content(raw: bytes) -> tuple[bool, bool]:
    """Return whether the name of a template is its hash, and whether it is Drawbridge's alone."""
    try:
        stored: Value = msgspec.json.decode(raw)
        return name_matches_content(stored), is_exclusively_owned(stored)
    except UNDECODABLE:  # none that Drawbridge writes
        return False, False


def _describe_unknown(pod: WatchedPod, missing: frozenset[str]) -> Finding:
    """Return the finding for a pod whose templates cannot be rebuilt."""
    annotations = pod.metadata.annotations or {}
    noted = annotations.get(FACTS_ANNOTATION, "")
    origin = f"with facts {noted[:_MAX_SHOWN]}" if noted else "without facts"
    reason = (
        f"the pod was translated {origin}, and translating it again gives a template with another "
        "name, with all facts that the controller still has"
    )
    if ORIGINAL_ANNOTATION not in annotations:
        reason = f"the pod does not have the annotation {ORIGINAL_ANNOTATION}"
    message = f"{describe_missing(missing)}: {reason}"
    return TEMPLATE_NOT_REPRODUCED.at("spec.resourceClaims", message, object=describe_pod(pod))


def describe_unfinished(pod: WatchedPod, missing: frozenset[str], limit: str) -> Finding:
    """Return the finding for a pod whose translation reaches a limit."""
    message = f"{describe_missing(missing)}: translating the pod again gives {limit}"
    return TEMPLATE_NOT_REPRODUCED.at("spec.resourceClaims", message, object=describe_pod(pod))


def _describe_refused(pod: WatchedPod, missing: frozenset[str], error: Finding) -> Finding:
    """Return the finding for a pod that admission refuses now."""
    message = (
        f"{describe_missing(missing)}: admission refuses this pod now: {error.code}: "
        f"{error.message[:_MAX_REFUSAL]}"
    )
    return TEMPLATE_OUT_OF_SCOPE.at(
        "spec.resourceClaims", message, object=describe_pod(pod), remedy=error.remedy
    )


def describe_missing(missing: frozenset[str]) -> str:
    """Return the start of a message about templates that are not created."""
    names = list_some(sorted(missing), _MAX_NAMES, "template")
    return f"cannot recreate ResourceClaimTemplate {names}"


def describe_pod(pod: WatchedPod) -> str:
    """Return the object of a finding about a pod."""
    return f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"
