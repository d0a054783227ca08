"""Which pod uses which devices, from their preparation until its containers have ended."""

import asyncio
from collections.abc import Collection, Iterable, Iterator

from tests.cluster.fake.kinds import JSON
from tests.world.network import Network
from tests.world.nodes import (
    GRACE_SECONDS,
    LEAST_HOLD,
    PLUGIN,
    Device,
    Use,
    devices_of,
    holds_of,
)
from tests.world.objects import ALL_NODES
from tests.world.stock import NAME as STOCK

# The UID of a claim, and what it got.
Decided = tuple[str, frozenset[Device]]
# Or the UID of a pod that it is reserved for; "" for a group. Or "pod" and the UID of one.
Seen = Decided | tuple[str, str]


def list_consumers(claim: str, consumers: Iterable[tuple[str, str]]) -> Iterator[Seen]:
    """Yield who a claim is reserved for, by resource and UID."""
    return ((claim, uid if resource == "pods" else "") for resource, uid in consumers)


class Uses:
    """All uses of a run, and what the allocator of each claim had seen when it decided.

    `frees_too_early` if Kubernetes itself frees what a pod uses that was deleted with force.
    """

    def __init__(self, network: Network, *, frees_too_early: bool) -> None:
        self._network, self._frees_too_early = network, frees_too_early
        self._uses: dict[tuple[str, str], Use] = {}  # by the UIDs of pod and claim
        # In the order of the allocations.
        self._decisions: dict[Decided, frozenset[Seen] | None] = {}
        self._decided_at: dict[Decided, float] = {}
        self._vanished: dict[str, float] = {}  # when pods were deleted with force, by UID
        # Devices of claims whose memory an allocator did not know when it promised others.
        self.unknown_memory: set[tuple[str, Device]] = set()
        # What another allocator was writing when one began to promise devices.
        self.under_way: set[Decided] = set()

    def all(self) -> Iterator[Use]:
        """Yield what counts: not what nobody can know of who decides."""
        return (use for use in self._uses.values() if not use.lost)

    def note_decision(self, claim: JSON, seen: set[Seen] | None) -> None:
        """Note what the allocator had seen that has just allocated a claim; None of others."""
        key = claim["metadata"]["uid"], devices_of(claim)
        self._decisions.pop(key, None)
        self._decisions[key] = None if seen is None else frozenset(seen)
        self._decided_at[key] = asyncio.get_running_loop().time()
        if seen is not None:
            reserved = claim["status"].get("reservedFor") or ()
            consumers = ((each["resource"], each["uid"]) for each in reserved)
            seen.update((key, *list_consumers(key[0], consumers)))

    def is_ours(self, claim: JSON) -> bool:
        """Whether our allocator has given a claim its devices, whatever the mark says."""
        return self._decisions.get((claim["metadata"]["uid"], devices_of(claim))) is not None

    def start(self, pod: JSON, claim: JSON, node: str) -> None:
        """Note that a pod uses the devices of a claim."""
        key = pod["metadata"]["uid"], claim["metadata"]["uid"]
        names = pod["metadata"]["name"], claim["metadata"]["name"]
        self._uses[key] = use = Use(*names, holds_of(claim), node, uid=key[1])
        self._network.count("share that is prepared", sum(bool(hold.share) for hold in use.holds))
        # A kubelet can prepare before it sees that its pod is gone.
        if key[0] in self._vanished:
            self.note_gone(pod)
        self._forget_unseen(self._key(key))

    def end(self, pod_uid: str) -> Iterator[Use]:
        """Yield the uses of a pod, which have ended."""
        for key in [key for key in self._uses if key[0] == pod_uid]:
            yield self._uses.pop(key)

    def note_gone(self, pod: JSON) -> None:
        """Note that a pod was deleted, with force if it uses anything."""
        uid = pod["metadata"]["uid"]
        self._vanished.setdefault(uid, asyncio.get_running_loop().time())
        if pod["spec"]["schedulerName"] == STOCK and self._frees_too_early:
            users = [key for key in self._uses if key[0] == uid]
            self._lose(users, "use that Kubernetes frees too early")

    def compare_restored(self, claims: Iterable[JSON], pods: set[str]) -> None:
        """Leave out of account what a restored storage tells nobody of."""
        there = {(claim["metadata"]["uid"], devices_of(claim)) for claim in claims}
        lost = [
            key
            for key, use in self._uses.items()
            if not use.lost
            and (key[0] not in pods if key[1].startswith(PLUGIN) else self._key(key) not in there)
        ]
        self._lose(lost, "use that a restore lost")

    def _forget_unseen(self, started: Decided) -> None:
        """Leave a use out of account that the allocator of the other one has never seen.

        Only what was allocated before can be seen. A pod may have left a shared claim before.
        """
        order = {key: number for number, key in enumerate(self._decisions)}
        for use_key, use in tuple(self._uses.items()):
            key = use_key[1], use.devices
            if key == started or not _meet(key[1], started[1]):
                continue
            if any(claim.startswith(PLUGIN) for claim, _ in (key, started)):
                continue  # the pod tells, and nobody decides for it
            first, later = sorted((key, started), key=lambda each: order.get(each, -1))
            seen = self._decisions.get(later)
            users = [each for each in self._uses if self._key(each) == first]
            if seen is not None:
                unseen = [each for each in users if not _has_seen(seen, first, each[0])]
                self._lose(unseen, "use that an allocator never saw")
                beyond = [each for each in users if self._is_beyond(each[0], later)]
                self._lose(beyond, "use beyond the limit of a hold")
            elif seen is None and self._frees_too_early:
                # Others can have the node by now.
                vanished = [each for each in users if each[0] in self._vanished]
                self._lose(vanished, "use that Kubernetes frees too early")

    def _is_beyond(self, pod: str, later: Decided) -> bool:
        """Whether an allocator waited for the containers of a pod as long as it is to wait.

        A kubelet can be away for longer.
        """
        gone_at = self._vanished.get(pod)
        return (
            gone_at is not None and self._decided_at[later] > gone_at + GRACE_SECONDS + LEAST_HOLD
        )

    def _key(self, use: tuple[str, str]) -> Decided:
        return use[1], self._uses[use].devices

    def _lose(self, uses: Iterable[tuple[str, str]], why: str) -> None:
        for key in uses:
            self._network.count(why)
            self._uses[key] = self._uses[key]._replace(lost=True)


def _has_seen(seen: Collection[Seen], decided: Decided, pod: str) -> bool:
    """Whether an allocator has seen what a claim got, and that a pod uses it.

    A claim of a group does not name its members: some can have vanished before a process starts.
    """
    claim = decided[0]
    is_member = (claim, "") in seen and ("pod", pod) in seen
    return decided in seen and ((claim, pod) in seen or is_member)


def _meet(some: frozenset[Device], others: frozenset[Device]) -> bool:
    """Whether devices are the same, or can take from the same counters."""
    pools = {pool for pool, _ in some} & {pool for pool, _ in others}
    return bool(some & others) or any(ALL_NODES[pool].units for pool in pools)
