"""Describes each sample manifest for the demo: its requests, its claims and its placement.

Translates each manifest, places the first pod of each pod template, and formats the result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from documents.document import Document
from documents.patch import apply_edits
from documents.paths import get_value
from documents.values import Value
from dra.claim import Template, template_reader
from dra.counted import count_noun
from dra.finding import Finding, Severity
from ledger.ledger import Ledger
from ledger.node_fit import ClusterNodes
from ledger.placing import Placer, PodPlacement
from ledger.planner import Planner
from ledger.pods import Pod, pod_reader
from report.claim_requests import describe_claim, short_selectors
from report.tables import escape_unprintable
from solver.codes import NO_DEVICE_OF_CLASS
from translate.decisions.codes import LEFT_TO_CLASS
from translate.legacy.read import read_pod
from translate.manifests.objects import TranslatedObject, translate_object
from translate.manifests.workloads import find_places
from translate.pods import TranslationContext

_MAX_VALUE: Final = 64
_MAX_DEVICES: Final = 4
_COLUMN: Final = 11
_PRINTED: Final = (str, int, float)


@dataclass(frozen=True)
class SampleCluster:
    """The context of the translations, and the nodes for the placements."""

    context: TranslationContext
    planner: Planner
    nodes: ClusterNodes


def describe_example(
    name: str, documents: Iterable[Document], cluster: SampleCluster
) -> Iterator[str]:
    """Yield the lines for the file `name`, object by object; the file starts with empty nodes."""
    ledger = Ledger(sharing=True)
    for document in documents:
        if document.empty:
            continue
        yield f"{name}: {document.name}"
        if document.findings:
            yield from (f"  {each.finding.message}" for each in document.findings)
            continue
        result = translate_object(document.value, document.name, cluster.context)
        yield from _describe_object(document, result, ledger, cluster)


def _describe_object(
    document: Document, result: TranslatedObject, ledger: Ledger, cluster: SampleCluster
) -> Iterator[str]:
    after = apply_edits(document.value, result.edits)
    requests = _device_requests(document.value, cluster.context)
    rows = [("requests", ", ".join(requests) or "no devices")]
    for template in result.templates:
        claim = get_value(dict(template), ("spec",))
        rows += [("claim", line) for line in describe_claim(claim, short_selectors)]
    rows += [(f"{each.severity}", f"{each.message} [{each.code}]") for each in _shown(result)]
    if not any(each.severity is Severity.ERROR for each in result.findings):
        templates = _decode_templates(result.templates)
        placer = Placer(cluster.planner, ledger, cluster.nodes, (), templates)
        for pod in _first_pods(after, document):
            rows += _describe_placement(placer.place_pod(pod))
    for label, text in _without_repetition(rows):
        yield f"  {label:<{_COLUMN}}{escape_unprintable(text)}"


def _without_repetition(rows: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Drop repeated rows, and the label of a row after one with the same label."""
    before = ""
    for label, text in dict.fromkeys(rows):
        yield ("" if label == before else label, text)
        before = label


def _device_requests(value: Value, context: TranslationContext) -> list[str]:
    """Return the fields of an object's pods that request devices, with their values."""
    values: dict[str, str] = {}
    for place in find_places(value):
        for source in read_pod(place.pod, context.configuration.legacy).source_fields:
            text = f"{source.value}" if isinstance(source.value, _PRINTED) else ""
            values[f"{source.name}"] = _truncate(" ".join(text.split()))
    return [f"{name} {text}".rstrip() for name, text in values.items()]


def _shown(result: TranslatedObject) -> Iterator[Finding]:
    """Yield warnings and errors, and the info that a DeviceClass serves the request."""
    for each in result.findings:
        if each.severity is not Severity.INFO or each.code == LEFT_TO_CLASS.name:
            yield each


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]}..."


def _decode_templates(templates: Iterable[Mapping[str, Value]]) -> list[Template]:
    reader = template_reader()
    decoded = (reader.read(dict(each)) for each in templates)
    return [each for each in decoded if isinstance(each, Template)]


def _first_pods(value: Value, document: Document) -> Iterator[Pod]:
    """Yield the first pod of each pod template in an object, as its controller creates it."""
    kind, _, full = document.name.partition("/")
    namespace, _, bare = full.rpartition("/")
    stem = bare or f"unnamed-{document.index}"
    for number, place in enumerate(find_places(value)):
        metadata = get_value(place.pod, ("metadata",))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **(metadata if isinstance(metadata, dict) else {}),
                "name": stem if kind == "Pod" else f"{stem}-{number}",
                "namespace": namespace or "default",
            },
            "spec": get_value(place.pod, ("spec",)),
        }
        decoded = pod_reader().read(pod)
        if not isinstance(decoded, tuple):
            yield decoded


def _describe_placement(placement: PodPlacement) -> Iterator[tuple[str, str]]:
    """Yield the node and the devices of a pod, or the reasons why no node fits."""
    if placement.node is None:
        # Hide nodes without any device of the class, unless there are no other nodes.
        near = [each for each in placement.reasons if each.code != NO_DEVICE_OF_CLASS.name]
        for reason in near or placement.reasons:
            nodes = count_noun(reason.nodes, "node")
            yield "not placed", f"{nodes}: {reason.message} [{reason.code}]"
        return
    devices = list(_allocated_devices(placement))
    more = len(devices) - _MAX_DEVICES
    shown = devices[:_MAX_DEVICES] if more > 0 else devices
    text = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    yield f"on {placement.node}", text or "no DRA devices"


def _allocated_devices(placement: PodPlacement) -> Iterator[str]:
    for _, allocation in placement.claims:
        for result in ((allocation or {}).get("devices") or {}).get("results", ()):
            amounts = (result.get("consumedCapacity") or {}).items()
            share = ", ".join(f"{key.rpartition('/')[2]} {amount}" for key, amount in amounts)
            yield result["device"] + (f" ({share})" if share else "")
