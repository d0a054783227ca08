"""Before and after, for the demo: what a manifest asked, what it became, where that is placed.

Gives a few lines for each object. Translates, places and judges nothing itself: it reads what was
translated, and asks the allocator for the rest.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from documents.document import Document
from documents.patch import patched
from documents.paths import get
from documents.values import Value
from dra.claim import Template, template_reader
from dra.finding import Finding, Severity
from ledger.ledger import Ledger
from ledger.node_fit import Cluster
from ledger.placing import Placement, Placing
from ledger.planner import Planner
from ledger.pods import Pod, pod_reader
from report.tables import printable
from solver.codes import NO_DEVICE_OF_CLASS
from translate.decisions.codes import LEFT_TO_CLASS
from translate.legacy.read import read
from translate.manifests.objects import Translated, translated
from translate.manifests.workloads import places
from translate.pods import Given

# An expression is cut where it no longer helps to tell what was asked.
_LONGEST: Final = 64
_MOST_DEVICES: Final = 4
_COLUMN: Final = 11
_SHORTER: Final = (
    (re.compile(r'"\w+" in device\.attributes\["[^"]+"\] && '), ""),
    (re.compile(r'device\.(?:attributes|capacity)\["[^"]+"\]\.'), ""),
    (re.compile(r'device\.(attributes|capacity)\["[^"]+"\]'), r"\1"),
    (re.compile(r"device\."), ""),
)
_PLAIN: Final = (str, int, float)

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Ground:
    """What translations are decided by, and where their pods are placed."""

    by: Given
    planner: Planner
    cluster: Cluster


def example(name: str, documents: Iterable[Document], ground: Ground) -> Iterator[str]:
    """Give the lines of the file `name`: its objects one after the other, on empty nodes."""
    ledger = Ledger(sharing=True)
    for document in documents:
        if document.empty:
            continue
        yield f"{name}: {document.name}"
        if document.findings:
            yield from (f"  {each.finding.message}" for each in document.findings)
            continue
        one = translated(document.value, document.name, ground.by)
        yield from _object(document, one, ledger, ground)


def _object(document: Document, one: Translated, ledger: Ledger, ground: Ground) -> Iterator[str]:
    after = patched(document.value, one.edits)
    rows = [("asked", ", ".join(_asked(document.value, ground.by)) or "nothing")]
    rows += [("became", line) for each in one.templates for line in claim(each)]
    rows += [(f"{each.severity}", f"{each.message} [{each.code}]") for each in _told(one)]
    if not any(each.severity is Severity.ERROR for each in one.findings):
        placing = Placing(ground.planner, ledger, ground.cluster, (), _templates(one.templates))
        rows += [row for pod in _pods(after, document) for row in _placed(placing.pod(pod))]
    yield from (f"  {label:<{_COLUMN}}{printable(text)}" for label, text in _once(rows))


def _once(rows: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Say every line once, and what it is about only where that changes."""
    before = ""
    for label, text in dict.fromkeys(rows):
        yield ("" if label == before else label, text)
        before = label


def _asked(value: Value, by: Given) -> list[str]:
    """What the pods of an object say of devices, as they say it."""
    said: dict[str, str] = {}
    for place in places(value):
        for trace in read(place.pod, by.configuration.legacy).traces:
            text = f"{trace.value}" if isinstance(trace.value, _PLAIN) else ""
            said[f"{trace.name}"] = _cut(" ".join(text.split()), _LONGEST)
    return [f"{name} {text}".rstrip() for name, text in said.items()]


def _told(one: Translated) -> Iterator[Finding]:
    """Find what a person has to know: what is lost, and what is left."""
    for each in one.findings:
        if each.severity is not Severity.INFO or each.code == LEFT_TO_CLASS.name:
            yield each


