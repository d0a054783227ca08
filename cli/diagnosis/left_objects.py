"""The objects that an installation leaves, how they are found, and how they are removed.

A webhook configuration is missing: as long as one is left, the installation is there, and other
checks tell what it lacks.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

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
_OF_POOLS: Final = f"{OWNED_TAINT}=pool"
# What the manifests install outside the namespace, and the namespace with all that is in it.
INSTALLED: Final = (
    resources.CLUSTER_ROLES,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.FLOW_SCHEMAS,
    resources.PRIORITY_LEVELS,
    resources.NAMESPACES,
)
_POLICIES: Final = f"{resources.POLICIES.plural},{resources.POLICY_BINDINGS.plural}"
_QUOTAS: Final = f"{resources.RESOURCE_QUOTAS.plural} -A -l {MANAGED_SELECTOR}"
_QUOTA: Final = f"metadata.name={MIRRORED_QUOTA}"
# By kind, the command that removes what is left.
COMMANDS: Final[Mapping[str, str]] = {
    resources.POLICIES.kind: f"kubectl delete {_POLICIES} {FENCE_POLICY}",
    resources.TAINT_RULES.kind: f"kubectl delete {resources.TAINT_RULES.plural} -l {_OF_POOLS}",
    resources.RESOURCE_QUOTAS.kind: f"kubectl delete {_QUOTAS} --field-selector {_QUOTA}",
    **{each.kind: f"kubectl delete {each.plural} -l {_OURS}" for each in INSTALLED},
}


async def read_remains(session: "Session") -> Mapping[str, list[dict[str, Value]] | Unread]:
    """Return by kind what outlives an installation, beside the labels and taints of nodes."""
    rules = await find_taint_rules(session)
    return {
        kind.kind: await if_readable(
            live_cluster.list_objects(session, kind, fields=fields, labels=labels), "list", kind
        )
        for kind, fields, labels in _select(rules)
    }


def _select(rules: Resource | None) -> Iterator[tuple[Resource, str, str]]:
    """Yield each kind with the selectors of fields and labels."""
    yield resources.POLICIES, f"metadata.name={FENCE_POLICY}", ""
    yield resources.RESOURCE_QUOTAS, _QUOTA, MANAGED_SELECTOR
    if rules is not None:
        yield rules, "", _OF_POOLS
    for each in INSTALLED:
        yield each, "", _OURS
