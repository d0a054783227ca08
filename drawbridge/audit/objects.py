"""The objects of a cluster that an audit reads, and what it needs of the decisions of admission."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from drawbridge.agreement.scope import Mode
from drawbridge.agreement.webhook_selectors import PodWebhook
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.claim import Claim, Template
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.facts.model import NetworkFacts
from drawbridge.finding import Finding
from drawbridge.report.stuck.found import Stuck
from drawbridge.translate.changes.queues import Mappings
from drawbridge.translate.changes.template import ClaimTemplate

# Tenants write names and annotations.
MAX_TEXT = 253


class AuditedNamespace(NamedTuple):
    """A namespace, its mode and its labels; `manager` is who can take a label back."""

    name: str
    mode: Mode = Mode.OFF
    labels: Mapping[str, str] = {}
    is_ending: bool = False
    manager: str = ""


@dataclass(frozen=True)
class AuditedObjects:
    """What was read of a cluster. Pods, workloads, events and quotas are plain objects.

    `of_a_time` tells that pods and events are only those of a time, without workloads.
    `annotations` are those of the nodes. `unread` counts the objects that could not be read, and
    `missing` says what the caller may not read.
    """

    namespaces: tuple[AuditedNamespace, ...] = ()
    pods: tuple[Value, ...] = ()
    workloads: tuple[Value, ...] = ()
    events: tuple[Value, ...] = ()
    quotas: tuple[Value, ...] = ()
    nodes: tuple[Node, ...] = ()
    annotations: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    slices: tuple[Slice, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    networks: tuple[NetworkFacts, ...] = ()
    # The specs of ResourceClaims and of templates, by kind, namespace and name.
    claim_specs: Mapping[tuple[str, str, str], Value] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    templates: tuple[Template, ...] = ()
    budgets: tuple[Value, ...] = ()
    # The nodes to which the volume of a claim is tied, by namespace and name of the claim.
    volumes: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    webhook: PodWebhook | None = None  # of an installation; None if none is known
    unread: int = 0
    missing: tuple[str, ...] = ()
    of_a_time: bool = False

    @cached_property
    def _by_name(self) -> Mapping[str, AuditedNamespace]:
        return {each.name: each for each in self.namespaces}

    def find_namespace(self, name: str) -> AuditedNamespace:
        """Return a namespace; one that was not read is off, without labels."""
        return self._by_name.get(name, AuditedNamespace(name))


class AdmissionDecision(Protocol):
    """What admission decides about a pod."""

    @property
    def edits(self) -> Sequence[Edit]:
        """The changes of the pod."""

    @property
    def templates(self) -> Sequence[ClaimTemplate]:
        """The templates of the claims."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Why."""

    @property
    def lines(self) -> Sequence[str]:
        """The claims in words."""

    @property
    def asked(self) -> Sequence[str]:
        """The device resources that containers request, in words."""

    @property
    def mappings(self) -> Mappings:
        """The DeviceClasses of the claims by the legacy name that they replace."""

    @property
    def is_denied(self) -> bool:
        """Whether the pod is refused."""


# Takes a pod and its namespace.
Decide = Callable[[Value, AuditedNamespace], AdmissionDecision]


def text_at(value: Value, *path: str) -> str:
    """Return the text at a path, cut; empty if there is none."""
    at: Path = path
    text = get_value(value, at)
    return text[:MAX_TEXT] if isinstance(text, str) else ""


def namespace_of(value: Value) -> str:
    """Return the namespace of an object."""
    return text_at(value, "metadata", "namespace") or "default"


def owners_of(value: Value) -> Iterator[Mapping[str, Value]]:
    """Return the references of an object to its owners."""
    return map(as_mapping, as_list(get_value(value, ("metadata", "ownerReferences"))))


def controllers_of(value: Value) -> Iterator[Mapping[str, Value]]:
    """Return the references of an object to its controller, of which the API server allows one."""
    return (each for each in owners_of(value) if each.get("controller") is True)
