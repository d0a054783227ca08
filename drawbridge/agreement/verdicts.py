"""What neighbours do with claims: a verdict by product, version, provider and form of a claim.

Each row says from which version on it holds, where it comes from and when. `asked` is the command
of the suite that asks the program itself; a row without it was read in the source. What a managed
product does is in no row, and what nobody has read is not judged. The page about neighbours is
rendered from the rows.

To simulate claims is not enough for an autoscaler: of a node that does not exist yet, it knows only
the devices that its provider describes. Cluster Autoscaler copies an existing node of the group,
and asks the provider only for a group without nodes. Karpenter always asks the provider.
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from drawbridge.dra.families import BY_SHORT_NAME

Version = tuple[int, ...]
CLUSTER_AUTOSCALER: Final = "Cluster Autoscaler"
KARPENTER: Final = "Karpenter"
KUEUE, VOLCANO, KAI = "Kueue", "Volcano", "KAI"
# The provider of each product without a row of its own.
ANY: Final = ""
SIMULATORS: Final = "python -m e2e.differential.verdicts --karpenter"
QUEUES: Final = "python -m e2e queues"


class Form(enum.StrEnum):
    """What a claim asks for, in the words of the claim."""

    COUNT = "a number of devices"
    SHARE = "shares (`capacity`)"
    PARTITION = "partitions with counters"
    ALTERNATIVES = "`firstAvailable`"
    JOINT = "`matchAttribute`"
    DISTINCT = "`distinctAttribute`"
    ALL = "`allocationMode: All`"
    BY_NAME = "claim by name"
    RULES = "rules and owned pools of bridge placement"
    NAME = "a name that a DeviceClass serves"
    REMOVAL = "removal of a node with devices"


class NeighbourVerdict(NamedTuple):
    """What a product does with a form of a claim, from a version on."""

    product: str
    since: Version
    form: Form
    serves: bool  # an autoscaler adds the node, a queue charges what the claim takes
    answer: str
    source: str
    date: str
    asked: str = ""
    gate: str = ""  # that must be on
    serves_unknown: bool = False  # an autoscaler adds a node though nobody describes its devices


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


_AUTOSCALER_1_36: Final = "kubernetes/autoscaler 1.36.1, simulator/dynamicresources"
_KARPENTER_1_14: Final = "sigs.k8s.io/karpenter 1.14.1, pkg/scheduling/dynamicresources"
_KARPENTER_1_15: Final = "sigs.k8s.io/karpenter 1.15.0, pkg/scheduling/dynamicresources"
_KUEUE: Final = "sigs.k8s.io/kueue 0.19.2, pkg/dra"
_VOLCANO: Final = "volcano-sh/volcano PR 5058, plugin capacity of 1.16.0-alpha.1"
_KAI: Final = "kai-scheduler/KAI-Scheduler PR 900, 0.13.0"
_REFUSED: Final = "refused"
_UNLIMITED: Final = "**unlimited**"
_ADDS: Final = "adds a node"


def _by_simulator(
    product: str, since: Version, source: str, date: str, forms: Mapping[Form, bool]
) -> Iterator[NeighbourVerdict]:
    for form, serves in forms.items():
        answer = _ADDS if serves else "adds no node"
        yield NeighbourVerdict(product, since, form, serves, answer, source, date, SIMULATORS)


_FORMS_WITH_A_COUNT: Final = (
    Form.COUNT,
    Form.SHARE,
    Form.PARTITION,
    Form.ALTERNATIVES,
    Form.JOINT,
    Form.DISTINCT,
)
_IGNORES_RULES: Final = "simulates without them"
_SERVED, _NOT_SERVED = True, False
# The newest row of a product and a form comes first.
VERDICTS: Final = (
    *_by_simulator(
        CLUSTER_AUTOSCALER,
        (1, 32),
        f"{_AUTOSCALER_1_36}: the plugins of kube-scheduler, which are asked",
        "2026-11-24",
        dict.fromkeys((*_FORMS_WITH_A_COUNT, Form.ALL), _SERVED),
    ),
    NeighbourVerdict(
        CLUSTER_AUTOSCALER,
        (),
        Form.RULES,
        _NOT_SERVED,
        _IGNORES_RULES,
        _AUTOSCALER_1_36,
        "2026-08-22",
    ),
    NeighbourVerdict(
        CLUSTER_AUTOSCALER, (), Form.NAME, _SERVED, _ADDS, _AUTOSCALER_1_36, "2026-08-22"
    ),
    NeighbourVerdict(
        CLUSTER_AUTOSCALER,
        (1, 32),
        Form.REMOVAL,
        _NOT_SERVED,
        "keeps a node of which one pool is in use, if only by a daemon: the fullest pool counts",
        "kubernetes-sigs/cluster-autoscaler 119 (open), kubernetes/autoscaler 7781 and PR 10010",
        "2026-09-15",
    ),
    *_by_simulator(
        KARPENTER,
        (1, 15),
        _KARPENTER_1_15,
        "2026-11-24",
        {form: form is not Form.DISTINCT for form in (*_FORMS_WITH_A_COUNT, Form.ALL)},
    ),
    NeighbourVerdict(
        KARPENTER,
        (1, 14),
        Form.ALL,
        _SERVED,
        f"{_ADDS}, of any type where its provider describes no devices",
        _KARPENTER_1_14,
        "2026-11-24",
        SIMULATORS,
        serves_unknown=True,
    ),
    *_by_simulator(
        KARPENTER,
        (1, 14),
        _KARPENTER_1_14,
        "2026-11-24",
        {form: form not in {Form.DISTINCT, Form.ALTERNATIVES} for form in _FORMS_WITH_A_COUNT},
    ),
    NeighbourVerdict(
        KARPENTER, (), Form.RULES, _NOT_SERVED, _IGNORES_RULES, _KARPENTER_1_15, "2026-10"
    ),
    NeighbourVerdict(
        KARPENTER,
        (),
        Form.NAME,
        _NOT_SERVED,
        "adds a node, and waits there for a device plugin for ever",
        "sigs.k8s.io/karpenter 1.15.0, pkg/controllers/nodeclaim/lifecycle/initialization.go",
        "2026-10",
    ),
    NeighbourVerdict(
        KARPENTER,
        (),
        Form.REMOVAL,
        _SERVED,
        "simulates where the pods go, as for a new node",
        "sigs.k8s.io/karpenter 1.15.0, pkg/controllers/disruption",
        "2026-10",
    ),
    NeighbourVerdict(
        KUEUE,
        (0, 18),
        Form.COUNT,
        _SERVED,
        "the count, by the mapping of its class",
        _KUEUE,
        "2026-11-24",
        QUEUES,
    ),
    NeighbourVerdict(
        KUEUE,
        (0, 19),
        Form.SHARE,
        _SERVED,
        "a capacity, by a mapping of its own",
        _KUEUE,
        "2026-11-24",
        QUEUES,
        "KueueDRAIntegrationConsumableCapacity",
    ),
    NeighbourVerdict(
        KUEUE,
        (0, 18),
        Form.SHARE,
        _NOT_SERVED,
        "each share as a device",
        "sigs.k8s.io/kueue 0.18.2, pkg/dra",
        "2026-06",
    ),
    NeighbourVerdict(
        KUEUE, (0, 18), Form.JOINT, _SERVED, "the counts", _KUEUE, "2026-11-24", QUEUES
    ),
    NeighbourVerdict(
        KUEUE, (0, 18), Form.ALTERNATIVES, _NOT_SERVED, _REFUSED, _KUEUE, "2026-11-24", QUEUES
    ),
    NeighbourVerdict(KUEUE, (0, 18), Form.ALL, _NOT_SERVED, _REFUSED, _KUEUE, "2026-11-24", QUEUES),
    NeighbourVerdict(
        KUEUE, (0, 18), Form.BY_NAME, _NOT_SERVED, _REFUSED, _KUEUE, "2026-11-24", QUEUES
    ),
    NeighbourVerdict(
        VOLCANO,
        (1, 16),
        Form.COUNT,
        _SERVED,
        "the count",
        _VOLCANO,
        "2026-08",
        "",
        "capacity.DynamicResourceAllocationEnable",
    ),
    NeighbourVerdict(
        VOLCANO,
        (1, 16),
        Form.SHARE,
        _SERVED,
        "amounts, as `DIMENSION.deviceclass/CLASS`",
        _VOLCANO,
        "2026-08",
        "",
        "capacity.DRAConsumableCapacityEnable",
    ),
    NeighbourVerdict(
        VOLCANO, (1, 16), Form.ALTERNATIVES, _NOT_SERVED, _UNLIMITED, _VOLCANO, "2026-08"
    ),
    NeighbourVerdict(VOLCANO, (1, 16), Form.ALL, _NOT_SERVED, _UNLIMITED, _VOLCANO, "2026-08"),
    NeighbourVerdict(
        VOLCANO, (1, 16), Form.BY_NAME, _SERVED, "as the claim says", _VOLCANO, "2026-08"
    ),
    NeighbourVerdict(
        KAI,
        (0, 13),
        Form.COUNT,
        _SERVED,
        "the count if the class has `gpu` in its name, else **unlimited**",
        _KAI,
        "2026-03",
    ),
    NeighbourVerdict(
        KAI, (0, 13), Form.ALTERNATIVES, _NOT_SERVED, f"0, {_UNLIMITED}", _KAI, "2026-03"
    ),
    NeighbourVerdict(KAI, (0, 13), Form.ALL, _NOT_SERVED, "1", _KAI, "2026-03"),
    NeighbourVerdict(
        KAI,
        (0, 13),
        Form.BY_NAME,
        _SERVED,
        "as the claim says, if one pod uses it",
        _KAI,
        "2026-03",
    ),
)

_NVIDIA, _DRANET = (BY_SHORT_NAME[name].driver for name in ("nvidia", "dranet"))
_NO_DRIVERS: Final[Mapping[str, str]] = {}
# The newest row of a product and a provider comes first.
PROVIDERS: Final = (
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


class Known(enum.Enum):
    """When the devices of a driver on a new node are known."""

    ALWAYS = enum.auto()
    IF_A_NODE_EXISTS = enum.auto()
    NEVER = enum.auto()


class Outlook(NamedTuple):
    """When an autoscaler knows the devices of a driver, and what would let it know more."""

    when: Known
    wanted: str = ""


def find_verdicts(product: str, version: Version) -> Sequence[NeighbourVerdict]:
    """Return the verdict on each form that somebody looked at, at a version of a product."""
    by_form: dict[Form, NeighbourVerdict] = {}
    for verdict in VERDICTS:
        if verdict.product == product and verdict.since <= version:
            by_form.setdefault(verdict.form, verdict)
    return tuple(by_form.values())


def find_row(product: str, provider: str, version: Version) -> ProviderRow | None:
    """Return the row of a provider at a version; None if nobody has read what it does."""
    rows = [row for row in PROVIDERS if row.product == product and row.since <= version]
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
