"""The annotations of Drawbridge on a pod that choose its strategy, and the weights of its scores.

They travel in the rules of the claims, so that they are those of the pod when it was created. The
annotations stay on the pod. In native placement nothing obeys them.
"""

from collections.abc import Iterator, Mapping
from typing import Final, get_args

from msgspec.structs import replace

from drawbridge.config.model import Configuration, Placement
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.decode_errors import describe_choice
from drawbridge.dra.rules import StrategyName, read_weights
from drawbridge.finding import Finding
from drawbridge.names import (
    RULES_ANNOTATION,
    STRATEGY_ANNOTATION,
    TEMPLATE_PREFIX,
    WEIGHTS_ANNOTATION,
)
from drawbridge.translate.codes import STRATEGY_IGNORED, STRATEGY_UNKNOWN
from drawbridge.translate.legacy.asks import PodRequests, StrategyPreference
from drawbridge.translate.legacy.pod_view import annotation_path

_NAMES: Final = get_args(StrategyName)


def add_strategy(requests: PodRequests, pod: Value, configuration: Configuration) -> PodRequests:
    """Let the requests of a pod have its strategy, instead of what legacy annotations say."""
    annotations = as_mapping(as_mapping(as_mapping(pod).get("metadata")).get("annotations"))
    if STRATEGY_ANNOTATION not in annotations and WEIGHTS_ANNOTATION not in annotations:
        return requests
    is_bridge = configuration.placement is Placement.BRIDGE
    findings = [*_find_wrong(annotations)]
    if not findings and not (is_bridge and requests.asks):
        findings = [*_report_ignored(annotations, pod, requests, is_bridge=is_bridge)]
    if findings:
        return replace(requests, findings=(*requests.findings, *findings))
    own = [*_read_preferences(annotations)]
    others = () if STRATEGY_ANNOTATION in annotations else ("nodes", "devices", "strategy")
    asks = tuple(
        replace(ask, preferences=(*(p for p in ask.preferences if p.about in others), *own))
        for ask in requests.asks
    )
    return replace(requests, asks=asks)


def _read_preferences(annotations: Mapping[str, Value]) -> Iterator[StrategyPreference]:
    if STRATEGY_ANNOTATION in annotations:
        name = str(annotations[STRATEGY_ANNOTATION])
        yield StrategyPreference("strategy", name, STRATEGY_ANNOTATION)
    if WEIGHTS_ANNOTATION in annotations:
        weights = read_weights(str(annotations[WEIGHTS_ANNOTATION]))
        text = ",".join(f"{name}={weight}" for name, weight in sorted(weights.items()))
        yield StrategyPreference("weights", text, WEIGHTS_ANNOTATION)


def _find_wrong(annotations: Mapping[str, Value]) -> Iterator[Finding]:
    name = annotations.get(STRATEGY_ANNOTATION, _NAMES[0])
    if name not in _NAMES:
        message = f"the strategy {describe_choice(name, _NAMES)}"
        yield STRATEGY_UNKNOWN.at(annotation_path(STRATEGY_ANNOTATION), message)
    try:
        read_weights(str(annotations.get(WEIGHTS_ANNOTATION, "")))
    except ValueError as error:
        yield STRATEGY_UNKNOWN.at(annotation_path(WEIGHTS_ANNOTATION), f"{error}")


def _report_ignored(
    annotations: Mapping[str, Value], pod: Value, requests: PodRequests, *, is_bridge: bool
) -> Iterator[Finding]:
    """Report annotations that nothing obeys; a pod that was translated has them in its claims."""
    if requests.asks:
        why = "has no effect, because kube-scheduler selects the devices in native placement"
        remedy = None
    elif is_bridge and _has_own_claims(pod):
        why = "has no effect on claims of the pod's own"
        remedy = f"Write the strategy into the annotation {RULES_ANNOTATION} of their templates."
    else:
        return
    for key in (STRATEGY_ANNOTATION, WEIGHTS_ANNOTATION):
        if key in annotations:
            yield STRATEGY_IGNORED.at(annotation_path(key), f"{key} {why}", remedy=remedy)


def _has_own_claims(pod: Value) -> bool:
    claims = as_list(as_mapping(as_mapping(pod).get("spec")).get("resourceClaims"))
    templates = (str(as_mapping(each).get("resourceClaimTemplateName", "")) for each in claims)
    return bool(claims) and not any(each.startswith(TEMPLATE_PREFIX) for each in templates)
