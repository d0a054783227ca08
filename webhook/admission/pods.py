"""Decide what happens to a created pod.

`webhook.admission.pod_responses` composes the response. These are separate steps, because a
decision can be cached while quotas change.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from drawbridge.config.policy import apply_policies
from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.values import Value
from drawbridge.dra.device_quotas import Charge, add_charges
from drawbridge.dra.resource_quotas import ResourceQuota
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding, Severity
from drawbridge.translate.changes.patch import check_annotation_size, list_inputs
from drawbridge.translate.changes.queues import Mappings
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import Translation, TranslationContext
from drawbridge.translate.decisions.codes import NO_NODE_OFFERS_ALL
from drawbridge.translate.pods import translate
from webhook.admission import limit_ranges, resource_quotas
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.removed_requests import (
    RemovedRequests,
    add_earlier,
    describe_requests,
    describe_translation,
    find_removed_requests,
)
from webhook.admission.updates import is_translated

_EARLIER: Final = (
    "now, but a node did a short time ago; the pod stays pending until a node does again"
)
_ANNOTATIONS: Final = ("metadata", "annotations")
MAX_ASKED: Final = 16  # device resources of one pod in the audit log


class PodDecision(msgspec.Struct, frozen=True):
    """The result of a translation. Without edits the pod stays unchanged."""

    edits: tuple[Edit, ...] = ()
    templates: tuple[ClaimTemplate, ...] = ()
    findings: tuple[Finding, ...] = ()
    removed: RemovedRequests = RemovedRequests()
    charges: Mapping[str, int] = {}  # of the claims, also those of an earlier translation
    device_charge: Charge = {}  # what the claims have at least of what device quotas limit
    lines: tuple[str, ...] = ()  # descriptions of the new claims
    asked: tuple[str, ...] = ()  # descriptions of the device resources that containers request
    operations: Sequence[Mapping[str, Value]] = ()  # the edits as a JSON patch
    annotation_bytes: int = 0  # of the JSON of added annotations
    mappings: Mappings = {}  # the classes by the legacy name they replace
    limited: RemovedRequests = RemovedRequests()  # what is removed now, and was removed earlier
    classes_of: Mapping[str, Sequence[str]] = {}  # the classes by each removed name

    @property
    def replaces_requests(self) -> bool:
        """Whether claims replace requests. Pods with claims of their own get no templates."""
        return bool(self.templates or self.removed.names or self.removed.annotations)

    @property
    def is_denied(self) -> bool:
        """Whether a finding is an error."""
        return any(map(_is_error, self.findings))


def decide(  # noqa: PLR0913  # all but four by name
    pod: Value,
    namespace: str,
    context: TranslationContext,
    summaries: ClaimSummaries,
    *,
    admin_access: bool,
    queue: str = "",
) -> PodDecision:
    """Translate a pod. `admin_access` is whether the namespace allows admin access.

    `queue` is the default queue of Kueue of the namespace.
    """
    by_facts = partial(
        translate, namespace=namespace, admin_access=admin_access, default_queue=queue
    )
    translation = _choose(summaries.list_contexts(context), partial(by_facts, pod))
    findings = tuple(apply_policies(translation.findings, context.configuration.findings))
    asked = tuple(islice(describe_requests(pod), MAX_ASKED))
    if not translation.edits:
        return PodDecision(findings=findings, asked=asked)
    after = apply_edits(pod, translation.edits)
    removed = find_removed_requests(pod, after)
    inputs = [*list_inputs(after)] if translation.templates and is_translated(pod) else []
    # The first translation of the pod, whose claims it gets as well.
    earlier = by_facts(inputs[-1], context).templates if len(inputs) > 1 else ()
    summarized = [summaries.summarize(each, context) for each in (*translation.templates, *earlier)]
    charges = Counter[str]()
    for summary in summarized:
        charges.update(summary.charges)
    by_name = dict(zip([each.name for each in translation.templates], summarized, strict=False))
    described = {name: each.description for name, each in by_name.items()}
    return PodDecision(
        translation.edits,
        translation.templates,
        (*findings, *dict.fromkeys(one for each in by_name.values() for one in each.findings)),
        removed,
        charges,
        add_charges(each.least for each in summarized),
        describe_translation(pod, after, described, removed),
        asked,
        translation.operations,
        _count_annotation_bytes(translation.edits),
        translation.mappings,
        add_earlier(removed, find_removed_requests(inputs[0], after)) if inputs else removed,
        translation.classes_of,
    )


def _choose(
    contexts: Iterator[TranslationContext], by_facts: Callable[[TranslationContext], Translation]
) -> Translation:
    """Return the first translation, unless only older facts offer its devices on one node.

    A driver that restarts publishes again what its nodes offered. Older facts that lack one
    of the devices cause no refusal, but in them no node offered the devices together.
    """
    first = by_facts(next(contexts))
    refused = [e for e in first.findings if e.code == NO_NODE_OFFERS_ALL.name and _is_error(e)]
    for context in contexts if refused else ():
        older = by_facts(context)
        if older.edits and _are_offered_together(older.classes, context.facts):
            warnings = (
                replace(e, severity=Severity.WARNING, message=f"{e.message} {_EARLIER}")
                for e in refused
            )
            return replace(older, findings=(*older.findings, *warnings))
    return first


def _are_offered_together(classes: Sequence[str], facts: Facts | None) -> bool:
    return facts is not None and any(set(classes) <= set(each.classes) for each in facts.offers)


def _is_error(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR


def check_annotations(decision: PodDecision, raw: msgspec.Raw) -> tuple[Finding, ...]:
    """Check the size of the annotations of one translated pod."""
    added = _find_annotation_edits(decision.edits)
    own = msgspec.json.decode(bytes(raw) or b"null")
    metadata: Value = {"annotations": own} if isinstance(own, dict) else {}
    return tuple(check_annotation_size(apply_edits({"metadata": metadata}, added)))


def _find_annotation_edits(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    return tuple(each for each in edits if each.path[:2] == _ANNOTATIONS)


def _count_annotation_bytes(edits: Iterable[Edit]) -> int:
    """Return the size of the added annotations as JSON."""
    return sum(len(msgspec.json.encode(each.value)) for each in _find_annotation_edits(edits))


def check_namespace_limits(
    decision: PodDecision,
    ranges: Sequence[LimitRange],
    quotas: Sequence[ResourceQuota],
    device_findings: Iterable[Finding],
    context: TranslationContext,
) -> tuple[tuple[Finding, ...], tuple[Edit, ...]]:
    """Check LimitRanges and ResourceQuotas. Return findings and additional edits of the pod.

    `device_findings` are those about device quotas.
    """
    findings = (
        *limit_ranges.check_pod(decision.limited, ranges),
        *resource_quotas.check_quotas(decision.charges, decision.classes_of, quotas),
        *device_findings,
    )
    edits = limit_ranges.keep_zero_amounts(decision.removed, ranges) if ranges else ()
    return tuple(apply_policies(findings, context.configuration.findings)), edits
