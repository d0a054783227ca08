"""Lets init containers share the devices of the containers that start after them.

An init container ends before the next container starts; a sidecar runs as long as the pod. The
effective request of a pod is the largest of the sum of its app containers and sidecars, and of each
init container with the sidecars before it. In a claim, an init container shares devices by
referring to the same request as an app container or a later sidecar.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from drawbridge.documents.paths import Path, format_path
from drawbridge.dra.counted import list_some
from drawbridge.finding import Finding
from drawbridge.translate.legacy.asks import (
    Ask,
    Bytes,
    ContainerRole,
    DeviceShare,
    DeviceUser,
    Percent,
)
from drawbridge.translate.legacy.codes import INIT_ADDS_UP, INIT_SEES_MORE, SHARE_ENLARGED

_MAX_NAMES: Final = 8  # of containers in a message
AskNames = Mapping[str, tuple[str, ...]]


class _HeldAsk:
    """An ask whose devices init containers can share, with the asks that do."""

    __slots__ = ("_sidecar", "ask", "sharing", "users")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.sharing: list[Ask] = []
        # A pod can have hundreds of both kinds of asks.
        sidecars = (user.path for user in ask.users if user.role is ContainerRole.SIDECAR)
        self._sidecar = min(sidecars, default=None)  # the first one that uses the devices
        self.users: list[DeviceUser] = [*ask.users]

    def share(self, ask: Ask) -> None:
        """Let an init container use the devices as well."""
        self.sharing.append(ask)
        self.users += ask.users

    def is_free_for(self, last: Path) -> bool:
        """Whether no sidecar uses the devices until the last init container of an ask has ended."""
        return self._sidecar is None or self._sidecar > last

    def describe_users(self) -> str:
        """Return the names of the containers, the first ones if there are many."""
        return list_some([user.name for user in self.users], _MAX_NAMES, "container")

    def merge(self) -> Ask:
        """Return the ask with the users and the resource names of all."""
        if not self.sharing:
            return self.ask
        asks = (self.ask, *self.sharing)
        return replace(
            self.ask,
            users=tuple(self.users),
            resources=tuple(dict.fromkeys(name for each in asks for name in each.resources)),
            amounts=tuple(dict.fromkeys(name for each in asks for name in each.amounts)),
        )


_AskPool = dict[object, list[_HeldAsk]]  # by everything but share, count and names


def share_devices(asks: Iterable[Ask]) -> tuple[tuple[Ask, ...], AskNames, tuple[Finding, ...]]:
    """Merge the asks of init containers into those of other containers.

    Also returns the names of the asks that each one was merged into: empty if nothing was merged.
    """
    original = tuple(asks)
    if not any(map(_is_init_only, original)):
        return original, {}, ()
    properties = [_shared_properties(ask) for ask in original]
    held: list[_HeldAsk] = []
    pool: _AskPool = {}
    inits: list[tuple[Ask, object]] = []
    for ask, alike in zip(original, properties, strict=True):
        if _is_init_only(ask):
            inits.append((ask, alike))
        else:
            _hold(ask, alike, held, pool)
    findings: list[Finding] = []
    merged: dict[str, tuple[str, ...]] = {each.ask.name: (each.ask.name,) for each in held}
    for ask, alike in inits:
        last = max(user.path for user in ask.users)
        free = [each for each in pool.get(alike, ()) if each.is_free_for(last)]
        into, missing, reported = _share(ask, free)
        findings += reported
        if missing != 0 and not into:
            larger, enlarged = _enlarge(ask, free)
            findings += enlarged
            into += larger
            missing = 0 if larger else missing
        if missing != 0:
            if any(_is_left(each, ask, into) for each in held if each.is_free_for(last)):
                findings.append(_adds_up(ask))
            _hold(replace(ask, count=missing), alike, held, pool)
            into.append(ask.name)
        merged[ask.name] = tuple(into)
    return tuple([each.merge() for each in held]), merged, tuple(findings)


def _hold(ask: Ask, alike: object, held: list[_HeldAsk], pool: _AskPool) -> None:
    held_ask = _HeldAsk(ask)
    held.append(held_ask)
    pool.setdefault(alike, []).append(held_ask)


def _share(ask: Ask, candidates: Iterable[_HeldAsk]) -> tuple[list[str], int | None, list[Finding]]:
    """Share devices with an init container; returns the names of the asks, and what is missing."""
    into: list[str] = []
    findings: list[Finding] = []
    missing = ask.count
    for held_ask in candidates:
        if missing == 0:
            break
        if not _satisfies(held_ask.ask, ask) or _is_divided(ask, held_ask.ask):
            continue
        if missing is None:
            missing = 0
        else:
            findings += _report_excess(ask, missing, held_ask)
            missing = max(0, missing - (held_ask.ask.count or missing))
        held_ask.share(ask)
        into.append(held_ask.ask.name)
    return into, missing, findings


def _enlarge(ask: Ask, candidates: Iterable[_HeldAsk]) -> tuple[list[str], list[Finding]]:
    """Enlarge the largest held share to that of an init container, which then uses it as well.

    The pod needs the larger of the two amounts, because one container ends before the other
    starts. The devices of a claim are held as long as the pod, so they have the larger amount.
    """
    largest_first = sorted(candidates, key=lambda each: _memory_value(each.ask.share), reverse=True)
    fitting = (
        (share, held_ask)
        for held_ask in largest_first
        if not _is_divided(ask, held_ask.ask)
        and (share := _larger_share(held_ask.ask.share, ask.share)) is not None
    )
    share, held_ask = next(fitting, (None, None))
    if share is None or held_ask is None:
        return [], []
    names = held_ask.describe_users()
    message = (
        f"{names} and init container {ask.users[0].name} use one share of the larger amount "
        f"({', '.join(ask.resources) or ask.row}), because the pod holds its devices "
        "as long as it runs"
    )
    findings = [SHARE_ENLARGED.at(format_path(ask.users[0].path), message)]
    if ask.share and ask.share.cores and not share.cores:
        findings.append(_sees_more(ask, names))
    held_ask.ask = replace(held_ask.ask, share=share)
    held_ask.share(ask)
    return [held_ask.ask.name], findings


def _larger_share(held: DeviceShare | None, wanted: DeviceShare | None) -> DeviceShare | None:
    """Return the share with the larger amounts of two of the same kind; None if they differ."""
    if held is None or wanted is None or held.per_mille or wanted.per_mille:
        return None
    if (held.isolation, held.replica) != (wanted.isolation, wanted.replica):
        return None
    if type(held.memory) is not type(wanted.memory) or (held.cores and wanted.cores is None):
        return None
    amounts = _larger_amounts(held, wanted)
    if amounts is None:
        return None
    memory = wanted.memory if _memory_value(wanted) > _memory_value(held) else held.memory
    cores = held.cores
    if held.cores and wanted.cores:
        cores = max(held.cores, wanted.cores, key=lambda each: each.value)
    return replace(held, memory=memory, cores=cores, amounts=amounts)


def _larger_amounts(held: DeviceShare, wanted: DeviceShare) -> tuple[tuple[str, int], ...] | None:
    """Return the larger amount of each capacity; None if the shares are of different ones."""
    others = dict(wanted.amounts)
    if others.keys() != dict(held.amounts).keys():
        return None
    return tuple((name, max(amount, others[name])) for name, amount in held.amounts)


def _memory_value(share: DeviceShare | None) -> Decimal:
    return Decimal(share.memory.value if share and share.memory else 0)


def _shared_properties(ask: Ask) -> object:
    """Return what asks that share devices have in common, as a key."""
    blank: dict[str, object] = {
        "name": "", "row": "", "count": 1, "users": (), "share": None, "resources": (),
        "amounts": (),
    }  # fmt: skip
    alike = replace(ask, **blank)
    try:
        hash(alike)
    except TypeError:  # network parameters may be lists
        return repr(alike)
    return alike


def _is_init_only(ask: Ask) -> bool:
    return bool(ask.users) and all(user.role is ContainerRole.INIT for user in ask.users)


def _satisfies(held: Ask, wanted: Ask) -> bool:
    """Whether the devices of an alike ask satisfy the other, regardless of their count."""
    if held.share is not None and not _share_satisfies(held.share, wanted.share):
        return False
    return wanted.count is not None or held.count is None


def _is_left(held_ask: _HeldAsk, ask: Ask, into: Sequence[str]) -> bool:
    """Whether an init container adds devices although it leaves those of a held ask unused.

    An extended resource would not add them. If it shares some devices, the rest adds up only with
    devices of the same resource.
    """
    other = held_ask.ask
    if other.kind is not ask.kind or other.name in into:
        return False
    return not into or not set(ask.resources).isdisjoint(other.resources)


def _is_divided(wanted: Ask, held: Ask) -> bool:
    """Whether another ask would have to add devices that must be of the same ask.

    Shares of several asks may be on one device, but the shares of one ask are on different ones.
    Only the devices of one ask are near each other.
    """
    is_near = wanted.colocation is not None and wanted.colocation.required
    if not is_near and (wanted.share is None or wanted.partition):
        return False
    return wanted.count is not None and held.count is not None and held.count < wanted.count


def _share_satisfies(held: DeviceShare, wanted: DeviceShare | None) -> bool:
    if wanted is None or not _memory_satisfies(held.memory, wanted.memory):
        return False
    return (
        (held.isolation, held.replica) == (wanted.isolation, wanted.replica)
        and (
            held.cores is None
            or (wanted.cores is not None and wanted.cores.value <= held.cores.value)
        )
        and held.amounts == _larger_amounts(held, wanted)
    )


def _memory_satisfies(held: Bytes | Percent | None, wanted: Bytes | Percent | None) -> bool:
    if held is None or wanted is None:
        return held is wanted
    if isinstance(held, Bytes) and isinstance(wanted, Bytes):
        return wanted.value <= held.value
    if isinstance(held, Percent) and isinstance(wanted, Percent):
        return wanted.value <= held.value
    return False


def _report_excess(ask: Ask, missing: int, held_ask: _HeldAsk) -> list[Finding]:
    other = held_ask.ask
    more_devices = other.count is None or other.count > missing
    if not more_devices and ask.share == other.share:
        return []
    names = held_ask.describe_users()
    return [_sees_more(ask, names)]


def _sees_more(ask: Ask, names: str) -> Finding:
    return INIT_SEES_MORE.at(
        format_path(ask.users[0].path),
        f"init container {ask.users[0].name} shares the devices of {names} and sees more than "
        f"it requests ({', '.join(ask.resources) or ask.row})",
    )


def _adds_up(ask: Ask) -> Finding:
    return INIT_ADDS_UP.at(
        format_path(ask.users[0].path),
        f"init container {ask.users[0].name} requests devices ({', '.join(ask.resources)}) that it "
        "cannot share with other containers, so the pod holds the devices of both at the same "
        "time",
    )
