"""Observes claims and tells who held how much in any interval since it started.

Every replica of the controller has a meter, so that a new leader knows what happened before it
led. A meter keeps the amounts that accounts held at its start, and each change since then with its
time. The changes up to a time are folded into the start once a book has them.

If there are too many changes, those of the namespaces with most of them are folded early: these
count from the start of the meter with what they hold now. What others used stays exact.

A time never goes back here. If the clock does, changes have the time of the last one.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from drawbridge.usage.accounts import NOTHING, Account, UsedAmount, sum_usage

MAX_CHANGES: Final = 10_000
# So many changes stay when others are folded early.
_LEFT: Final = 7_500
# A claim is seen so many seconds after its allocation at the latest. An older or later time of
# allocation comes from a wrong clock.
MAX_DELAY: Final = 120
# Most changes of claims are seen so many seconds after they happened. A book has only what was seen
# by then, however late it is written: its end tells the replica that wrote it what it has. A new
# leader goes by when it saw a change itself, which can be another time: it then counts twice, or
# not at all, what an allocation held before the end of the last book.
DELAY: Final = 3

# The end of a meter that observes: none.
_NO_END: Final = sys.maxsize

# Gaps that are named, until a book has them; later ones are joined with the last one.
MAX_GAPS: Final = 100

Charges = tuple[tuple[Account, UsedAmount], ...]
Gap = tuple[int, int]  # from one time until another


class HeldClaim(NamedTuple):
    """What one claim holds. The times are those in the claim; None if it has none."""

    charges: Charges
    allocated: int | None = None
    created: int | None = None

    def renamed(self, names: Mapping[Account, Account]) -> "HeldClaim":
        """Return the same, charged to other accounts."""
        if not any(account in names for account, _ in self.charges):
            return self
        return self._replace(
            charges=tuple((names.get(account, account), amount) for account, amount in self.charges)
        )


class _Change(NamedTuple):
    at: int
    seen: int
    account: Account
    amount: UsedAmount

    def is_in_book(self, through: int, end: int) -> bool:
        """Whether a book that ends at a time has this change, and not a later one.

        A book that ends with its meter has all until then, also what the meter saw late: the meter
        continues no other book.
        """
        return self.at <= through and (self.seen <= through + DELAY or through >= end)

    def renamed(self, names: Mapping[Account, Account]) -> "_Change":
        return self._replace(account=names.get(self.account, self.account))


class Observed(NamedTuple):
    """What a meter has observed since `start`; does not change while the meter does."""

    start: int
    rates: tuple[tuple[Account, UsedAmount], ...]
    changes: tuple[_Change, ...]
    # What was held at the start; None if the start was moved.
    first: tuple[HeldClaim, ...] | None
    # The times in which claims can have come and gone unseen.
    gaps: tuple[Gap, ...] = ()
    end: int = _NO_END

    def accounts(self) -> frozenset[Account]:
        """Return all accounts."""
        accounts = {account for account, _ in self.rates}
        accounts.update(change.account for change in self.changes)
        accounts.update(account for claim in self.first or () for account, _ in claim.charges)
        return frozenset(accounts)

    def renamed(self, names: Mapping[Account, Account]) -> "Observed":
        """Return the same, charged to other accounts."""
        first = self.first and tuple(claim.renamed(names) for claim in self.first)
        rates = sum_usage((names.get(account, account), rate) for account, rate in self.rates)
        changes = tuple(change.renamed(names) for change in self.changes)
        return self._replace(rates=tuple(rates.items()), changes=changes, first=first)

    def measure(self, until: int) -> dict[Account, UsedAmount]:
        """Return what accounts held from the start to a time, multiplied by the seconds."""
        if until <= self.start:
            return {}
        seconds = until - self.start
        constant = ((account, rate.times(seconds)) for account, rate in self.rates)
        changed = (
            (each.account, each.amount.times(until - each.at))
            for each in self.changes
            if each.is_in_book(until, self.end)
        )
        return sum_usage((*constant, *changed))

    def held_at(self, time: int) -> dict[Account, UsedAmount]:
        """Return what accounts held at a time since the start."""
        changes = (each for each in self.changes if each.is_in_book(time, self.end))
        return sum_usage((*self.rates, *((each.account, each.amount) for each in changes)))


class Meter:
    """The claims that are held now, and the changes since `start`."""

    def __init__(self) -> None:
        self.start: int | None = None  # nothing is known about the time before
        self.end = _NO_END
        self._began = 0
        self._first: tuple[HeldClaim, ...] | None = None
        self._held: dict[str, HeldClaim] = {}
        self._since: dict[str, int] = {}
        self._rates: dict[Account, UsedAmount] = {}
        self._now: dict[Account, UsedAmount] = {}
        self._changes: list[_Change] = []
        self._of_namespace = Counter[str]()
        self._gaps: list[Gap] = []
        self._last = 0

    def begin(
        self,
        held: Mapping[str, HeldClaim],
        now: int,
        sums: Mapping[Account, UsedAmount] | None = None,
    ) -> None:
        """Start with these claims, by uid; everything before is forgotten. `sums` is their sum."""
        self.start = self._began = self._last = max(now, self._last)
        self._held = {uid: each for uid, each in held.items() if each.charges}
        self._since = dict.fromkeys(self._held, self.start)
        self._first = tuple(self._held.values())
        self._rates = sum_claims(self._first) if sums is None else dict(sums)
        self._now = dict(self._rates)
        self._changes.clear()
        self._of_namespace.clear()
        self._gaps.clear()

    def change(self, uid: str, held: HeldClaim | None, now: int) -> None:
        """Note what a claim holds from now on, or since the time of its allocation."""
        before, after = self._held.get(uid), held if held and held.charges else None
        if self.start is None or (before and before.charges) == (after and after.charges):
            return
        if len(self._changes) >= MAX_CHANGES:
            self._make_room()
        seen = self._last = max(now, self._last)
        at = max(_time_of_allocation(after, seen), self._since.pop(uid, self._began))
        if before is not None:
            self._add(at, seen, before, -1)
            del self._held[uid]
        if after is not None:
            self._add(at, seen, after, 1)
            self._held[uid], self._since[uid] = after, at

    def miss(self, start: int, end: int) -> None:
        """Note that what came and went between two times was not seen."""
        if len(self._gaps) >= MAX_GAPS:
            start = self._gaps.pop()[0]
        self._gaps.append((start, end))

    def _add(self, at: int, seen: int, held: HeldClaim, sign: int) -> None:
        for account, amount in held.charges:
            change = _Change(at, seen, account, amount.times(sign))
            self._changes.append(change)
            self._of_namespace[account.namespace] += 1
            _add_to(self._now, account, change.amount)

    def _make_room(self) -> None:
        """Fold the changes of the namespaces with most of them into the start."""
        left, folded = len(self._changes), set[str]()
        for namespace, count in self._of_namespace.most_common():
            if left <= _LEFT:
                break
            left -= count
            folded.add(namespace)
        for change in self._changes:
            if change.account.namespace in folded:
                _add_to(self._rates, change.account, change.amount)
        self._set_changes([e for e in self._changes if e.account.namespace not in folded])

    def _set_changes(self, changes: list[_Change]) -> None:
        self._changes = changes
        self._of_namespace = Counter(each.account.namespace for each in changes)

    def restart(self, now: int) -> None:
        """Start again with the claims that are held now."""
        self.begin(self._held, now, self._now)

    def held_now(self) -> dict[Account, UsedAmount]:
        """Return what accounts hold after all changes."""
        return dict(self._now)

    def observed(self) -> Observed | None:
        """Return what was observed since the start; None before the start."""
        if self.start is None:
            return None
        rates = tuple(self._rates.items())
        changes, gaps = tuple(self._changes), tuple(self._gaps)
        return Observed(self.start, rates, changes, self._first, gaps, self.end)

    def forget(self, before: int) -> None:
        """Move the start to the end of a book. What the book does not have stays."""
        if self.start is None or before <= self.start:
            return
        kept = []
        for change in self._changes:
            if change.is_in_book(before, self.end):
                _add_to(self._rates, change.account, change.amount)
            else:
                kept.append(change)
        self._set_changes(kept)
        self._gaps = [gap for gap in self._gaps if gap[1] > before]
        self.start, self._first = before, None


def sum_claims(claims: Iterable[HeldClaim]) -> dict[Account, UsedAmount]:
    """Return what accounts hold by these claims."""
    return sum_usage(charge for each in claims for charge in each.charges)


def correct_sums(
    sums: dict[Account, UsedAmount], gone: Iterable[HeldClaim], new: Iterable[HeldClaim]
) -> dict[Account, UsedAmount]:
    """Take claims from sums and add others, in place."""
    for claims, sign in ((gone, -1), (new, 1)):
        for claim in claims:
            for account, amount in claim.charges:
                _add_to(sums, account, amount.times(sign))
    return sums


def _add_to(rates: dict[Account, UsedAmount], account: Account, amount: UsedAmount) -> None:
    rate = rates.get(account, NOTHING).plus(amount)
    if rate == NOTHING:
        rates.pop(account, None)
    else:
        rates[account] = rate


def _time_of_allocation(held: HeldClaim | None, seen: int) -> int:
    """Return the time since when a claim holds its devices, by its own time if that can be."""
    if held is None or held.allocated is None:
        return seen
    allocated = max(held.allocated, held.created or 0)
    return allocated if 0 <= seen - allocated <= MAX_DELAY else seen
