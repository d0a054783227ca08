"""Reconstructs what accounts held while nobody observed, from the times in the claims that exist.

A claim whose time of allocation is before the gap held its devices throughout. One that was
allocated in the gap holds them since then. What was held before the gap and is not any more was
released at an unknown time, and so are devices of claims without a time of allocation: they count
as unknown. Claims that were allocated and released within the gap are not seen at all, so a book
names each gap.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from drawbridge.usage.accounts import OTHER, UNKNOWN, ZERO, Account, UsedAmount, sum_usage
from drawbridge.usage.meter import HeldClaim

_Group = tuple[str, str]  # namespace and class
_OTHERS: Final = Account(OTHER, OTHER, OTHER)


class Reconstruction(NamedTuple):
    """The usage of a gap, and what accounts may hold at its end, in devices."""

    usage: Mapping[Account, UsedAmount]
    held: Mapping[Account, Fraction]


def reconstruct(
    before: Mapping[Account, Fraction], claims: Iterable[HeldClaim], start: int, end: int
) -> Reconstruction:
    """Return the usage from `start` to `end`, after which the claims were seen.

    `before` is what accounts held at the start. The claims may also be seen later, so that a gap
    can be reconstructed in several steps.
    """
    certain: list[tuple[Account, UsedAmount]] = []
    uncertain: list[tuple[Account, UsedAmount]] = []
    survivors: dict[Account, Fraction] = defaultdict(Fraction)
    began: dict[Account, Fraction] = defaultdict(Fraction)
    for claim in claims:
        since = claim.allocated if claim.allocated is not None else claim.created
        held_since = max(start, since if since is not None else start)
        counted = claim.allocated is not None
        for account, amount in claim.charges:
            if held_since > start:
                began[account] += amount.devices if held_since <= end else ZERO
            else:
                survivors[account] += amount.devices
            seconds = max(0, end - held_since)
            if counted:
                certain.append((account, amount.times(seconds)))
            else:
                possible = UsedAmount(unknown=amount.devices + amount.unknown)
                uncertain.append((account, possible.times(seconds)))
    released = _released(before, survivors)
    uncertain += ((each, UsedAmount(unknown=n).times(end - start)) for each, n in released.items())
    held = sum_usage(
        (account, UsedAmount(devices))
        for devices_of in (survivors, began, released)
        for account, devices in devices_of.items()
    )
    return Reconstruction(
        sum_usage((*certain, *uncertain)), {each: amount.devices for each, amount in held.items()}
    )


def _released(
    before: Mapping[Account, Fraction], survivors: Mapping[Account, Fraction]
) -> dict[Account, Fraction]:
    """Return what was held before and is no more, in devices.

    The owners of a namespace and class are compared only if their differences sum up to that of
    both. They do not if an owner was not known at one of both times.
    """
    groups: dict[_Group, set[Account]] = defaultdict(set)
    for account in (*before, *survivors):
        groups[account[:2]].add(account)
    ended: dict[Account, Fraction] = {}
    new = ZERO  # what is held in groups that held less before
    for (namespace, class_name), accounts in groups.items():
        differences = {
            each: before.get(each, ZERO) - survivors.get(each, ZERO) for each in accounts
        }
        difference = sum(differences.values(), ZERO)
        new, lost = new + max(ZERO, -difference), max(ZERO, difference)
        positive = {each: number for each, number in differences.items() if number > 0}
        if sum(positive.values(), ZERO) == lost:
            ended |= positive
        elif lost:
            ended[Account(namespace, class_name, UNKNOWN)] = lost
    if _OTHERS in ended:
        # A full book has these instead of the accounts that claims are charged to.
        ended[_OTHERS] = max(ZERO, ended[_OTHERS] - new)
    return ended
