"""The books of usage, compared with what claims have had, and with the books before each write.

A controller hears late of what a claim gets or gives back. How late, its cache tells: by so much
the books may differ from the claims. They count from the time of the allocation that the claim has,
which is before the write if that takes long. What nobody observed is in the gaps of the books.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

from drawbridge.cluster.store import CachedObject
from drawbridge.names import USAGE_CONFIG_MAP_PREFIX
from drawbridge.usage.book import Book, BookError, BookRow
from drawbridge.usage.meter import MAX_DELAY
from drawbridge.usage.stored_books import read_config_map
from tests.cluster.fake.kinds import JSON, Kind, named
from tests.cluster.fake.store import Change
from tests.world import clock
from tests.world.control import Controllers
from tests.world.network import SYSTEM, Network
from tests.world.nodes import list_results, make_hold
from tests.world.objects import ALL_NODES, CLASS, NIC_CLASS, NIC_DRIVER

if TYPE_CHECKING:
    from tests.world.world import World

_CONFIG_MAP: Final = named("configmaps")
# The latest book has what claims had until then: each ten seconds, and after a change of leader. It
# ends with the last change or bookmark that a watch told of.
_LATEST_SECONDS = 120
# Controllers believe the time of a claim of which they hear less late.
_MOST_LATE = MAX_DELAY - 10
# Times are whole seconds at both ends.
_ROUNDED_SECONDS = 2


class Group(NamedTuple):
    """Whose usage of a class is compared: of one owner, or of all of a namespace."""

    namespace: str
    class_name: str
    owner: str = ""


_Sums = defaultdict[Group, Fraction]


class _Interval(NamedTuple):
    """What a claim had of a group, and by how much its ends can differ for who counts that."""

    group: Group
    start: float
    end: float
    amount: Fraction
    slack: float
    # How much of that is only because somebody counted it late, and not at all before that.
    early: float = 0.0

    def within(self, start: float, end: float) -> Fraction:
        """Return the device-seconds within a time."""
        return self.amount * Fraction(max(0.0, min(self.end, end) - max(self.start, start)))


class Books:
    """Follows claims, the books that are written, and what controllers hear of claims."""

    def __init__(self, network: Network, controllers: Controllers) -> None:
        self._network = network
        controllers.hear_claim = self.hear
        # By UID, since when a claim has what, the version by which it has, and by how many seconds
        # its own time is before that.
        self._held: dict[str, tuple[float, Mapping[Group, Fraction], str, float]] = {}
        self._ended: list[tuple[_Interval, str, str]] = []
        # When the versions of a claim were written, by UID; a deletion has one of its own.
        self._written: dict[str, dict[str, float]] = defaultdict(dict)
        # How late a controller has heard of a version, or of a later one of the claim, and which
        # ones have, by the time of their start.
        self._late: dict[str, float] = {}
        self._heard: dict[str, set[float]] = defaultdict(set)
        self._timed = set[str]()  # the versions of claims that have the time of their allocation
        self._controllers = controllers
        self.broken: list[str] = []

    # --- what happens ---

    def follow(self, kind: Kind, change: Change) -> None:
        """Note what a claim has from now on, and compare a book with the one before."""
        if kind.plural == "resourceclaims":
            self._follow_claim(change)
        if kind is _CONFIG_MAP:
            before, after = (_read_book(each) for each in (change.before, change.after))
            if before is not None or after is not None:
                takes_back = "skew" in self._network.counted
                stored = [*self.list_books()]
                self.broken += _compare(before, after, stored, takes_back=takes_back)

    def _follow_claim(self, change: Change) -> None:
        value, now = change.after or change.before or {}, clock.wall()
        metadata = value["metadata"]
        uid, version = metadata["uid"], f"{metadata['uid']} is gone"
        if change.after is not None:
            version = f"{metadata['resourceVersion']}"
        self._written[uid][version] = now
        amounts = _read_amounts(change.after) if change.after else {}
        since, had, began, early = self._held.get(uid, (now, {}, version, 0.0))
        if amounts == had:
            return
        for group, amount in had.items():
            self._ended.append((_Interval(group, since, now, amount, early), began, version))
        told = _read_time(change.after)
        early = max(0.0, now - (told or now))
        self._timed.update({version} if told else ())
        self._held[uid] = now, amounts, version, early

    def hear(
        self,
        since: float,
        before: "CachedObject[object] | None",
        after: "CachedObject[object] | None",
    ) -> None:
        """Note that a controller hears of a change of a claim, and with it of those before.

        It follows claims since a time: what was written before that, it cannot hear of in time.
        """
        heard_until = since if before is None else self._find_written(before.uid, before.version)
        if before is not None and (after is None or after.uid != before.uid):
            self._hear(since, before.uid, f"{before.uid} is gone", heard_until)
            heard_until = since
        if after is not None:
            self._hear(since, after.uid, after.version, heard_until)

    def _find_written(self, uid: str, version: str) -> float:
        return self._written[uid].get(version, 0.0)

    def _hear(self, since: float, uid: str, heard: str, heard_until: float) -> None:
        until, now = self._find_written(uid, heard), clock.wall()
        for version, at in self._written[uid].items():
            is_new = at > heard_until or version == heard
            if at <= until and (is_new or version not in self._late):
                self._late[version] = max(now - at, self._late.get(version, 0.0))
                self._heard[version].add(since)

    def _find_late(self, start: float, version: str) -> float:
        """Return how late a change was heard of; of one that nobody has heard of, until now."""
        return self._late.get(version, clock.wall() - start)

    # --- what is left ---

    def list_books(self) -> Iterator[Book]:
        """Yield the stored books."""
        for config_map in self._network.store.among(_CONFIG_MAP, SYSTEM, "", ""):
            if (book := _read_book(config_map)) is not None:
                yield book

    def list_intervals(self) -> Iterator[_Interval]:
        """Yield what claims have had, and have."""
        for interval, began, ended in self._ended:
            late = self._find_late(interval.start, ended)
            yield self._with_start(interval._replace(slack=interval.slack + late), began)
        for since, amounts, version, early in self._held.values():
            for group, amount in amounts.items():
                interval = _Interval(group, since, clock.wall(), amount, early)
                yield self._with_start(interval, version)

    def _with_start(self, interval: _Interval, began: str) -> _Interval:
        """Return an interval with how late its start was heard of.

        Who leads all the time counts what it hears late from the time that the claim has.
        """
        late, controllers = self._find_late(interval.start, began), self._controllers
        leads = controllers.terms == len(controllers.replicas) == 1
        is_exact = leads and began in self._timed and late < _MOST_LATE
        is_heard = began in self._late and interval.start + late < interval.end
        early = late if is_exact and is_heard else 0.0
        spans = [(since, until) for (_, since), until in controllers.followed.items()]
        following = {s for s, until in spans if s < interval.end and until > interval.start}
        if following - self._heard[began]:
            # Its server was behind, and another one showed it what was left.
            late = max(late, interval.end - interval.start)
        return interval._replace(slack=interval.slack + late, early=early)


def _read_book(config_map: JSON | None) -> Book | None:
    if config_map is None or not config_map["metadata"]["name"].startswith(USAGE_CONFIG_MAP_PREFIX):
        return None
    try:
        return read_config_map(config_map)
    except BookError:
        return None


def _read_time(claim: JSON | None) -> float:
    """Return the time of its allocation that a claim has; 0 if it has none."""
    allocation = ((claim or {}).get("status") or {}).get("allocation") or {}
    told = allocation.get("allocationTimestamp")
    return dt.datetime.fromisoformat(told).timestamp() if told else 0.0


def _read_amounts(claim: JSON) -> dict[Group, Fraction]:
    """Return how many devices a claim has of each class; a share counts as its part."""
    amounts: dict[Group, Fraction] = defaultdict(Fraction)
    for result in list_results(claim):
        if not result.get("adminAccess"):
            hold = make_hold(result)
            pool, name = hold.device
            part = Fraction(hold.amount, ALL_NODES[pool].size(name)) if hold.share else Fraction(1)
            class_name = NIC_CLASS if result["driver"] == NIC_DRIVER else CLASS
            for owner in ("", _name_owner(claim)):
                amounts[Group(claim["metadata"]["namespace"], class_name, owner)] += part
    return dict(amounts)


def _name_owner(claim: JSON) -> str:
    """Return what the books charge a claim to; no object of the world owns pods."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        return f"{owner['kind']}/{owner['name']}"
    return f"ResourceClaim/{claim['metadata']['name']}"


