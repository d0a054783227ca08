"""What a search remembers of nodes makes the next one shorter, and no answer another."""

# ruff: noqa: D102  # the name of a step is its sentence

from collections.abc import Collection, Iterable
from random import Random
from typing import Any

import pytest

from allocator.decisions import node_searches
from allocator.decisions.node_searches import UNLIMITED, NodeSearches
from allocator.decisions.shortlist import NodeSearch, Shortlist
from drawbridge.dra.device_quotas import DEVICES, DeviceQuota, QuotaKey
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.slices import Slice
from tests.allocator.clusters import Cluster, allocation_on, as_claim, claim, gpu_slice
from tests.thorough import drawn

SIZES = {f"n{number:02}": 2 for number in range(24)}


def quota_of(amount: str, count: int) -> DeviceQuota:
    total = {QuotaKey("gpu", amount): Quantity.of(count)}
    return DeviceQuota("q", lambda _name, _labels: True, total=total)


class History:
    """Devices that are taken and given back, and searches that remember or know nothing."""

    def __init__(self, cluster: Cluster, nodes_per_call: int = UNLIMITED) -> None:
        self.cluster = cluster
        self.remembering = NodeSearches(cluster.state, nodes_per_call)
        self.withdrawn: set[str] = set()
        self.used: dict[tuple[str, int], str] = {}  # devices, with their claims
        self.count = 0

    def use(self, node: str, number: int) -> None:
        self.count += 1
        name = self.used[node, number] = f"used-{self.count}"
        self.cluster.add_claim(claim(name, allocation=allocation_on(node, number)))

    def fill(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            for number in range(2):
                self.use(node, number)

    def give_back(self, node: str, number: int) -> None:
        self.cluster.delete_claim(self.used.pop((node, number)))

    def turn(self, node: str) -> None:
        """Withdraw what a node publishes, or publish it again."""
        published = gpu_slice(node, 2)
        if node in self.withdrawn:
            self.cluster.add(published)
        else:
            self.cluster.state.apply(published, None)
        self.withdrawn ^= {node}

    def change(self, random: Random) -> None:
        if not random.randrange(8):
            self.turn(random.choice(sorted(SIZES)))
            return
        device = random.choice(sorted(SIZES)), random.randrange(2)
        if device in self.used:
            self.give_back(*device)
        else:
            self.use(*device)

    def ask(self, limit: int, without: Collection[str] = (), count: int = 1) -> Shortlist:
        request = self.request(limit, without, count)
        return self.remembering.run(request, 0.0)

    def request(self, limit: int, without: Collection[str], count: int) -> NodeSearch:
        wanted = as_claim(claim("wanted", count))
        return NodeSearch(
            pod=self.cluster.pod("p"), claims=(wanted,), limit=limit, without=frozenset(without)
        )

    def fitting(self, without: Collection[str], count: int) -> set[str]:
        """Ask a search that knows nothing for all nodes."""
        fresh = NodeSearches(self.cluster.state)
        return names(fresh.run(self.request(0, without, count), 0.0))


def names(shortlist: Shortlist) -> set[str]:
    return {each.name for each in shortlist.fitting}


@pytest.mark.parametrize("seed", range(drawn(20, 1_000)))
@pytest.mark.parametrize("few", [0, node_searches.FEW_NODES])
@pytest.mark.parametrize("quota", [None, 30])
def test_what_is_remembered_changes_no_answer(
    seed: int, few: int, quota: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_searches, "FEW_NODES", few)
    monkeypatch.setattr(node_searches, "NODES_PER_LISTED", 4)
    random = Random(seed)
    quotas = [quota_of(DEVICES, quota)] if quota else []
    history = History(Cluster(quotas=quotas, **SIZES))
    history.fill(random.sample(sorted(SIZES), 20))
    for _ in range(60):
        for _ in range(random.randrange(3)):
            history.change(random)
        count = random.choice((1, 1, 2))
        without = random.sample(sorted(SIZES), random.choice((0, 0, 2)))
        limit = random.choice((0, 1, 3))
        shortlist = history.ask(limit, without, count)
        expected = history.fitting(without, count)
        assert names(shortlist) <= expected
        assert names(shortlist) or not expected
        if shortlist.complete:
            assert names(shortlist) == expected
        assert shortlist.complete or len(shortlist.fitting) >= limit > 0


def test_in_a_full_cluster_only_nodes_that_fitted_or_changed_are_examined() -> None:
    history = History(Cluster(**SIZES))
    history.fill(sorted(SIZES)[:-2])
    assert names(history.ask(5)) == {"n22", "n23"}
    history.give_back("n04", 1)
    again = history.ask(5)
    assert names(again) == {"n04", "n22", "n23"}
    assert again.examined == again.candidates == 3


def test_a_node_that_comes_or_goes_has_no_other_node_examined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("FEW_NODES", 0), ("NODES_PER_LISTED", 8)):
        monkeypatch.setattr(node_searches, name, value)
    history, examined = History(Cluster(**SIZES)), list[int]()

    def find_nodes(*asked: Any) -> Shortlist:  # noqa: ANN401  # as the real one is asked
        shortlist = shortlist_of(*asked)
        examined.append(shortlist.examined)
        return shortlist

    shortlist_of = node_searches.find_nodes
    monkeypatch.setattr(node_searches, "find_nodes", find_nodes)
    history.fill(SIZES)
    for _ in range(3):
        assert not names(history.ask(5))
        history.turn("n07")
    assert not names(history.ask(5))
    # The numbers in the reasons are those of the nodes before, so it holds for some nodes only.
    assert examined == [24, 1, 1, 23]


