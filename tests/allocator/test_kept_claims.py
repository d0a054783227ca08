"""What is kept for vanished pods: how much, what goes first, and what is looked at."""

import pytest

from allocator.state.cluster_state import AllocatorState
from allocator.state.vanished_pods import FormerClaim, VanishedPods
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.planner import Planner
from tests.allocator.clusters import DRIVER, allocation_on, as_claim, claim, owns_all
from tests.tables import every_row

SECONDS = 10


class Table:
    """What is kept for vanished pods, and how often it is asked what serves a device."""

    def __init__(self) -> None:
        self.asked = 0
        self.served = True
        self.ledger = Ledger()
        state = AllocatorState(Planner(), self.ledger, owns_all, SECONDS)
        self.vanished = VanishedPods(
            self.ledger, state.pods, self._serves, lambda _: "n1", SECONDS, state.reports
        )

    def _serves(self, *_: object) -> bool:
        self.asked += 1
        return self.served

    def keep(self, name: str, first: int, count: int = 1) -> None:
        """Keep devices of a claim, which is deleted with its pod; its name is also its UID."""
        namespace, _, uid = name.partition("/")
        on = [allocation_on("n1", first + each)["devices"]["results"][0] for each in range(count)]
        allocation = {**allocation_on("n1", first), "devices": {"results": on}}
        before = as_claim(claim(uid, allocation=allocation, pods=[f"p-{uid}"], namespace=namespace))
        self.ledger.observe(before)
        self.vanished.follow_claim(before, None, FormerClaim(self.ledger.claims[uid], {}))
        self.ledger.observe_deletion(uid)

    def kept(self) -> list[str]:
        """The claims of which the ledger holds the devices."""
        names = {f"used by vanished pods of {uid}" for uid in self.vanished.claims}
        assert self.ledger.kept.keys() == names
        return sorted(each.name for each in self.vanished.claims.values())


@every_row(
    "names, left",
    [
        (["a/1", "a/2"], ["a/1", "a/2"]),
        (["a/1", "a/2", "a/3"], ["a/2", "a/3"]),
        (["victim/1", "a/2", "a/3", "a/4", "a/5"], ["a/5", "victim/1"]),
        (["a/1", "a/2", "victim/3"], ["a/2", "victim/3"]),
    ],
)
def test_the_namespace_with_most_loses_its_oldest_claim(
    monkeypatch: pytest.MonkeyPatch, names: list[str], left: list[str]
) -> None:
    monkeypatch.setattr("allocator.state.vanished_pods.MAX_CLAIMS", 2)
    table = Table()
    for number, name in enumerate(names):
        table.keep(name, number)
    assert table.kept() == left
    table.vanished.observe_time(0.0)
    table.vanished.observe_time(30.0 + SECONDS)
    assert table.kept() == []
    assert not table.ledger.devices()


def test_a_claim_with_many_devices_counts_as_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.state.vanished_pods.MAX_CLAIMS", 4)
    table = Table()
    for number, (name, count) in enumerate([("b/1", 1), ("b/2", 1), ("a/3", 16), ("a/4", 16)]):
        table.keep(name, 100 * number, count)
    assert table.kept() == ["a/4", "b/1", "b/2"]


def test_what_has_not_changed_is_not_looked_at_until_its_time() -> None:
    table = Table()
    for number in range(10):
        table.keep(f"a/{number}", number)
    table.vanished.observe_time(0.0)
    before = table.asked
    for now in range(1, 30 + SECONDS):
        table.vanished.observe_time(float(now))
        table.vanished.follow_pod("another")
    assert table.asked == before
    table.served = False
    table.vanished.note_change("another", PoolID(DRIVER, "another"))
    table.vanished.observe_time(30.0)
    assert len(table.kept()) == 10
    table.vanished.note_change("n1")
    table.vanished.observe_time(30.0)
    assert table.kept() == []


def test_as_many_end_at_once_as_take_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocator.state.vanished_pods._MAX_AT_ONCE", 2)
    table, left = Table(), []
    for number in range(5):
        table.keep(f"a/{number}", number)
    for now in (0.0, 0.0, 0.0, 100.0, 100.0, 100.0):
        table.vanished.observe_time(now)
        left.append(len(table.kept()))
    assert left == [5, 5, 5, 3, 1, 0]