def _compare(
    before: Book | None, after: Book | None, stored: list[Book], *, takes_back: bool
) -> Iterator[str]:
    """Yield what is lost or counted twice by the write of a book.

    A clock that was ahead let a book end in the future, and the next entry takes seconds back.
    """
    if after is None:
        yield f"the book of day {before and before.day} is gone"
        return
    others = (each for each in stored if each.day != after.day)
    for other in others:
        if other.start < after.through and after.start < other.through:
            yield f"the books of days {other.day} and {after.day} have the same seconds"
    if before is None:
        return
    if (before.day, before.start) != (after.day, after.start) or after.through < before.through:
        yield f"the book of day {before.day} until {before.through} is lost"
        return
    for account, row in before.rows.items() if not takes_back else ():
        was, now = row.used, after.rows.get(account, BookRow()).used
        # A share counts as unknown until its device is described, and then as a part of it.
        if now.devices < was.devices or (now.unknown < was.unknown and now.devices == was.devices):
            yield f"{'/'.join(account)} has used less than before in the book of day {after.day}"


# --- invariants ---


def no_book_is_lost_or_overlaps(world: "World") -> Iterator[str]:
    """Each write of a book continues what is stored, and no two books have the same second."""
    yield from world.books.broken


def the_books_have_what_claims_had(world: "World") -> Iterator[str]:
    """All books together have what claims had, each device-second once, also of one owner.

    That is judged without restores and wrong clocks, and as exactly as controllers heard of
    changes. What nobody observed can be unknown, or missing if it came and went in a gap.
    """
    if {"restore", "skew"} & world.network.counted.keys():
        return
    books, now = sorted(world.books.list_books(), key=lambda book: book.start), clock.wall()
    if not books or books[-1].through < now - _LATEST_SECONDS:
        yield f"the latest book ends at {books[-1].through if books else 0}, and it is {now:.0f}"
        return
    certain, possible = _sum_books(books)
    had, slack, missing = _sum_intervals(world.books, books)
    unknown = _Sums(Fraction)  # of owners that nobody knows
    for group in possible.keys() - had.keys():
        unknown[group._replace(owner="")] += possible[group]
    world.network.count("group of usage that is judged", len(had))
    for group in sorted(had.keys() | certain.keys()):
        if group[1] not in (CLASS, NIC_CLASS) or (group.owner and group not in had):
            continue  # of a plugin, or of an owner that nobody knows
        if certain[group] > had[group] + slack[group]:
            yield f"{group} has had {float(had[group])}, and the books have {float(certain[group])}"
        all_of_it = possible[group] + (unknown[group._replace(owner="")] if group.owner else 0)
        if all_of_it < had[group] - missing[group]:
            told = f"{float(all_of_it)} with what is unknown"
            yield f"{group} has had {float(had[group])}, and the books have {told}"


def _sum_books(books: Iterable[Book]) -> tuple[_Sums, _Sums]:
    """Return what books have, without and with what is unknown."""
    certain, possible = _Sums(Fraction), _Sums(Fraction)
    for book in books:
        for account, row in book.rows.items():
            for owner in ("", account.owner):
                group = Group(account.namespace, account.class_name, owner)
                certain[group] += row.used.devices
                possible[group] += row.used.devices + row.used.unknown
    return certain, possible


def _sum_intervals(followed: Books, books: Sequence[Book]) -> tuple[_Sums, _Sums, _Sums]:
    """Return what claims had in the time of books, how exact that is, and what can be missing."""
    had, slack, missing = _Sums(Fraction), _Sums(Fraction), _Sums(Fraction)
    gaps = [gap for book in books for gap in book.gaps]
    for interval in followed.list_intervals():
        group = interval.group
        had[group] += interval.within(books[0].start, books[-1].through)
        slack[group] += interval.amount * Fraction(interval.slack + _ROUNDED_SECONDS)
        missing[group] += sum(interval.within(*gap) for gap in gaps)
        early = interval.early if not gaps else 0.0
        missing[group] += interval.amount * Fraction(interval.slack - early + _ROUNDED_SECONDS)
    return had, slack, missing
