"""The objects that an installation leaves, how they are found, and how they are removed.

A webhook configuration is missing: as long as one is left, the installation is there, and other
checks tell what it lacks.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.diagnosis.unread import Unread, if_readable
from cli.input import live_cluster
from drawbridge.cluster import resources
from drawbridge.cluster.discovery import find_taint_rules
from drawbridge.cluster.resources import Resource
from drawbridge.documents.values import Value
from drawbridge.names import (
    FENCE_POLICY,
    MANAGED_SELECTOR,
    MIRRORED_QUOTA,
    OWNED_TAINT,
    PART_LABEL,
    PART_OF,
)

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_OURS: Final = f"{PART_LABEL}={PART_OF}"
# What the manifests install outside the namespace, and the namespace with all that is in it.
INSTALLED: Final = (
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.FLOW_SCHEMAS,
    resources.PRIORITY_LEVELS,
    resources.NAMESPACES,
)


class _Left(NamedTuple):
    """A kind of objects that are left: by what they are found, and what is deleted with them."""

    resource: Resource
    labels: str = ""
    name: str = ""
    also: tuple[Resource, ...] = ()  # with the same name

    @property
    def fields(self) -> str:
        """The field selector."""
        return f"metadata.name={self.name}" if self.name else ""

    @property
    def command(self) -> str:
        """The command that removes them."""
        plurals = ",".join(each.plural for each in (self.resource, *self.also))
        if not self.labels:
            return f"kubectl delete {plurals} {self.name}"
        everywhere = " -A" if self.resource.namespaced else ""
        named = f" --field-selector {self.fields}" if self.name else ""
        return f"kubectl delete {plurals}{everywhere} -l {self.labels}{named}"


_LEFT: Final = (
    _Left(resources.POLICIES, name=FENCE_POLICY, also=(resources.POLICY_BINDINGS,)),
    _Left(resources.RESOURCE_QUOTAS, MANAGED_SELECTOR, MIRRORED_QUOTA),
    _Left(resources.TAINT_RULES, f"{OWNED_TAINT}=pool"),
    *(_Left(each, _OURS) for each in INSTALLED),
)
# By kind, the command that removes what is left.
COMMANDS: Final[Mapping[str, str]] = {each.resource.kind: each.command for each in _LEFT}


async def read_remains(session: "Session") -> Mapping[str, list[dict[str, Value]] | Unread]:
    """Return by kind what outlives an installation, beside the labels and taints of nodes."""
    rules = await find_taint_rules(session)
    remains: dict[str, list[dict[str, Value]] | Unread] = {}
    for left in _LEFT:
        served = rules if left.resource is resources.TAINT_RULES else left.resource
        if served is not None:
            listing = live_cluster.list_objects(
                session, served, fields=left.fields, labels=left.labels
            )
            remains[served.kind] = await if_readable(listing, "list", served)
    return remains
