"""Rebuilds the templates of a pod from its original request. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from controller.watched_objects import WatchedPod
from drawbridge.agreement.operation_codes import TEMPLATE_NOT_REPRODUCED
from drawbridge.agreement.owned_templates import is_exclusively_owned, name_matches_content
from drawbridge.config.model import Placement
from drawbridge.documents.values import Value
from drawbridge.dra.counted import list_some
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION, PLACEMENT_LABEL
from drawbridge.translate.changes.patch import list_inputs
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.pods import translate

# A tenant writes the annotation and any number of claims. A digest has 71 characters.
_MAX_SHOWN: Final = 80
_MAX_NAMES: Final = 5


def rebuild_templates(
    raw: bytes,
    namespace: str,
    missing: frozenset[str],
    contexts: Iterable[TranslationContext],
    *,
    admin_access: bool,
) -> tuple[ClaimTemplate, ...]:
    """Rebuild the missing templates from the pod's original request; none unless all of them.

    A pod that admission translated twice, because another webhook added requests in between, has
    templates of both translations, perhaps by different contexts. `admin_access` tells whether the
    namespace allows it.
    """
    pod: Value = msgspec.json.decode(raw)
    inputs = [*list_inputs(pod)]
    templates: dict[str, ClaimTemplate] = {}
    for context, given in ((one, each) for one in contexts for each in inputs):
        translation = translate(given, context, namespace, admin_access=admin_access)
        templates |= {each.name: each for each in translation.templates}
        if missing <= templates.keys():
            return tuple(templates[name] for name in sorted(missing))
    return ()


def list_contexts(
    pod: WatchedPod,
    current: TranslationContext,
    find_facts: Callable[[str], Facts | None],
    placement: Placement,
) -> Iterator[TranslationContext]:
    """Yield the contexts to try: for each placement the noted facts, the current ones, and none.

    The noted placement is first, then that of the namespace. The other one follows where both are
    configured: the label of the namespace or the configuration may have changed.
    """
    annotations = pod.metadata.annotations or {}
    noted = [Placement.BRIDGE] if annotations.get(PLACEMENT_LABEL) == Placement.BRIDGE else []
    others = list(Placement) if current.configuration.owned_pools else []
    for candidate in dict.fromkeys((*noted, placement, *others)):
        for context in _list_by_facts(pod, current, find_facts):
            yield context.placed(candidate)


def _list_by_facts(
    pod: WatchedPod, current: TranslationContext, find_facts: Callable[[str], Facts | None]
) -> Iterator[TranslationContext]:
    noted = (pod.metadata.annotations or {}).get(FACTS_ANNOTATION, "")
    facts = find_facts(noted) if noted else None
    if facts is not None and noted != current.facts_digest:
        yield current.by_facts(facts, noted)
    yield current
    if not noted:
        yield current.by_facts(None)


def check_content(raw: bytes) -> tuple[bool, bool]:
    """Return whether the name of a template is its hash, and whether it is Drawbridge's alone."""
    stored: Value = msgspec.json.decode(raw)
    return name_matches_content(stored), is_exclusively_owned(stored)


def describe_unknown(pod: WatchedPod, missing: frozenset[str]) -> Finding:
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


def describe_missing(missing: frozenset[str]) -> str:
    """Return the start of a message about templates that are not created."""
    names = list_some(sorted(missing), _MAX_NAMES, "template")
    return f"cannot recreate ResourceClaimTemplate {names}"


def describe_pod(pod: WatchedPod) -> str:
    """Return the object of a finding about a pod."""
    return f"Pod/{pod.metadata.namespace}/{pod.metadata.name}"
