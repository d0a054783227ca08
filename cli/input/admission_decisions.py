"""Decides about the pods of a cluster as admission does, for what looks at all of them."""

from drawbridge.audit.objects import AdmissionDecision, AuditedNamespace, Decide
from drawbridge.config.model import Configuration
from drawbridge.config.placement import decide_placement
from drawbridge.documents.values import Value
from drawbridge.facts.model import Facts
from drawbridge.names import ADMIN_ACCESS_LABEL
from drawbridge.translate.context import make_context
from webhook.admission.claim_summary import ClaimSummaries
from webhook.admission.pods import decide


def decide_with(configuration: Configuration, facts: Facts) -> Decide:
    """Return the decision of admission with these facts."""
    context, summaries = make_context(configuration, facts), ClaimSummaries()

    def decide_pod(pod: Value, namespace: AuditedNamespace) -> AdmissionDecision:
        placed = context.placed(decide_placement(namespace.labels, configuration))
        access = namespace.labels.get(ADMIN_ACCESS_LABEL) == "true"
        return decide(pod, namespace.name, placed, summaries, admin_access=access)

    return decide_pod