def claim(template: Mapping[str, Value]) -> Iterator[str]:
    """Say what a claim template asks for: a line for each kind of request, and for each rule."""
    devices: Any = get(dict(template), ("spec", "spec", "devices"))
    alike: dict[str, list[str]] = {}
    for request in devices["requests"]:
        said = " or ".join(_wanted(each) for each in _alternatives(request))
        alike.setdefault(said, []).append(request["name"])
    for said, names in alike.items():
        yield said if len(devices["requests"]) == 1 else f"{', '.join(names)}: {said}"
    rules: dict[str, list[str]] = {}
    for each in devices.get("constraints", ()):
        word = "matchAttribute" if "matchAttribute" in each else "distinctAttribute"
        said = "share one" if word == "matchAttribute" else "differ in"
        rule = f"{said} {each[word].rpartition('/')[2]}"
        rules.setdefault(rule, []).append(" and ".join(each.get("requests") or ("all",)))
    yield from (f"{', '.join(who)} {rule}" for rule, who in rules.items())


def _alternatives(request: Json) -> Sequence[Json]:
    exactly = request.get("exactly")
    found: Sequence[Json] = [exactly] if exactly else request["firstAvailable"]
    return found


def _wanted(wanted: Json) -> str:
    count = "all" if wanted.get("allocationMode") == "All" else f"{wanted.get('count', 1)}"
    amounts = (wanted.get("capacity") or {}).get("requests", {})
    taken = ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items()))
    expressions = [each["cel"]["expression"] for each in wanted.get("selectors", ())]
    where = [short for short in map(_short, expressions) if short]
    return (
        f"{count} of {wanted['deviceClassName']}"
        + (f", {taken}" if taken else "")
        + (f", where {' and '.join(where)}" if where else "")
    )


def _short(expression: str) -> str:
    """Shorten an expression to what tells: names without their domains, and not too much."""
    text = expression
    for pattern, instead in _SHORTER:
        text = pattern.sub(instead, text)
    return _cut(text, _LONGEST)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}..."


def _templates(made: Iterable[Mapping[str, Value]]) -> list[Template]:
    reader = template_reader()
    found = (reader.one(dict(each)) for each in made)
    return [each for each in found if isinstance(each, Template)]


def _pods(value: Value, document: Document) -> Iterator[Pod]:
    """Give a pod for each pod template of an object, as its controller would make the first."""
    kind, _, full = document.name.partition("/")
    namespace, _, bare = full.rpartition("/")
    stem = bare or f"unnamed-{document.index}"
    for number, place in enumerate(places(value)):
        metadata = get(place.pod, ("metadata",))
        named = stem if kind == "Pod" else f"{stem}-{number}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **(metadata if isinstance(metadata, dict) else {}),
                "name": named,
                "namespace": namespace or "default",
            },
            "spec": get(place.pod, ("spec",)),
        }
        read_ = pod_reader().one(pod)
        if not isinstance(read_, tuple):
            yield read_


def _placed(placement: Placement) -> Iterator[tuple[str, str]]:
    """Say where a pod came to be and with what, or why nowhere."""
    if placement.node is None:
        # Nodes that have nothing of the kind tell nothing, unless all are like that.
        near = [each for each in placement.reasons if each.code != NO_DEVICE_OF_CLASS.name]
        for reason in near or placement.reasons:
            nodes = f"{reason.nodes} node" + ("" if reason.nodes == 1 else "s")
            yield "nowhere", f"{nodes}: {reason.message} [{reason.code}]"
        return
    devices = list(_devices(placement))
    more = len(devices) - _MOST_DEVICES
    told = devices[:_MOST_DEVICES] if more > 0 else devices
    text = ", ".join(told) + (f" and {more} more" if more > 0 else "")
    yield f"on {placement.node}", text or "without devices of DRA"


def _devices(placement: Placement) -> Iterator[str]:
    for _, allocation in placement.claims:
        for result in ((allocation or {}).get("devices") or {}).get("results", ()):
            amounts = (result.get("consumedCapacity") or {}).items()
            share = ", ".join(f"{key.rpartition('/')[2]} {amount}" for key, amount in amounts)
            yield result["device"] + (f" ({share})" if share else "")
