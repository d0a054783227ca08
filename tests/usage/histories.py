"""Generated histories of claims, and two controllers that keep the book meanwhile."""

# ruff: noqa: D102  # actions of a test double

import functools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import hypothesis.strategies as st

from drawbridge.usage.accounts import Account, UsedAmount
from drawbridge.usage.book import DAY, Book, format_book, read_book
from drawbridge.usage.bookkeeping import continue_book
from drawbridge.usage.meter import DELAY, HeldClaim, Meter

# Shortly before midnight, so that histories of some minutes have two days.
START = 20_000 * DAY - 200
REPLICAS = 2
ACCOUNTS = [
    Account("research", "gpu.nvidia.com", "Job/train"),
    Account("research", "gpu.nvidia.com", "Deployment/notebook"),
    Account("serving", "gpu.nvidia.com", "Deployment/chat"),
    Account("serving", "mig.nvidia.com", "Deployment/chat"),
]
DEVICES = [Fraction(1), Fraction(1, 3), Fraction(125, 1024), Fraction(2)]


@dataclass
class TrueClaim:
    """What a claim really holds, and since when."""

    created: int
    held: tuple[Account, Fraction] | None = None
    since: int = 0


@dataclass
class Replica:
    """One controller; without a meter it is down."""

    meter: Meter | None = None


@dataclass
class World:
    """The claims, the replicas and the stored books; every action takes place at `now`."""

    timestamps: bool = True
    # How many times later than usual an allocation is seen.
    late: int = 1
    now: int = START
    claims: dict[str, TrueClaim] = field(default_factory=dict)
    replicas: list[Replica] = field(default_factory=lambda: [Replica() for _ in range(REPLICAS)])
    books: dict[int, str] = field(default_factory=dict)
    # Of each account: when it held how much.
    history: list[tuple[Account, Fraction, int, int]] = field(default_factory=list)
    created: int = 0

    # --- claims ---

    def create(self) -> None:
        self.claims[f"claim-{self.created}"] = TrueClaim(self.now)
        self.created += 1

    def allocate(self, which: int, account: int, devices: int) -> None:
        """Allocate a claim; if it has the time of that, controllers see it somewhat later."""
        free = [name for name, each in self.claims.items() if each.held is None]
        if free:
            name = free[which % len(free)]
            held = ACCOUNTS[account % len(ACCOUNTS)], DEVICES[devices % len(DEVICES)]
            self.claims[name].held, self.claims[name].since = held, self.now
            self.now += devices % DELAY * self.late if self.timestamps else 0
            self.tell(name)

    def release(self, which: int, *, delete: bool = False) -> None:
        held = [name for name, each in self.claims.items() if each.held is not None]
        if held:
            name = held[which % len(held)]
            claim = self.claims[name]
            assert claim.held is not None
            self.history.append((*claim.held, claim.since, self.now))
            claim.held = None
            if delete:
                del self.claims[name]
            self.tell(name)

    def share(self, which: int) -> None:
        """Another pod uses an allocated claim: an event that changes nothing about devices."""
        if self.claims:
            self.tell([*self.claims][which % len(self.claims)])

    def read(self, name: str) -> HeldClaim | None:
        claim = self.claims.get(name)
        if claim is None:
            return None
        charges = ((claim.held[0], UsedAmount(claim.held[1])),) if claim.held else ()
        return HeldClaim(charges, claim.since if self.timestamps else None, claim.created)

    def tell(self, name: str) -> None:
        for replica in self.replicas:
            if replica.meter is not None:
                replica.meter.change(name, self.read(name), self.now)

    # --- controllers ---

    def start(self, number: int) -> None:
        replica = self.replicas[number]
        if replica.meter is None:
            replica.meter = Meter()
            held = {name: self.read(name) for name in self.claims}
            replica.meter.begin({name: each for name, each in held.items() if each}, self.now)

    def kill(self, number: int) -> None:
        self.replicas[number].meter = None

    def write(self, number: int, behind: int = 0) -> None:
        """Bring the books up to date, as the leader does if nothing told it of the last seconds."""
        meter = self.replicas[number].meter
        if meter is None:
            return
        while True:
            latest = self.latest()
            if latest is not None:
                meter.forget(latest.through)
            observed = meter.observed()
            assert observed is not None
            if latest is not None and observed.start > latest.through and observed.first is None:
                meter.restart(self.now)
                continue
            book = continue_book(latest, observed, self.now - DELAY - behind)
            if book is None:
                return
            self.books[book.day] = format_book(book)

    def latest(self) -> Book | None:
        return read_book(self.books[max(self.books)]) if self.books else None

    def all_books(self) -> list[Book]:
        return [read_book(self.books[day]) for day in sorted(self.books)]

    # --- the truth ---

    def intervals(self) -> list[tuple[Account, Fraction, int, int]]:
        open_now = [
            (*e.held, e.since, self.now) for e in self.claims.values() if e.held is not None
        ]
        return [*self.history, *open_now]

    def truth(self, start: int, end: int) -> dict[Account, Fraction]:
        """The devices multiplied by seconds that accounts really held between two times."""
        sums: dict[Account, Fraction] = defaultdict(Fraction)
        for account, devices, since, until in self.intervals():
            sums[account] += devices * max(0, min(until, end) - max(since, start))
        return {account: number for account, number in sums.items() if number}


Action = tuple[str, int, int, int]
_NUMBERS = st.integers(0, 5)


def actions(*names: str) -> st.SearchStrategy[list[Action]]:
    """Lists of actions: a name, its numbers, and the seconds that pass before it."""
    change = st.tuples(st.sampled_from(names), _NUMBERS, _NUMBERS, st.integers(0, 40))
    return st.lists(change, max_size=25)


def act(world: World, action: Action) -> None:
    """Let time pass and do one action."""
    name, first, second, seconds = action
    world.now += seconds
    match name:
        case "create":
            world.create()
        case "allocate":
            world.allocate(first, second, first + second)
        case "release":
            world.release(first)
        case "delete":
            world.release(first, delete=True)
        case "share":
            world.share(first)
        case "start":
            world.start(first % REPLICAS)
        case "kill":
            world.kill(first % REPLICAS)
        case "write":
            world.write(first % REPLICAS, second)
        case "clock back":
            world.now -= 2 * seconds


def total(usage: Mapping[Account, UsedAmount]) -> UsedAmount:
    return functools.reduce(UsedAmount.plus, usage.values(), UsedAmount())
