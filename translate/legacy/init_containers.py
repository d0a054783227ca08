"""Init containers: what ends before the app containers start uses devices that are theirs later.

The demand of a pod is the larger of its largest init container and its app containers together,
and its sidecars on top. A claim says that by letting both refer to the same request. Knows no
dialect.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from documents.paths import show
from dra.finding import Finding
from translate.legacy.asks import Ask, Bytes, Percent, Role, Share
from translate.legacy.codes import INIT_ADDS_UP, INIT_SEES_MORE

Names = Mapping[str, tuple[str, ...]]


def folded(asks: Iterable[Ask]) -> tuple[tuple[Ask, ...], Names, tuple[Finding, ...]]:
    """Let init containers use later containers' devices.

    Says which asks each one went into; nothing of asks that are what they were.
    """
    given = tuple(asks)
    if not any(map(_passing, given)):
        return given, {}, ()
    pool = {ask.name: ask for ask in given if not _passing(ask)}
    own = tuple(pool.values())
    findings: list[Finding] = []
    went: dict[str, tuple[str, ...]] = {name: (name,) for name in pool}
    for ask in filter(_passing, given):
        rest = ask.count
        into = []
        for name, other in pool.items():
            if rest == 0 or not _covers(other, ask):
                continue
            pool[name] = replace(other, users=(*other.users, *ask.users))
            into.append(name)
            if rest is not None:
                findings += _more(ask, rest, other)
                rest = max(0, rest - (other.count or rest))
            else:
                rest = 0
        if rest != 0:
            pool[ask.name] = replace(ask, count=rest)
            into.append(ask.name)
            if len(into) == 1 and any(one.kind is ask.kind for one in own):
                findings.append(_adds_up(ask))
        went[ask.name] = tuple(into)
    return tuple(pool.values()), went, tuple(findings)


def _passing(ask: Ask) -> bool:
    users = ask.users
    return bool(users) and users[0].role is Role.INIT and all(u.role is Role.INIT for u in users)


def _covers(held: Ask, wanted: Ask) -> bool:
    """Whether who holds the one has all that the other asks for, number apart."""
    if any(user.role is Role.SIDECAR for user in held.users):
        return False
    if wanted.count is None and held.count is not None:
        return False
    blank: dict[str, object] = {
        "name": "", "row": "", "count": 1, "users": (), "share": None, "resources": (),
    }  # fmt: skip
    alike = replace(held, **blank) == replace(wanted, **blank)
    return alike and (held.share is None or _holds(held.share, wanted.share))


def _holds(held: Share, wanted: Share | None) -> bool:
    if wanted is None:
        return False
    alike = (held.isolation, held.replica) == (wanted.isolation, wanted.replica)
    cores = held.cores is None or (
        wanted.cores is not None and wanted.cores.value <= held.cores.value
    )
    return alike and cores and _enough(held.memory, wanted.memory)


def _enough(held: Bytes | Percent | None, wanted: Bytes | Percent | None) -> bool:
    if held is None or wanted is None:
        return held is wanted
    if isinstance(held, Bytes) and isinstance(wanted, Bytes):
        return wanted.value <= held.value
    if isinstance(held, Percent) and isinstance(wanted, Percent):
        return wanted.value <= held.value
    return False


def _more(ask: Ask, rest: int, other: Ask) -> list[Finding]:
    more = other.count is None or other.count > rest
    if not more and ask.share == other.share:
        return []
    names = ", ".join(user.name for user in other.users)
    return [
        INIT_SEES_MORE.at(
            show(ask.users[0].path),
            f"init container {ask.users[0].name} shares the devices of {names} and sees more than "
            "it asked for",
        )
    ]


def _adds_up(ask: Ask) -> Finding:
    return INIT_ADDS_UP.at(
        show(ask.users[0].path),
        f"init container {ask.users[0].name} asks for devices ({', '.join(ask.resources)}) that no "
        "later container has, so the pod holds both at once",
    )
