"""Documents to the parts of a world: slices, classes, rules, nodes, claims, templates.

Every object becomes its domain form or findings; pods, configurations and everything else stay
plain documents. Remembers where each object stands, for findings that come later. Judges nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from documents.document import Document, Layouts, Located
from documents.values import Value
from dra.claim import Claim, Template, claim_reader, template_reader
from dra.classes import DeviceClass, class_reader
from dra.decode import Reader
from dra.finding import Finding
from dra.nodes import Node, node_reader
from dra.slices import Slice, slice_reader
from dra.taints import DeviceTaintRule, read_taint_rules, taint_rule_reader

T = TypeVar("T")

_DRA = "resource.k8s.io"
_PLAIN = {("", "Pod"): "pods", ("drawbridge.dev", "Configuration"): "configurations"}

# Takes a plain object and its place among the documents; returns what is wrong with it.
_Read = Callable[[object, int], tuple[Finding, ...]]


@dataclass(frozen=True)
class World:
    """What files say of a cluster, and what was wrong with them."""

    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    nodes: tuple[Node, ...] = ()
    claims: tuple[Claim, ...] = ()
    templates: tuple[Template, ...] = ()
    pods: tuple[Document, ...] = ()
    configurations: tuple[Document, ...] = ()
    others: tuple[Document, ...] = ()
    findings: tuple[Located, ...] = ()
    places: dict[str, Document] = field(default_factory=dict, repr=False)

    def located(self, findings: Iterable[Finding]) -> tuple[Located, ...]:
        """Give findings about objects of this world their places in its files."""
        layouts = Layouts()
        return tuple(self._located(finding, layouts) for finding in findings)

    def _located(self, finding: Finding, layouts: Layouts) -> Located:
        document = self.places.get(finding.object)
        if document is None:
            return Located(finding, "", 0, 0)
        return document.located(finding, layouts)


def world(documents: Iterable[Document | Located]) -> World:
    """Sort documents into a world; what could not be read is among its findings."""
    builder = _Builder()
    for each in documents:
        builder.take(each)
    return builder.world()


class _Builder:
    """The parts of a world as they come, and the readers that made them."""

    def __init__(self) -> None:
        self.slices: list[Slice] = []
        self.classes: list[DeviceClass] = []
        self.taint_rules: list[DeviceTaintRule] = []
        self.nodes: list[Node] = []
        self.claims: list[Claim] = []
        self.templates: list[Template] = []
        self.plain: dict[str, list[Document]] = {"pods": [], "configurations": [], "others": []}
        self.findings: list[Located] = []
        self.places: dict[str, Document] = {}
        self.layouts = Layouts()
        rules = taint_rule_reader()
        self.readers: dict[tuple[str, str], _Read] = {
            (_DRA, "ResourceSlice"): _into(self.slices, slice_reader()),
            (_DRA, "DeviceClass"): _into(self.classes, class_reader()),
            (_DRA, "ResourceClaim"): _into(self.claims, claim_reader()),
            (_DRA, "ResourceClaimTemplate"): _into(self.templates, template_reader()),
            ("", "Node"): _into(self.nodes, node_reader()),
            (_DRA, "DeviceTaintRule"): lambda value, _: self.rule(value, rules),
        }

    def take(self, each: Document | Located) -> None:
        if isinstance(each, Located):
            self.findings.append(each)
        elif each.findings:
            self.findings += each.findings
        elif isinstance(each.value, dict):
            self.sort(each, each.value)

    def sort(self, document: Document, value: Mapping[str, Value]) -> None:
        kind = (f"{value.get('apiVersion')}".rpartition("/")[0], f"{value.get('kind')}")
        self.places.setdefault(document.name, document.forgetting())
        reader = self.readers.get(kind)
        if reader is None:
            self.plain[_PLAIN.get(kind, "others")].append(document)
            return
        found = reader(value, document.index)
        self.findings += [document.located(finding, self.layouts) for finding in found]

    def rule(self, value: object, reader: Reader[DeviceTaintRule]) -> tuple[Finding, ...]:
        read = read_taint_rules(value, reader)
        self.taint_rules += read.objects
        return read.findings

    def world(self) -> World:
        return World(
            slices=tuple(self.slices),
            classes=tuple(self.classes),
            taint_rules=tuple(self.taint_rules),
            nodes=tuple(self.nodes),
            claims=tuple(self.claims),
            templates=tuple(self.templates),
            **{name: tuple(documents) for name, documents in self.plain.items()},
            findings=tuple(self.findings),
            places=self.places,
        )


def _into(objects: list[T], reader: Reader[T]) -> _Read:
    """Read one object into `objects`, and return what is wrong with it."""

    def read(value: object, ordinal: int) -> tuple[Finding, ...]:
        done = reader.one(value, ordinal=ordinal)
        if isinstance(done, tuple):
            return done
        objects.append(done)
        return ()

    return read
