"""Sorts documents by kind into slices, classes, taint rules, nodes, claims and templates.

Decodes every object of `resource.k8s.io` and every Node into its struct, or reports findings. Pods,
configurations and all other objects stay documents. Keeps the position of each object, so that
later findings about it get a file and a line.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from drawbridge.documents.document import Document, LayoutCache, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.claim import Claim, Template, claim_reader, template_reader
from drawbridge.dra.classes import DeviceClass, class_reader
from drawbridge.dra.decode import Reader
from drawbridge.dra.nodes import Node, node_reader
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.dra.taints import DeviceTaintRule, read_taint_rules, taint_rule_reader
from drawbridge.finding import Finding

T = TypeVar("T")

_DRA = "resource.k8s.io"
_UNDECODED = {("", "Pod"): "pods", ("drawbridge.dev", "Configuration"): "configurations"}

# Takes a plain object and its position in the stream; returns the findings about it.
_Decode = Callable[[object, int], tuple[Finding, ...]]


@dataclass(frozen=True)
class ClusterObjects:
    """The objects of a cluster by kind, and the findings from reading them.

    `unschedulable` are the names of nodes, and `created` the creation times of classes by name.
    """

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
    unschedulable: frozenset[str] = frozenset()
    created: Mapping[str, str] = field(default_factory=dict)

    def located(self, findings: Iterable[Finding]) -> tuple[LocatedFinding, ...]:
        """Add the file and line of the object to findings about these objects."""
        layouts = LayoutCache()
        return tuple(self._located(finding, layouts) for finding in findings)

    def _located(self, finding: Finding, layouts: LayoutCache) -> LocatedFinding:
        document = self.places.get(finding.object)
        if document is None:
            return LocatedFinding(finding, "", 0, 0)
        return document.locate_finding(finding, layouts)


def sort_documents(documents: Iterable[Document | LocatedFinding]) -> ClusterObjects:
    """Sort documents by kind; the findings of unreadable documents are kept in order."""
    sorter = _Sorter()
    for document in documents:
        sorter.add(document)
    return sorter.cluster_objects()


class _Sorter:
    """Collects the decoded objects."""

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.classes: list[DeviceClass] = []
        self.taint_rules: list[DeviceTaintRule] = []
        self.nodes: list[Node] = []
        self.claims: list[Claim] = []
        self.templates: list[Template] = []
        self.undecoded: dict[str, list[Document]] = {"pods": [], "configurations": [], "others": []}
        self.findings: list[LocatedFinding] = []
        self.places: dict[str, Document] = {}
        self.unschedulable: dict[str, bool] = {}
        self.created: dict[str, str] = {}
        self.layouts = LayoutCache()
        rule_reader = taint_rule_reader()
        self.decoders: dict[tuple[str, str], _Decode] = {
            (_DRA, "ResourceSlice"): _decode_into(self.slices, slice_reader()),
            (_DRA, "DeviceClass"): _decode_into(self.classes, class_reader()),
            (_DRA, "ResourceClaim"): _decode_into(self.claims, claim_reader()),
            (_DRA, "ResourceClaimTemplate"): _decode_into(self.templates, template_reader()),
            ("", "Node"): _decode_into(self.nodes, node_reader()),
            (_DRA, "DeviceTaintRule"): lambda value, _: self.add_taint_rule(value, rule_reader),
        }

    def add(self, document: Document | LocatedFinding) -> None:
        if isinstance(document, LocatedFinding):
            self.findings.append(document)
        elif document.findings:
            self.findings += document.findings
        elif isinstance(document.value, dict):
            self.add_object(document, document.value)

    def add_object(self, document: Document, value: Mapping[str, Value]) -> None:
        kind = (f"{value.get('apiVersion')}".rpartition("/")[0], f"{value.get('kind')}")
        self.places.setdefault(document.name, document.without_value())
        decode = self.decoders.get(kind)
        if decode is None:
            self.undecoded[_UNDECODED.get(kind, "others")].append(document)
            return
        name = f"{get_value(document.value, ('metadata', 'name'))}"
        if kind[1] == "Node":
            unschedulable = get_value(document.value, ("spec", "unschedulable"))
            self.unschedulable[name] = unschedulable is True
        elif kind[1] == "DeviceClass":
            created = get_value(document.value, ("metadata", "creationTimestamp"))
            self.created[name] = f"{created or ''}"
        findings = decode(value, document.index)
        self.findings += [document.locate_finding(finding, self.layouts) for finding in findings]

    def add_taint_rule(self, value: object, reader: Reader[DeviceTaintRule]) -> tuple[Finding, ...]:
        decoded = read_taint_rules(value, reader)
        self.taint_rules += decoded.objects
        return decoded.findings

    def cluster_objects(self) -> ClusterObjects:
        return ClusterObjects(
            slices=tuple(self.slices),
            classes=tuple(self.classes),
            taint_rules=tuple(self.taint_rules),
            nodes=tuple(self.nodes),
            claims=tuple(self.claims),
            templates=tuple(self.templates),
            **{name: tuple(documents) for name, documents in self.undecoded.items()},
            findings=tuple(self.findings),
            places=self.places,
            unschedulable=frozenset(name for name, on in self.unschedulable.items() if on),
            created=self.created,
        )


def _decode_into(objects: list[T], reader: Reader[T]) -> _Decode:
    """Return a function that decodes one object into `objects` and returns its findings."""

    def decode(value: object, ordinal: int) -> tuple[Finding, ...]:
        decoded = reader.read(value, ordinal=ordinal)
        if isinstance(decoded, tuple):
            return decoded
        objects.append(decoded)
        return ()

    return decode
