"""Decide whether the guard denies a pod that still requests devices after all mutating webhooks.

The API server never calls a webhook for the first time when it reinvokes webhooks. It therefore
does not send a pod to which a later webhook adds the first device request. Replicas may use
different configurations, facts and conditions for a short time. The guard denies a pod only if it
would have been translated with all of them.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from drawbridge.agreement import match_conditions, scope, webhook_selectors
from drawbridge.agreement.admission_codes import REQUESTS_ADDED_LATE
from drawbridge.agreement.scope import Mode, PodMetadata
from drawbridge.config.model import Configuration
from drawbridge.config.placement import decide_placement
from drawbridge.config.policy import apply_policies
from drawbridge.documents.paths import format_path
from drawbridge.documents.values import Value
from drawbridge.finding import Finding, Severity
from drawbridge.names import POD_WEBHOOK
from drawbridge.translate.context import TranslationContext, add_observed_names
from drawbridge.translate.interest import covers, derive_interest
from webhook.admission import pods
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.pods import PodDecision
from webhook.admission.protocols import RecentInputs


class GuardedPod(msgspec.Struct, frozen=True):
    """A pod that was not translated, and its namespace."""

    pod: Value
    metadata: PodMetadata
    namespace: str
    namespace_labels: Mapping[str, str]
    admin_access: bool


def judge_pod(
    guarded: GuardedPod,
    decision: PodDecision,
    context: TranslationContext,
    recent: RecentInputs,
) -> tuple[Finding, ...]:
    """Return the findings about a pod: errors if the guard denies it, otherwise warnings.

    `decision` is what the current configuration and facts do with the pod.
    """
    findings = tuple(each for each in decision.findings if each.severity is Severity.ERROR)
    if not findings:
        findings = tuple(apply_policies([_describe(decision)], context.configuration.findings))
    if recent.is_complete and _is_sent(guarded, recent) and _is_always_handled(guarded, recent):
        return findings
    return tuple(msgspec.structs.replace(each, severity=Severity.WARNING) for each in findings)


def _describe(decision: PodDecision) -> Finding:
    containers = [each for each in decision.removed.containers if each.removed]
    if containers:
        path = format_path((*containers[0].path, "resources"))
        names = ", ".join(dict.fromkeys(name for each in containers for name in each.removed))
        what = f"container {containers[0].name}: the request for {names}"
    elif decision.removed.annotations:
        path, what = "metadata.annotations", f"annotation {decision.removed.annotations[0]}"
    else:
        path, what = "spec", "a device request"
    message = (
        f"{what} was not translated: a webhook that ran after {POD_WEBHOOK} added it, or the API "
        f"server did not call {POD_WEBHOOK} for this pod"
    )
    return REQUESTS_ADDED_LATE.at(path, message)


def _is_sent(guarded: GuardedPod, recent: RecentInputs) -> bool:
    """Return whether all recent webhook configurations send such a pod."""
    labels = guarded.metadata.labels or {}
    return bool(recent.webhooks) and all(
        webhook_selectors.read_pod_webhook(webhook).selects(guarded.namespace_labels, labels)
        and _conditions_match(webhook, guarded.pod, recent.configurations)
        for webhook in recent.webhooks
    )


def _conditions_match(
    live: Mapping[str, Value] | None, pod: Value, configurations: Sequence[Configuration]
) -> bool:
    """Return whether the live conditions select the pod. Unknown conditions do not."""
    conditions = match_conditions.read_pod_conditions(live)
    if not conditions:
        return conditions is not None
    widest = match_conditions.derive_widest_conditions()
    return any(
        conditions in (match_conditions.derive_conditions(configuration)[POD_WEBHOOK], widest)
        and covers(pod, derive_interest(configuration))
        for configuration in configurations
    )


def _is_always_handled(guarded: GuardedPod, recent: RecentInputs) -> bool:
    """Return whether all recent inputs translate or deny the pod."""
    return bool(recent.configurations and recent.facts) and all(
        _is_included(guarded, context.configuration) and _is_handled(guarded, context)
        for context in _build_contexts(guarded, recent)
    )


def _build_contexts(guarded: GuardedPod, recent: RecentInputs) -> Iterator[TranslationContext]:
    """Yield a context for each recent configuration and facts."""
    for configuration in recent.configurations:
        placement = decide_placement(guarded.namespace_labels, configuration)
        for facts in recent.facts:
            context = TranslationContext(add_observed_names(configuration, facts), facts)
            yield context.placed(placement)


def _is_included(guarded: GuardedPod, configuration: Configuration) -> bool:
    decided = scope.decide_pod_scope(
        guarded.namespace, guarded.namespace_labels, guarded.metadata, configuration.scope
    )
    return decided.mode is Mode.ENFORCE


def _is_handled(guarded: GuardedPod, context: TranslationContext) -> bool:
    decision = pods.decide(
        guarded.pod,
        guarded.namespace,
        context,
        ClaimSummaries(),
        admin_access=guarded.admin_access,
    )
    return bool(decision.edits) or decision.is_denied
