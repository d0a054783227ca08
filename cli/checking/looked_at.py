"""Writes the last line of `check`: what was looked at, and how much is wrong."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from cli.checking.wrong_pods import report_wrong_specs
from cli.input.config_map import is_configuration
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.dra.claim import CLAIM, TEMPLATE
from drawbridge.dra.classes import KIND as CLASS
from drawbridge.dra.counted import count_noun
from drawbridge.dra.slices import KIND as SLICE
from drawbridge.dra.taints import KIND as TAINT_RULE
from drawbridge.finding import Severity
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.workloads import find_places

_WORKLOAD: Final = "workload"
CLAIMS_AND_PODS: Final = frozenset({CLAIM, TEMPLATE, "Pod", _WORKLOAD})
# The kinds that check looks at, with their plurals.
_KINDS: Final = {
    SLICE: "ResourceSlices",
    CLASS: "DeviceClasses",
    TAINT_RULE: "DeviceTaintRules",
    CLAIM: "ResourceClaims",
    TEMPLATE: "ResourceClaimTemplates",
    "Pod": "Pods",
    _WORKLOAD: "workloads",
    "Configuration": "Configurations",
}


def describe_looked_at(
    documents: Iterable[Document | LocatedFinding],
    findings: Iterable[LocatedFinding],
) -> str:
    """Return what was looked at, and the number of errors and warnings."""
    numbers = Counter(kind_of(each) for each in documents if isinstance(each, Document))
    looked = [
        count_noun(numbers[kind], kind, many) for kind, many in _KINDS.items() if numbers[kind]
    ]
    severities = Counter(each.finding.severity for each in findings)
    nothing = "no errors or warnings" if severities else "no findings"
    wrong = [
        count_noun(severities[severity], severity.value)
        for severity in (Severity.ERROR, Severity.WARNING)
        if severities[severity]
    ]
    return f"looked at {', '.join(looked) or 'no object'}: {', '.join(wrong) or nothing}"


def kind_of(document: Document) -> str:
    """Return the kind that the last line names; empty for objects that check does not look at."""
    kind = get_value(document.value, ("kind",))
    if kind in (SLICE, CLASS, TAINT_RULE, CLAIM, TEMPLATE, "Pod"):
        return f"{kind}"
    if is_configuration(document):
        return "Configuration"
    finds = (find_places, argo.find_places, argo.find_translated_places)
    has_pods = any(find(document.value) for find in finds)
    return _WORKLOAD if has_pods or any(report_wrong_specs(document)) else ""
