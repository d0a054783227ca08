"""Which devices of a new node an autoscaler knows: a table by product, provider and version.

To simulate claims is not enough: of a node that does not exist yet, an autoscaler knows only the
devices that its provider describes. Cluster Autoscaler copies an existing node of the group, and
asks the provider only for a group without nodes. Karpenter always asks the provider. Each row says
what was read, where and when; what a managed autoscaler does is in no row.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.dra.families import BY_SHORT_NAME

Version = tuple[int, ...]
CLUSTER_AUTOSCALER: Final = "Cluster Autoscaler"
KARPENTER: Final = "Karpenter"
# The provider of each product without a row of its own.
ANY: Final = ""


class Known(enum.Enum):
    """When the devices of a driver on a new node are known."""

    ALWAYS = enum.auto()
    IF_A_NODE_EXISTS = enum.auto()
    NEVER = enum.auto()


class ProviderRow(NamedTuple):
    """What a provider describes, from a version of its autoscaler on.

    `drivers` has the drivers whose devices it describes for nodes that do not exist, each with the
    feature gate that must be on for it. None means every driver that the node group names.
    """

    product: str
    provider: str  # the value of --cloud-provider; of Karpenter, the API group of its NodeClass
    since: Version
    drivers: Mapping[str, str] | None
    source: str
    date: str
    wanted: str = ""  # what lets the provider describe more


_NVIDIA, _DRANET = (BY_SHORT_NAME[name].driver for name in ("nvidia", "dranet"))
_NO_DRIVERS: Final[Mapping[str, str]] = {}
# The newest row of a product and a provider comes first.
ROWS: Final = (
    ProviderRow(
        CLUSTER_AUTOSCALER,
        "clusterapi",
        (1, 38),
        None,
        "kubernetes/autoscaler PR 10200, merged after 1.36.1; nobody read 1.37",
        "2026-08-26",
    ),
    ProviderRow(
        CLUSTER_AUTOSCALER,
        "clusterapi",
        (),
        _NO_DRIVERS,
        "kubernetes/autoscaler 10199: the template has an incomplete pool, so no claim fits",
        "2026-08-26",
        "a release with kubernetes/autoscaler PR 10200",
    ),
    ProviderRow(
        CLUSTER_AUTOSCALER,
        ANY,
        (),
        _NO_DRIVERS,
        "the templates of all other 29 providers at kubernetes/autoscaler 55c37cd5 have no slices",
        "2026-08-22",
    ),
    ProviderRow(
        KARPENTER,
        "karpenter.k8s.aws",
        (1, 15),
        {_NVIDIA: "DRANVIDIAGPU", _DRANET: "DRAEFA"},
        "aws/karpenter-provider-aws 1.15.1, pkg/cloudprovider/dynamicresources.go",
        "2026-10",
    ),
    ProviderRow(
        KARPENTER,
        "karpenter.k8s.aws",
        (),
        _NO_DRIVERS,
        "aws/karpenter-provider-aws 1.14.3 has no such gates",
        "2026-08",
        "version 1.15 or newer",
    ),
    ProviderRow(
        KARPENTER,
        "karpenter.azure.com",
        (),
        _NO_DRIVERS,
        "Azure/karpenter-provider-azure 352646f5 fills no DynamicResources",
        "2026-08-21",
    ),
)


class Outlook(NamedTuple):
    """When an autoscaler knows the devices of a driver, and what would let it know more."""

    when: Known
    wanted: str = ""


def find_row(product: str, provider: str, version: Version) -> ProviderRow | None:
    """Return the row of a provider at a version; None if nobody has read what it does."""
    rows = [row for row in ROWS if row.product == product and row.since <= version]
    of_provider = (row for row in rows if row.provider == provider)
    return next(of_provider, next((row for row in rows if row.provider == ANY), None))


def judge(row: ProviderRow, driver: str, gates: Mapping[str, bool]) -> Outlook:
    """Say when the devices of a driver are known, with these feature gates."""
    gate = None if row.drivers is None else row.drivers.get(driver)
    if row.drivers is None or (gate is not None and (not gate or gates.get(gate, False))):
        return Outlook(Known.ALWAYS)
    wanted = f"the feature gate {gate}" if gate else row.wanted
    exists = row.product == CLUSTER_AUTOSCALER
    return Outlook(Known.IF_A_NODE_EXISTS if exists else Known.NEVER, wanted)


def read_gates(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the gates of a list such as A=true,B=false."""
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name:
            yield name, value.lower() in {"true", "t", "1"}
