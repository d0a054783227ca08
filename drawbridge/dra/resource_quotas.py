"""ResourceQuotas: their types and reader, and what an entry leaves of its limit.

`drawbridge.dra.quota` computes what a claim is charged to their entries.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from drawbridge.dra.decode import Metadata, Object, Reader
from drawbridge.dra.quantity import Quantity, find_quantity

# Amounts as they are written: an invalid one concerns only its own entry.
QuotaAmounts: TypeAlias = Mapping[str, str | int | float]


class ResourceQuotaSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a ResourceQuota."""

    hard: QuotaAmounts | None = None
    scopes: Sequence[str] | None = None
    scope_selector: Mapping[str, Any] | None = None


class ResourceQuotaStatus(msgspec.Struct, frozen=True):
    """The status of a ResourceQuota."""

    hard: QuotaAmounts | None = None
    used: QuotaAmounts | None = None


class ResourceQuota(Object, frozen=True, rename="camel", kw_only=True):
    """A ResourceQuota in its wire format. Of a `reduced` one, the entries are not known."""

    metadata: Metadata = Metadata("")
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()
    # Kubernetes stores no such field.
    reduced: bool = msgspec.field(default=False, name="drawbridge.dev/reduced")

    @property
    def counts_pods_only(self) -> bool:
        """Whether the quota has scopes. Such a quota counts pods, no claims."""
        selector = self.spec.scope_selector or {}
        return bool(self.spec.scopes or selector.get("matchExpressions"))

    def find_limit(self, key: str) -> "QuotaLimit | None":
        """Return the limit and the use of an entry; None without a readable entry."""
        most = find_quantity(self.status.hard or self.spec.hard, key)
        if most is None:
            return None
        return QuotaLimit(most, find_quantity(self.status.used, key) or Quantity.of(0))


class QuotaLimit(msgspec.Struct, frozen=True):
    """The limit of one entry, and how much of it is in use."""

    most: Quantity
    used: Quantity


def reduce_quota(quota: ResourceQuota) -> ResourceQuota:
    """Return what must be known of a ResourceQuota: that it may forbid a claim."""
    metadata = Metadata(quota.metadata.name, quota.metadata.namespace)
    return ResourceQuota(metadata=metadata, reduced=True)


def quota_reader() -> Reader[ResourceQuota]:
    """Return a reader of ResourceQuotas."""
    return Reader("ResourceQuota", {"v1": ResourceQuota})
