"""Lets init containers share the devices of app containers.

An init container ends before the app containers start. The effective request of a pod is the larger
of its largest init container and the sum of its app containers, plus its sidecars. In a claim, an
init container shares devices by referring to the same request as an app container.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from documents.paths import format_path
from dra.finding import Finding
from translate.legacy.asks import Ask, Bytes, ContainerRole, DeviceShare, Percent
from translate.legacy.codes import INIT_ADDS_UP, INIT_SEES_MORE

AskNames = Mapping[str, tuple[str, ...]]


def share_devices(asks: Iterable[Ask]) -> tuple[tuple[Ask, ...], AskNames, tuple[Finding, ...]]:
    """Merge the asks of init containers into those of later containers.

    Also returns the names of the asks that each one was merged into: empty if nothing was merged.
    """
    original = tuple(asks)
    if not any(map(_is_init_only, original)):
        return original, {}, ()
    pool = {ask.name: ask for ask in original if not _is_init_only(ask)}
    later = tuple(pool.values())
    findings: list[Finding] = []
    merged: dict[str, tuple[str, ...]] = {name: (name,) for name in pool}
    for ask in filter(_is_init_only, original):
        missing = ask.count
        into = []
        for name, other in pool.items():
            if missing == 0 or not _satisfies(other, ask) or _may_repeat(ask, other):
                continue
            pool[name] = replace(other, users=(*other.users, *ask.users))
            into.append(name)
            if missing is not None:
                findings += _report_excess(ask, missing, other)
                missing = max(0, missing - (other.count or missing))
            else:
                missing = 0
        if missing != 0:
            pool[ask.name] = replace(ask, count=missing)
            into.append(ask.name)
            if len(into) == 1 and any(other.kind is ask.kind for other in later):
                findings.append(_adds_up(ask))
        merged[ask.name] = tuple(into)
    return tuple(pool.values()), merged, tuple(findings)


def _is_init_only(ask: Ask) -> bool:
    return bool(ask.users) and all(user.role is ContainerRole.INIT for user in ask.users)


def _satisfies(held: Ask, wanted: Ask) -> bool:
    """Whether the devices of one ask satisfy the other, regardless of their count."""
    if any(user.role is ContainerRole.SIDECAR for user in held.users):
        return False
    if wanted.count is None and held.count is not None:
        return False
    blank: dict[str, object] = {
        "name": "", "row": "", "count": 1, "users": (), "share": None, "resources": (),
    }  # fmt: skip
    alike = replace(held, **blank) == replace(wanted, **blank)
    return alike and (held.share is None or _share_satisfies(held.share, wanted.share))


def _may_repeat(wanted: Ask, held: Ask) -> bool:
    """Whether one device could serve the wanted count twice if another ask adds the rest.

    Shares of several asks may be on one device, but the shares of one ask are on different ones.
    """
    if wanted.share is None or wanted.partition or wanted.count is None or held.count is None:
        return False
    return held.count < wanted.count


def _share_satisfies(held: DeviceShare, wanted: DeviceShare | None) -> bool:
    if wanted is None:
        return False
    alike = (held.isolation, held.replica) == (wanted.isolation, wanted.replica)
    cores = held.cores is None or (
        wanted.cores is not None and wanted.cores.value <= held.cores.value
    )
    return alike and cores and _memory_satisfies(held.memory, wanted.memory)


def _memory_satisfies(held: Bytes | Percent | None, wanted: Bytes | Percent | None) -> bool:
    if held is None or wanted is None:
        return held is wanted
    if isinstance(held, Bytes) and isinstance(wanted, Bytes):
        return wanted.value <= held.value
    if isinstance(held, Percent) and isinstance(wanted, Percent):
        return wanted.value <= held.value
    return False


def _report_excess(ask: Ask, missing: int, other: Ask) -> list[Finding]:
    more_devices = other.count is None or other.count > missing
    if not more_devices and ask.share == other.share:
        return []
    names = ", ".join(user.name for user in other.users)
    return [
        INIT_SEES_MORE.at(
            format_path(ask.users[0].path),
            f"init container {ask.users[0].name} shares the devices of {names} and sees more than "
            "it requests",
        )
    ]


def _adds_up(ask: Ask) -> Finding:
    return INIT_ADDS_UP.at(
        format_path(ask.users[0].path),
        f"init container {ask.users[0].name} requests devices ({', '.join(ask.resources)}) that it "
        "cannot share with a later container, so the pod holds the devices of both at the same "
        "time",
    )
