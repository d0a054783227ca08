"""The objects that an installation leaves, how they are found, and how they are removed.

A webhook configuration is missing: as long as one is left, the installation is there, and other
checks tell what it lacks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.diagnosis.unread import Unread, if_readable
from cli.input import live_cluster
from drawbridge.cluster import resources
from drawbridge.cluster.discovery import find_taint_rules
from drawbridge.cluster.resources import Resource
from drawbridge.documents.values import Value, as_mapping
from drawbridge.names import (
    ALLOCATOR_SECRET,
    CA_SECRET,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONTROLLER_LEASE,
    FACTS_CONFIG_MAP,
    FENCE_POLICY,
    MANAGED_SELECTOR,
    MIRRORED_QUOTA,
    OWNED_TAINT,
    PART_LABEL,
    PART_OF,
    SCHEDULER_LEASE,
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
# What the processes write in their namespace, which outlives a release of helm.
_WRITTEN: Final[Mapping[Resource, tuple[str, ...]]] = {
    resources.CONFIG_MAPS: (CONFIGURATION_IN_USE_CONFIG_MAP, FACTS_CONFIG_MAP),
    resources.LEASES: (CONTROLLER_LEASE, SCHEDULER_LEASE),
    resources.SECRETS: (CA_SECRET, ALLOCATOR_SECRET),
}


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
# By kind.
_COMMANDS: Final[Mapping[str, str]] = {each.resource.kind: each.command for each in _LEFT}


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
    for kind, names in _WRITTEN.items():
        remains[kind.kind] = await if_readable(_list_named(session, kind, names), "list", kind)
    return remains


async def _list_named(
    session: "Session", kind: Resource, names: tuple[str, ...]
) -> list[dict[str, Value]]:
    """List the objects with these names of all namespaces: that of the installation is unknown."""
    return [
        value
        for name in names
        for value in await live_cluster.list_objects(session, kind, fields=f"metadata.name={name}")
    ]


def compose_command(kind: str, left: Sequence[dict[str, Value]]) -> str:
    """Return the command that removes what is left of a kind."""
    if kind in _COMMANDS:
        return _COMMANDS[kind]
    (plural,) = (each.plural for each in _WRITTEN if each.kind == kind)
    names: dict[str, list[str]] = {}
    for value in left:
        metadata = as_mapping(value.get("metadata"))
        names.setdefault(f"{metadata.get('namespace')}", []).append(f"{metadata.get('name')}")
    commands = (f"kubectl -n {key} delete {plural} {' '.join(names[key])}" for key in sorted(names))
    return " && ".join(commands)
