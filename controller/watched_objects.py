"""Wire structs of watched objects, with the fields that the reconcilers read.

The readers in `drawbridge.dra` decode slices, classes and nodes.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from drawbridge.agreement.owned_templates import has_owned_name
from drawbridge.agreement.scope import PodMetadata, PodOwner
from drawbridge.dra.device import Taint
from drawbridge.dra.nodes import registrations_of


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata fields that the reconcilers read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class PartialObject(msgspec.Struct, frozen=True):
    """An object of any kind by its metadata; callers decode other fields from the raw JSON."""

    metadata: ObjectMetadata = ObjectMetadata()


class WatchedNodeInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a node's kubelet."""

    kubelet_version: str | None = None


class WatchedNodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status fields of a node that facts depend on; heartbeats are left out."""

    allocatable: Mapping[str, str | int | float] | None = None
    capacity: Mapping[str, str | int | float] | None = None
    declared_features: tuple[str, ...] | None = None
    node_info: WatchedNodeInfo | None = None


class WatchedNodeSpec(msgspec.Struct, frozen=True):
    """The spec fields of a node that the reconcilers read."""

    taints: tuple[Taint, ...] | None = None


class WatchedNode(PartialObject, frozen=True):
    """A node with the fields that facts and the taint of owned nodes depend on."""

    spec: WatchedNodeSpec = WatchedNodeSpec()
    status: WatchedNodeStatus = WatchedNodeStatus()

    @property
    def fact_fields(self) -> tuple[object, ...]:
        """The fields that facts depend on, for comparison."""
        registrations = registrations_of(self.metadata.annotations or ())
        return self.metadata.labels, registrations, self.status

    @property
    def fence_fields(self) -> tuple[object, ...]:
        """The fields that the taint of owned nodes depends on, for comparison."""
        return self.metadata.labels, self.spec.taints


class WatchedPodMetadata(ObjectMetadata, frozen=True, rename="camel"):
    """The metadata of a pod, with the fields that decide whether admission translates it."""

    generate_name: str = ""
    owner_references: tuple[PodOwner, ...] | None = None

    @property
    def scope_fields(self) -> PodMetadata:
        """The fields that decide the scope and the root owner."""
        return PodMetadata(self.name, self.generate_name, self.labels, self.owner_references)


class WatchedPodClaim(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of a pod's `spec.resourceClaims`."""

    name: str = ""
    resource_claim_template_name: str | None = None


class WatchedPodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec fields of a pod that the reconcilers read."""

    resource_claims: tuple[WatchedPodClaim, ...] | None = None


class WatchedPodStatus(msgspec.Struct, frozen=True):
    """The status fields of a pod that the reconcilers read."""

    phase: str = ""


class WatchedPod(msgspec.Struct, frozen=True):
    """A pod with its claims."""

    metadata: WatchedPodMetadata = WatchedPodMetadata()
    spec: WatchedPodSpec = WatchedPodSpec()
    status: WatchedPodStatus = WatchedPodStatus()

    @property
    def template_names(self) -> tuple[str, ...]:
        """The names of the templates that its claims are created from."""
        names = (each.resource_claim_template_name for each in self.spec.resource_claims or ())
        return tuple(name for name in names if name)

    @property
    def owned_templates(self) -> tuple[str, ...]:
        """The names of the templates that can be Drawbridge's."""
        return tuple(filter(has_owned_name, self.template_names))


class WatchedQuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The limits of a ResourceQuota; a quota with scopes counts only some pods."""

    hard: Mapping[str, str | int | float] | None = None
    scopes: tuple[str, ...] | None = None
    scope_selector: Mapping[str, object] | None = None


class WatchedQuotaStatus(msgspec.Struct, frozen=True):
    """The usage of a ResourceQuota."""

    used: Mapping[str, str | int | float] | None = None


class WatchedQuota(msgspec.Struct, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: WatchedQuotaSpec = WatchedQuotaSpec()
    status: WatchedQuotaStatus = WatchedQuotaStatus()
