"""What differs from seed to seed beside the order of events: what is frequent, and the limits.

Of all that can happen, each seed has a few things often and some hardly ever. What needs three of
one kind is found sooner than with equal chances in all seeds. Each seed also has a few pairs of
events that often come together, in either order: two writers meet at one device sooner.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import astuple, replace
from typing import NamedTuple

from allocator.state.pod_table import MAX_RECORDS
from allocator.state.reserved_pods import HoldLimits
from tests.cluster.fake.kinds import Kind
from tests.world.gangs import GROUP, WORKLOAD
from tests.world.network import LEASE_SECONDS, Faults

FAULTS = Faults(refused=0.01, overloaded=0.02, broken=0.02, lost=0.04, slow=0.04)
_WEIGHTS = (0.3, 1.0, 1.0, 3.0)
_FAULT_WEIGHTS = (0.3, 1.0, 1.0, 2.5)
# Without these events, little happens in a run; none of them is rare.
_STEADY = ("create", "finish")
# With fewer of these, devices are free, and something else decides who waits: a quota, a gang.
_LOAD = ("create", "create crowd", "create legacy", "create native")
# What gives, takes or moves devices; one of each pair of events is one of these.
_OF_DEVICES = (
    *("create", "create important", "create gang", "create important gang", "create sharing"),
    *("create native", "create legacy", "delete", "delete with force", "finish", "delete claim"),
    *("change owner", "swap driver", "leave out device", "stop driver", "publish again"),
    *("taint device", "cordon", "hold node", "stop at write"),
    "allocate as rival",
)
# In some seeds, these are rare, so that what another fault causes has the time to happen, and more
# work ends, so that there is more to allocate.
_DISTURBING = (
    *("kill", "kill allocator", "kill scheduler", "stand still", "cut off", "forbid", "restore"),
    *("refuse watches", "stop server", "expire", "lag", "hinder controller", "kill controller"),
)
_QUIET = 0.3
_PAIRS = 6
# What leaves something that no object tells of. In this part of the seeds, it often comes with
# another configuration, by which allocators build anew what they know.
_OF_MEMORY = ("restart daemons", "restart daemons", "delete with force", "stop at write")
_REBUILT = 0.25
# What concerns one device, and so all that a request for all devices selects.
_OF_ALL = ("taint device", "leave out device")
# How many claims ask for all devices, or have a constraint.
_SPECIAL = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.4, 0.9)
# How many claims ask with admin access, and how many for devices of another driver.
_OF_ADMINS = (0.0, 0.0, 0.0, 0.2)
_OF_NICS = (0.0, 0.0, 0.1, 0.3)
# Budgets protect pods in this part of the seeds.
_WITH_BUDGETS = 0.6
# A quota on a name that no class maps is there in this part of the seeds; in a part of these,
# there is one more, whose mirror nobody can write.
_WITH_MIRROR, _REFUSED_MIRROR = 0.5, 0.5
# What happens without faults: work ends, other work comes, and another host leads.
_CALM = {
    "finish": 6,
    "finish of team": 3,
    "create": 1,
    "create gang": 3,
    "create important": 1,
    "create important gang": 2,
    "make room": 4,
    "create sharing": 1,
    "resize gang": 1,
    "cordon": 1,
    "kill scheduler": 1,
    "kill controller": 1,
    "allocate as rival": 1,
    "end rivals": 1,
    "use mirrored": 2,
}
# All is well again this soon after each of these: without faults, and volumes that wait; later
# after a restore, when pods that are gone are still promised devices from time to time.
_CALM_SECONDS, _GONE_SECONDS = 15, 75


class Conditions(NamedTuple):
    """The conditions of one run."""

    # How much more often than usual an event happens.
    weights: Mapping[str, float]
    # What often comes with an event, at the same moment or soon after it.
    partners: Mapping[str, str]
    faults: Faults
    # How many pods an allocator remembers, and how long a reservation can be renewed.
    most_records: int
    holding: HoldLimits
    # How many of four pods are of a team with a quota.
    quarters_of_team: int
    # How many claims ask for memory, and so for shares of devices.
    asks_for_memory: float
    # How many claims ask for all devices that they select, and how many have a constraint.
    asks_for_all: float
    asks_with_constraint: float
    # How many claims ask for admin access to devices that others can have.
    asks_with_admin_access: float
    # How many claims ask for devices of another driver; it is there if some do.
    asks_for_nics: float
    # Whether the schedulers decide about all members of a gang in one cycle.
    has_group_cycles: bool
    # Whether the plugin has devices reserved with the answer; that of an early release does not.
    reserves_early: bool
    # How many bindings wait for something else, such as a volume; ours, and those of others.
    slow_bindings: float
    slow_bindings_of_others: float
    # How many computations take too long, so that copies of the processes go on with them.
    cut_computations: float
    # Whether a policy keeps others from devices, and not a taint from the nodes.
    fences_devices: bool
    # How many seconds a pod waits before it evicts others.
    eviction_delay: int
    # Whether the memory of an allocator has room for one large claim of a namespace only.
    is_crowded: bool
    # How many replicas of the controller there are.
    controllers: int
    # How much memory the devices of the team may have together; None if nothing limits it.
    team_memory: int | None
    # What Kubernetes has for gangs: PodGroups, or Workloads, which are those of Kubernetes 1.35.
    group_kind: Kind
    # What happens when all faults have ended, one after the other.
    calm: tuple[str, ...]
    # Whether the owners of pods protect some of them by PodDisruptionBudgets.
    has_budgets: bool = False
    # Whether the quota of the team selects namespaces by a label, for each `namespace` or for all
    # of the `selection`; it names one otherwise.
    selects: str = ""
    # Whether a quota on a name that no class maps has a mirror.
    has_mirror: bool = False
    # Whether a policy of others refuses the mirror of another namespace.
    refuses_mirror: bool = False
    # How many pods a queue holds back by a gate, and how many namespaces users have.
    gated: float = 0.0
    spaces: int = 1
    # How many pods of translated namespaces are changed by webhooks of others.
    changed_by_others: float = 0.0

    @property
    def forgets_pods(self) -> bool:
        """Whether an allocator can forget pods that wait, so that only the scheduler wakes them."""
        return self.most_records < MAX_RECORDS

    def calm_seconds(self, *, has_restored: bool) -> float:
        """Return how soon all must be well after an event without faults."""
        # Who leads after a kill waits for the end of a Lease, whatever happens meanwhile.
        is_killed = {"kill scheduler", "kill controller"}.intersection(self.calm)
        after_kill = LEASE_SECONDS if is_killed else 0.0
        return (
            _CALM_SECONDS
            + self.eviction_delay
            + after_kill
            + (_GONE_SECONDS if has_restored else 0)
        )


def draw_conditions(seed: int, events: Collection[str]) -> Conditions:
    """Draw the conditions of a seed."""
    drawn = random.Random(f"conditions {seed}")
    weights = {name: drawn.choice(_WEIGHTS) for name in sorted(events)}
    weights |= dict.fromkeys(_STEADY, 1.0)
    load = drawn.choice((0.3, 1.0, 1.0))
    weights |= {name: weights[name] * load for name in _LOAD}
    slow_bindings = drawn.choice((0.05, 0.05, 0.3))
    # Reservations end during slow bindings if they cannot be renewed for long.
    short_holds = 2 if slow_bindings > 0.1 else 1
    times, others = drawn.choice(_FAULT_WEIGHTS), (_OF_DEVICES, sorted(events))
    pairs = [(drawn.choice(_OF_DEVICES), drawn.choice(drawn.choice(others))) for _ in range(_PAIRS)]
    pairs += _draw_orders(seed, weights)
    conditions = Conditions(
        weights,
        dict(pairs) | {later: first for first, later in pairs},
        Faults(*(chance * times for chance in astuple(FAULTS))),
        most_records=drawn.choice((3, *[MAX_RECORDS] * 9)),
        holding=drawn.choice(
            (*[HoldLimits(seconds=12.0, devices=1)] * short_holds, *[HoldLimits()] * 3)
        ),
        quarters_of_team=drawn.choice((1, 1, 3, 4)),
        asks_for_memory=0.0,
        asks_for_all=0.0,
        asks_with_constraint=0.0,
        asks_with_admin_access=0.0,
        asks_for_nics=0.0,
        has_group_cycles=drawn.random() < 0.4,
        slow_bindings=slow_bindings,
        slow_bindings_of_others=drawn.choice((0.1, 0.1, 0.6)),
        calm=tuple(drawn.choices([*_CALM], [*_CALM.values()], k=drawn.choice((2, 4, 8, 8)))),
        fences_devices=False,
        eviction_delay=0,
        is_crowded=False,
        controllers=1,
        team_memory=None,
        group_kind=GROUP,
        reserves_early=drawn.random() < 0.8,
        cut_computations=drawn.choice((0.0, 0.0, 0.0, 0.0, 0.002, 0.02, 0.1, 0.5)),
    )
    faults = replace(conditions.faults, second=drawn.choice((0.0, 0.0, 0.0, 0.0, 0.02, 0.2)))
    conditions = conditions._replace(
        faults=faults,
        fences_devices=drawn.random() < 0.2,
        asks_for_memory=drawn.choice((0.0, 0.2, 0.4, 0.8)),
    )
    delay, is_crowded = drawn.choice((0, 0, 0, 0, 4, 25)), drawn.random() < 0.3
    controllers, memory = drawn.choice((1, 1, 2)), drawn.choice((None, None, 3, 5))
    conditions = conditions._replace(eviction_delay=delay, is_crowded=is_crowded)
    special = _draw_special(conditions._replace(controllers=controllers, team_memory=memory), drawn)
    return _draw_users(_draw_others(_draw_version(special, drawn), seed), seed)


def _draw_orders(seed: int, weights: dict[str, float]) -> list[tuple[str, str]]:
    """Draw another pair, and change weights, for orders that hardly arise without that."""
    pairs, drawn = list[tuple[str, str]](), random.Random(f"rebuilt {seed}")
    if drawn.random() < _REBUILT:
        pairs.append((drawn.choice(_OF_MEMORY), "change configuration"))
        weights["change configuration"] = 3.0
    if drawn.random() < _QUIET:
        weights |= {name: weights[name] * 0.1 for name in _DISTURBING if name in weights}
        weights |= {"finish": 2.0, "stop at write": 1.5}
    return pairs


def _draw_version(conditions: Conditions, drawn: random.Random) -> Conditions:
    """Draw whether Kubernetes is 1.35, whose scheduler decides about members one by one."""
    if drawn.random() < 0.8:
        return conditions
    return conditions._replace(group_kind=WORKLOAD, has_group_cycles=False)


def _draw_others(conditions: Conditions, seed: int) -> Conditions:
    """Draw what is there beside pods and devices."""
    drawn = random.Random(f"others {seed}")
    has_budgets = drawn.random() < _WITH_BUDGETS
    selects = drawn.choice(("", "", "namespace", "selection", "selection"))
    has_mirror = drawn.random() < _WITH_MIRROR
    return conditions._replace(
        has_budgets=has_budgets,
        selects=selects,
        has_mirror=has_mirror,
        refuses_mirror=has_mirror and drawn.random() < _REFUSED_MIRROR,
    )


def _draw_users(conditions: Conditions, seed: int) -> Conditions:
    """Draw what users have beside the rest."""
    drawn = random.Random(f"users {seed}")
    return conditions._replace(
        gated=drawn.choice((0.0, 0.0, 0.0, 0.1, 0.4)),
        spaces=drawn.choice((1, 1, 1, 7)),
        changed_by_others=drawn.choice((0.0, 0.0, 0.0, 0.3, 0.8)),
    )


def _draw_special(conditions: Conditions, drawn: random.Random) -> Conditions:
    """Draw how many claims ask for something special, which others with one device keep waiting."""
    for_all, with_constraint = drawn.choice(_SPECIAL), drawn.choice(_SPECIAL)
    load = 0.5 if for_all or with_constraint else 1.0
    weights = {**conditions.weights} | {name: conditions.weights[name] * load for name in _LOAD}
    if for_all:
        # A device that is left out, or has a taint, decides about those beside it.
        weights |= {name: 4 * weights[name] for name in _OF_ALL}
    # Both drivers have the taint of their node in common.
    for_nics = 0.0 if conditions.fences_devices else drawn.choice(_OF_NICS)
    return conditions._replace(
        weights=weights,
        asks_for_all=for_all,
        asks_with_constraint=with_constraint,
        asks_with_admin_access=drawn.choice(_OF_ADMINS),
        asks_for_nics=for_nics,
    )