def test_a_search_that_goes_on_passes_over_no_node_when_another_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FEW_NODES", "NODES_PER_LISTED"):
        monkeypatch.setattr(node_searches, name, 0)
    history = History(Cluster(**SIZES), nodes_per_call=8)
    history.fill(each for each in SIZES if each != "n08")
    assert not names(history.ask(5))
    history.turn("n00")
    assert {"n08"} in [names(history.ask(5)) for _ in range(4)]


def test_a_pod_that_fits_nowhere_any_more_is_told_of_each_node_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(node_searches, "FEW_NODES", 0)
    history = History(Cluster(**SIZES))
    history.fill(sorted(SIZES)[:-2])
    assert names(history.ask(5)) == {"n22", "n23"}
    history.fill(["n22", "n23"])
    refused = history.ask(5)
    assert refused.complete
    assert [each.nodes for each in refused.list_reasons()] == [len(SIZES)]


def test_a_node_that_exceeded_a_quota_is_examined_when_there_is_room_again() -> None:
    def slice_with(node: str, memory: int) -> Slice:
        return gpu_slice(node, 2, generation=2, capacity={"memory": {"value": str(memory)}})

    history = History(Cluster(quotas=[quota_of("memory", 15)], **SIZES))
    sizes = {"n01": 7, "n02": 7}
    history.cluster.add(*(slice_with(each, sizes.get(each, 0)) for each in SIZES))
    history.fill(sorted(SIZES)[1:])
    assert names(history.ask(5)) == {"n00"}
    history.give_back("n02", 0)
    assert names(history.ask(5)) == {"n00"}
    history.give_back("n01", 0)
    history.give_back("n01", 1)
    assert names(history.ask(5)) == {"n00", "n01", "n02"}


def test_what_is_remembered_of_a_refusal_does_not_grow_with_the_nodes() -> None:
    history = History(Cluster(**SIZES))
    shortlist = history.ask(1, count=3)
    assert [each.nodes for each in shortlist.list_reasons()] == [len(SIZES)]
    (scan,) = history.remembering._scans.values()  # noqa: SLF001  # what is kept is the point
    assert len(scan.shortlist.reasons) == 1
