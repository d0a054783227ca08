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
    CONTROLLER_POLICIES,
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


# An administrator installs the first one without a label.
POLICIES: Final = (FENCE_POLICY, *CONTROLLER_POLICIES)


class _Left(NamedTuple):
    """A kind of objects that are left: by what they are found, and what is deleted with them."""

    resource: Resource
    labels: str = ""
    names: tuple[str, ...] = ()
    also: tuple[Resource, ...] = ()  # with the same names

    @property
    def fields(self) -> list[str]:
        """The field selectors, each of which finds some of them."""
        return [f"metadata.name={each}" for each in self.names] or [""]


_LEFT: Final[Mapping[str, _Left]] = {
    left.resource.kind: left
    for left in (
        _Left(resources.POLICIES, names=POLICIES, also=(resources.POLICY_BINDINGS,)),
        _Left(resources.RESOURCE_QUOTAS, MANAGED_SELECTOR, (MIRRORED_QUOTA,)),
        _Left(resources.TAINT_RULES, f"{OWNED_TAINT}=pool"),
        *(_Left(each, _OURS) for each in INSTALLED),
        # What the processes write in their namespace, which outlives a release of helm.
        _Left(resources.CONFIG_MAPS, names=(CONFIGURATION_IN_USE_CONFIG_MAP, FACTS_CONFIG_MAP)),
        _Left(resources.LEASES, names=(CONTROLLER_LEASE, SCHEDULER_LEASE)),
        # Another client's Secret can have one of these names, and is never written.
        _Left(resources.SECRETS, MANAGED_SELECTOR, (CA_SECRET, ALLOCATOR_SECRET)),
    )
}


async def read_remains(session: "Session") -> Mapping[str, list[dict[str, Value]] | Unread]:
    """Return by kind what outlives an installation, beside the labels and taints of nodes."""
    rules = await find_taint_rules(session)
    remains: dict[str, list[dict[str, Value]] | Unread] = {}
    for kind, left in _LEFT.items():
        served = rules if left.resource is resources.TAINT_RULES else left.resource
        if served is not None:
            remains[kind] = await if_readable(_list(session, served, left), "list", served)
    return remains


async def _list(session: "Session", served: Resource, left: _Left) -> list[dict[str, Value]]:
    """List what is left in all namespaces: that of the installation is unknown."""
    return [
        value
        for fields in left.fields
        for value in await live_cluster.list_objects(
            session, served, fields=fields, labels=left.labels
        )
    ]


def compose_command(kind: str, objects: Sequence[dict[str, Value]]) -> str:
    """Return the command that removes what is left of a kind."""
    left = _LEFT[kind]
    plurals = ",".join(each.plural for each in (left.resource, *left.also))
    if left.labels and len(left.fields) == 1:
        everywhere = " -A" if left.resource.namespaced else ""
        named = f" --field-selector {left.fields[0]}" if left.names else ""
        return f"kubectl delete {plurals}{everywhere} -l {left.labels}{named}"
    names: dict[str, list[str]] = {}
    for metadata in (as_mapping(each.get("metadata")) for each in objects):
        where = f" -n {metadata['namespace']}" if "namespace" in metadata else ""
        names.setdefault(where, []).append(f"{metadata.get('name')}")
    return " && ".join(f"kubectl{e} delete {plurals} {' '.join(names[e])}" for e in sorted(names))
