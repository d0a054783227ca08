"""Describes each sample manifest for the demo: its requests, its claims and its placement."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cli.translation.outcomes import Outcomes, Row, became_claims, format_rows
from cli.translation.placement_preview import PlacementPreview
from drawbridge.documents.document import Document
from drawbridge.documents.patch import apply_edits
from drawbridge.finding import Finding, Severity
from drawbridge.ledger.ledger import Ledger
from drawbridge.translate.decisions.codes import LEFT_TO_CLASS
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object
from drawbridge.translate.pods import TranslationContext


@dataclass(frozen=True)
class SampleCluster:
    """The context of the translations, and the devices for the placements."""

    context: TranslationContext
    preview: PlacementPreview


def describe_example(
    name: str, documents: Iterable[Document], cluster: SampleCluster
) -> Iterator[str]:
    """Yield the lines for the file `name`, object by object; the file starts with empty nodes."""
    ledger = cluster.preview.new_ledger()
    for document in documents:
        if document.empty:
            continue
        yield f"{name}: {document.name}"
        if document.findings:
            yield from (f"  {each.finding.message}" for each in document.findings)
            continue
        result = translate_object(document.value, document.name, cluster.context)
        yield from format_rows(_describe_object(document, result, ledger, cluster))


def _describe_object(
    document: Document, result: TranslatedObject, ledger: Ledger, cluster: SampleCluster
) -> list[Row]:
    asked = Outcomes(cluster.context).asked(document.value)
    rows = [("requests", ", ".join(asked) or "no devices")]
    rows += [("claim", line) for line in became_claims(result.templates)]
    rows += [(f"{each.severity}", f"{each.message} [{each.code}]") for each in _shown(result)]
    if not any(each.severity is Severity.ERROR for each in result.findings):
        after = apply_edits(document.value, result.edits)
        rows += cluster.preview.place(document, after, result.templates, ledger)
    return rows


def _shown(result: TranslatedObject) -> Iterator[Finding]:
    """Yield warnings and errors, and the info that a DeviceClass serves the request."""
    for finding in result.findings:
        if finding.severity is not Severity.INFO or finding.code == LEFT_TO_CLASS.name:
            yield finding
