"""What is read of watched objects; the structs are the wire form, and name only what is used.

Slices, classes and nodes are read by the domain's own readers.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

_NONE: Mapping[str, str] = {}


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of any object's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Named(msgspec.Struct, frozen=True):
    """An object by its metadata; the rest is read from its bytes where it is needed."""

    metadata: Metadata = Metadata()


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What of a node's status decides about facts; its heartbeats do not."""

    allocatable: Mapping[str, str | int | float] | None = None
    declared_features: tuple[str, ...] | None = None


class Node(Named, frozen=True):
    """A node, as far as a change of it matters."""

    status: NodeStatus = NodeStatus()

    @property
    def matters(self) -> tuple[object, ...]:
        """What facts are made of."""
        return self.metadata.labels, self.status


class PodClaim(msgspec.Struct, frozen=True, rename="camel"):
    """A claim that a pod refers to."""

    name: str = ""
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is read of a pod's spec."""

    resource_claims: tuple[PodClaim, ...] | None = None


class PodStatus(msgspec.Struct, frozen=True):
    """What is read of a pod's status."""

    phase: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod, as far as its claims go."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def templates(self) -> tuple[str, ...]:
        """The templates that its claims are made from."""
        names = (each.resource_claim_template_name for each in self.spec.resource_claims or ())
        return tuple(name for name in names if name)


class QuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a quota limits; with scopes it counts some pods only."""

    hard: Mapping[str, str | int | float] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: Mapping[str, object] | None = None


class QuotaStatus(msgspec.Struct, frozen=True):
    """What is used of it."""

    used: Mapping[str, str | int | float] | None = None


class Quota(msgspec.Struct, frozen=True):
    """A ResourceQuota."""

    metadata: Metadata = Metadata()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()
