"""Sorts documents by kind into slices, classes, taint rules, nodes, claims and templates.

Decodes every object of `resource.k8s.io` and every Node into its struct, or reports findings. Pods,
configurations and all other objects stay documents. Keeps the position of each object, so that
later findings about it get a file and a line.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from drawbridge.documents.document import Document, LayoutCache, LocatedFinding
from drawbridge.documents.read import Recognize, Recognized
from drawbridge.documents.values import Value
from drawbridge.dra.claim import Claim, Template, claim_reader, template_reader
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.gates import version_of_kubelets
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.slices import Slice, WholeSliceReader, slice_reader
from drawbridge.dra.taints import DeviceTaintRule, find_ignored_fields, taint_rule_reader
from drawbridge.finding import Finding

T = TypeVar("T")

_DRA = "resource.k8s.io"
_UNDECODED = {("", "Pod"): "pods", ("drawbridge.dev", "Configuration"): "configurations"}

# Takes a plain object and its position in the stream; returns the findings about it.
_Decode = Callable[[object, int], tuple[Finding, ...]]


@dataclass(frozen=True)
class ClusterObjects:
    """The objects of a cluster by kind, and the findings from reading them."""

    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[Claim, ...] = ()
    templates: tuple[Template, ...] = ()
    pods: tuple[Document, ...] = ()
    configurations: tuple[Document, ...] = ()
    others: tuple[Document, ...] = ()
    findings: tuple[LocatedFinding, ...] = ()
    places: dict[str, Document] = field(default_factory=dict, repr=False)

    @property
    def version(self) -> str:
        """The version of the API server, as far as the nodes tell."""
        return version_of_kubelets(each.kubelet for each in self.nodes)

    def located(self, findings: Iterable[Finding]) -> tuple[LocatedFinding, ...]:
        """Add the file and line of the object to findings about these objects."""
        layouts = LayoutCache()
        return tuple(self._located(finding, layouts) for finding in findings)

    def _located(self, finding: Finding, layouts: LayoutCache) -> LocatedFinding:
        document = self.places.get(finding.object)
        if document is None:
            return LocatedFinding(finding)
        return document.locate_finding(finding, layouts)


def find_objects(
    documents: Iterable[Document | LocatedFinding], findings: list[LocatedFinding]
) -> Iterator[tuple[Document, dict[str, Value]]]:
    """Yield the documents with an object, and the object; add the findings of unreadable ones."""
    for document in documents:
        if isinstance(document, LocatedFinding):
            findings.append(document)
        elif document.findings:
            findings += document.findings
        elif isinstance(document.value, dict):
            yield document, document.value


def sort_documents(documents: Iterable[Document | LocatedFinding]) -> ClusterObjects:
    """Sort documents by kind; the findings of unreadable documents are kept in order."""
    slices, classes, nodes = list[Slice](), list[DeviceClass](), list[Node]()
    rules, claims, templates = list[DeviceTaintRule](), list[Claim](), list[Template]()
    decoders: dict[tuple[str, str], _Decode] = {
        (_DRA, "ResourceSlice"): _decode_into(slices, slice_reader()),
        (_DRA, "DeviceClass"): _decode_into(classes, class_reader()),
        (_DRA, "ResourceClaim"): _decode_into(claims, claim_reader()),
        (_DRA, "ResourceClaimTemplate"): _decode_into(templates, template_reader()),
        ("", "Node"): _decode_into(nodes, node_reader()),
        (_DRA, "DeviceTaintRule"): _decode_rules_into(rules, taint_rule_reader()),
    }
    undecoded: dict[str, list[Document]] = {"pods": [], "configurations": [], "others": []}
    findings, places, layouts = list[LocatedFinding](), dict[str, Document](), LayoutCache()
    for document, value in find_objects(documents, findings):
        places.setdefault(document.name, document.without_value())
        version, kind = (f"{value.get(key)}" for key in ("apiVersion", "kind"))
        group = version.rpartition("/")[0]
        if isinstance(document.decoded, Slice):
            slices.append(document.decoded)
        elif decode := decoders.get((group, kind)):
            problems = decode(value, document.index)
            findings += [document.locate_finding(each, layouts) for each in problems]
        else:
            undecoded[_UNDECODED.get((group, kind), "others")].append(document)
    return ClusterObjects(
        slices=tuple(slices),
        classes=tuple(classes),
        taint_rules=tuple(rules),
        nodes=tuple(nodes),
        claims=tuple(claims),
        templates=tuple(templates),
        **{name: tuple(each) for name, each in undecoded.items()},
        findings=tuple(findings),
        places=places,
    )


def recognize_slices() -> Recognize:
    """Return the function that decodes the slices of Lists whose fields are all known."""
    reader = WholeSliceReader()

    def recognize(raw: bytes, version: str, kind: str) -> Recognized | None:
        whole = reader.read(raw, version=version, kind=kind)
        decoded = whole and whole.reduce()
        if whole is None or decoded is None:
            return None
        header: Value = {
            "apiVersion": whole.api_version or version,
            "kind": whole.kind or kind,
            "metadata": whole.metadata,
        }
        return Recognized(header, decoded, whole)

    return recognize


def _decode_into(objects: list[T], reader: Reader[T]) -> _Decode:
    """Return a function that decodes one object into `objects` and returns its findings."""

    def decode(value: object, ordinal: int) -> tuple[Finding, ...]:
        decoded = reader.read(value, ordinal=ordinal)
        if isinstance(decoded, tuple):
            return decoded
        objects.append(decoded)
        return ()

    return decode


def _decode_rules_into(rules: list[DeviceTaintRule], reader: Reader[DeviceTaintRule]) -> _Decode:
    def decode(value: object, ordinal: int) -> tuple[Finding, ...]:
        decoded = reader.read(value, ordinal=ordinal)
        if isinstance(decoded, tuple):
            return decoded
        rules.append(decoded)
        return find_ignored_fields(decoded)

    return decode
