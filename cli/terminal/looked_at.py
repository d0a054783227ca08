"""Writes the last line of `lint` and `check`: what was looked at, and how much is wrong."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.dra.claim import CLAIM, TEMPLATE
from drawbridge.dra.classes import KIND as CLASS
from drawbridge.dra.counted import count_noun
from drawbridge.dra.slices import KIND as SLICE
from drawbridge.finding import Severity
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.workloads import find_places

# The kinds that lint looks at, with their plurals.
DEVICE_KINDS: Final = {
    SLICE: "ResourceSlices",
    CLASS: "DeviceClasses",
    CLAIM: "ResourceClaims",
    TEMPLATE: "ResourceClaimTemplates",
}
_PODS: Final = {"Pod": "Pods", "workload": "workloads"}
ALL_KINDS: Final = {**DEVICE_KINDS, **_PODS}


def describe_looked_at(
    documents: Iterable[Document | LocatedFinding],
    findings: Iterable[LocatedFinding],
    kinds: Mapping[str, str],
) -> str:
    """Return what was looked at, and the number of errors and warnings."""
    numbers = Counter(_kind(each) for each in documents if isinstance(each, Document))
    looked = [
        count_noun(numbers[kind], kind, many) for kind, many in kinds.items() if numbers[kind]
    ]
    severities = Counter(each.finding.severity for each in findings)
    nothing = "no errors or warnings" if severities else "no findings"
    wrong = [
        count_noun(severities[severity], severity.value)
        for severity in (Severity.ERROR, Severity.WARNING)
        if severities[severity]
    ]
    return f"looked at {', '.join(looked) or 'no object'}: {', '.join(wrong) or nothing}"


def _kind(document: Document) -> str:
    kind = get_value(document.value, ("kind",))
    if kind in ALL_KINDS or not isinstance(kind, str):
        return f"{kind}"
    placed = find_places(document.value) or argo.find_places(document.value)
    return "workload" if placed else kind
