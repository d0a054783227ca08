"""What the allocator remembers of a pod: one record, with its parts.

A part is there or not: what the scheduler asks, the devices that are reserved, those that are kept
until others release them, and the place among those that wait. `record_states.py` says in which
state a record is, and what changes it. `pod_table.py` has all records.
"""

import math
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import msgspec

from allocator.scheduler.protocol import SchedulingPod
from allocator.state.pauses import NO_PAUSE, Pause
from drawbridge.dra.allocation import Allocation, Consumer
from drawbridge.ledger.holdings import Hold
from drawbridge.ledger.ledger import Reservation
from drawbridge.ledger.node_holds import NodeHold


class PodRequest(NamedTuple):
    """A pod and the UIDs of its claims, in the order of the pod; a claim is named once."""

    pod: SchedulingPod
    claims: tuple[str, ...]


def consumer_of(pod: SchedulingPod, claim_uid: str) -> Consumer:
    """Return for whom a claim of a pod is reserved: the pod, or its group."""
    group = pod.claims_of_group
    if group is not None and claim_uid in (group.claims or ()):
        return Consumer.of_pod_group(group.name, group.uid)
    return Consumer.of_pod(pod.name, pod.uid)


# --- devices that are reserved ---


class ClaimReservation(msgspec.Struct, frozen=True):
    """What to write into one claim.

    Without `allocation` the claim is `allocated` already, and only `consumer` is added: the pod, or
    its group. `mark` is the text of the annotation `drawbridge.dev/allocation`.
    """

    namespace: str
    name: str
    uid: str
    consumer: Consumer
    allocation: Allocation | None = None
    mark: str = ""
    allocated: Allocation | None = None

    @property
    def full_name(self) -> str:
        """The namespace and the name: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PodReservation(msgspec.Struct, frozen=True):
    """The node and the devices that are reserved for one pod."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[ClaimReservation, ...] = ()

    @property
    def full_name(self) -> str:
        """The namespace and the name: `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ReservedDevices(msgspec.Struct, frozen=True):
    """The devices of a pod. `reserved` has what the ledger reserves, by the UID of the claim.

    A reservation is `promised` until the scheduler reserves the pod that was woken, and `writing`
    from then on until its end.
    """

    reservation: PodReservation
    reserved: Mapping[str, Reservation]
    since: float
    until: float
    priority: int = 0
    promised: bool = False
    writing: bool = False

    def count(self, counted: set[str]) -> int:
        """Return how many devices are reserved, without claims that are `counted`, and add these.

        Several pods can have one claim.
        """
        new = [each for each in self.reservation.claims if each.uid not in counted]
        counted.update(each.uid for each in new)
        return sum(len(each.allocation.devices.results) for each in new if each.allocation)


# --- devices that others release ---


class Preemptor(msgspec.Struct, frozen=True):
    """A pod that preempts for its `claims`, and gets `holds` when the `pending` ones are released.

    Victims and claims have their UIDs; `allocations` has what each claim gets. With `planned`, an
    administrator holds the devices. Those that the ledger has by now are `held`.
    """

    pod: SchedulingPod
    claims: frozenset[str]
    node: str
    victims: frozenset[str]
    pending: frozenset[str]
    holds: tuple[Hold, ...]
    until: float
    planned: NodeHold | None = None
    held: tuple[Hold, ...] = ()
    allocations: Mapping[str, Allocation] = {}

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.pod.uid

    @property
    def priority(self) -> int:
        """The priority of the pod."""
        return self.pod.priority

    @property
    def key(self) -> str:
        """The UID under which the ledger has the devices that are kept."""
        return key_of(self.uid)


def key_of(pod_uid: str) -> str:
    """Return the key under which the ledger has the devices that are kept for a pod."""
    return f"kept for {pod_uid}"


class DeviceVictims(msgspec.Struct, frozen=True):
    """The pods to evict from a node for its devices, by UID, and what the preemptor gets.

    It gets `holds` when `claims` are released: its own claims, by UID, the `allocations`.
    """

    node: str
    allocations: Mapping[str, Allocation]
    pods: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()
    violations: int = 0
    # Whether other pods must be evicted for other reasons.
    required: bool = False


class Paired(NamedTuple):
    """The claims that are being released, for which a pod was told to wait, and what it gets.

    It gets that on a node for its `own` claims, or what another pod gets that it shares one with:
    of that, `allocations` has what each claim gets.
    """

    priority: int
    claims: frozenset[str]
    holds: tuple[Hold, ...]
    own: frozenset[str] = frozenset()
    node: str = ""
    allocations: Mapping[str, Allocation] = {}


# --- waiting ---


class WaitingPlace(NamedTuple):
    """The place of a pod among those that wait; a higher priority comes first."""

    priority: int
    since: float
    uid: str


# The place behind all pods.
BEHIND_ALL: Final = WaitingPlace(1 << 63, math.inf, "")


class Waiting(msgspec.Struct, frozen=True):
    """A pod that waits, and the key of what it asks.

    `seen` has the nodes of its last answer, `tried` the state in which no other node was found. One
    that `exceeds` a quota asks for victims as soon as the quota has room.
    """

    place: WaitingPlace
    key: bytes
    seen: Collection[str] = ()
    tried: int = -1
    exceeds: bool = False


class VictimQuestion(NamedTuple):
    """Whether a pod that waits asks for victims again.

    One that was refused some asks when more has `changed` than by then: pods ended, or nodes.
    """

    asks: bool = False
    changed: int | None = None

    def refused(self, changed: int) -> "VictimQuestion":
        """Return what a pod asks that is refused victims; an earlier question stays."""
        return self if self.changed is not None else self._replace(changed=changed)

    def asked(self, changed: int) -> "VictimQuestion | None":
        """Return what a pod asks later that asks now."""
        return None if self.changed is None else VictimQuestion(changed=changed)

    def is_due(self, changed: int) -> bool:
        """Whether the pod asks when so much has changed."""
        return self.asks or self.changed not in {None, changed}


class RecordStep(NamedTuple):
    """A change of a record: when by the clock of the table, the event, and the state after it."""

    at: float
    event: str
    state: str


class Record(msgspec.Struct, frozen=True):
    """All that is known of a pod apart from what the API server tells, and the last steps.

    Its reservation for the node `expired_on` has expired, and a pod of the namespace `taken_by` has
    got what was promised to it. The search for one that is `unanswered` has not ended.
    """

    uid: str
    namespace: str = ""
    request: PodRequest | None = None
    group: str = ""
    devices: ReservedDevices | None = None
    expired_on: str = ""
    taken_by: str = ""
    kept: Preemptor | None = None
    paired: Paired | None = None
    waiting: Waiting | None = None
    victims: VictimQuestion | None = None
    unanswered: bool = False
    device_pause: Pause = NO_PAUSE
    victim_pause: Pause = NO_PAUSE
    steps: tuple[RecordStep, ...] = ()

    @property
    def key(self) -> bytes:
        """What a pod that waits has in common with those that get the same answer.

        What is kept for a pod alone fits no other one; what is kept for a group fits its members.
        """
        asked = self.waiting.key if self.waiting else b""
        return asked if self.kept is None or self.group else asked + self.kept.key.encode()

    @property
    def place(self) -> WaitingPlace:
        """The place of a pod among those that wait."""
        return self.waiting.place if self.waiting else BEHIND_ALL

    def pauses(self, now: float) -> bool:
        """Whether a pod is not to be woken yet, because that was in vain."""
        return self.device_pause.until > now
