"""What was held before a gap and is not any more, by the owners that are known at both times."""

from fractions import Fraction

from drawbridge.usage.accounts import UNKNOWN, Account, UsedAmount
from drawbridge.usage.gap import reconstruct
from drawbridge.usage.meter import HeldClaim
from tests.tables import every_row

START = 1_000


def by_owner(devices: dict[str, int]) -> dict[Account, Fraction]:
    return {Account("ns", "gpu", owner): Fraction(number) for owner, number in devices.items()}


def test_what_was_released_stays_unknown_until_the_gap_ends() -> None:
    (train,) = by_owner({"a": 1})
    claims = [HeldClaim(((train, UsedAmount(1)),), allocated=START - 1)]
    held = by_owner({"a": 2})
    for start in (START, START + 10):
        past = reconstruct(held, claims, start, start + 10)
        held = dict(past.held)
        assert (past.usage[train].unknown, held) == (10, by_owner({"a": 2}))


@every_row(
    ("before", "survivors", "released"),
    [
        ({"a": 2}, {"a": 1}, {"a": 1}),
        ({"a": 2, "b": 1}, {"b": 1}, {"a": 2}),
        # An owner that was not known at one of both times: nothing, or something, was released.
        ({"a": 1}, {"b": 1}, {}),
        ({"a": 2}, {"b": 1}, {UNKNOWN: 1}),
        ({"a": 1}, {"b": 2}, {}),
    ],
)
def test_devices_are_released_as_far_as_their_namespace_and_class_hold_fewer(
    before: dict[str, int], survivors: dict[str, int], released: dict[str, int]
) -> None:
    claims = [
        HeldClaim(((account, UsedAmount(number)),), allocated=START - 1)
        for account, number in by_owner(survivors).items()
    ]
    usage = reconstruct(by_owner(before), claims, START, START + 10).usage
    unknown = {account: amount.unknown for account, amount in usage.items() if amount.unknown}
    assert unknown == {each: 10 * number for each, number in by_owner(released).items()}
