"""Tests of the caches between calls, and of what invalidates them."""

import gc
import itertools
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest

from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.inventory import PoolID, build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import parse
from drawbridge.solver import candidates as candidates_module
from drawbridge.solver import eligibility as eligibility_module
from drawbridge.solver import memo as memo_module
from drawbridge.solver.answers import SolverResult
from drawbridge.solver.candidates import Candidate
from drawbridge.solver.eligibility import RequestFilter, SelectorVerdict
from drawbridge.solver.memo import Memo
from drawbridge.solver.solve import solve
from drawbridge.solver.world import PoolUse, View, view_of_claims
from tests.solver.scenario import Scenario, outcome, read, share_ids
from tests.solver.short import Json, picked, scenario

POOL = PoolID("gpu.example.com", "n1")
TWO = {
    "name": "two nodes",
    "nodes": ["n1", "n2"],
    "slices": [{"node": "n1", "devices": ["d0", "d1"]}, {"node": "n2", "devices": ["d0"]}],
    "claims": [{"requests": {"r": 1}}],
}


def ask(
    given: Scenario, memo: Memo, *, ids: Callable[[], str] | None = None, **changed: object
) -> dict[str, SolverResult]:
    given = msgspec.structs.replace(given, **changed)
    return solve(
        given.world, given.view, given.claims, given.nodes, ids=ids or share_ids(), memo=memo
    )


def devices(answer: SolverResult) -> list[str]:
    return picked(answer.allocations) if outcome(answer) == "solved" else []  # type: ignore[union-attr]


def test_an_unchanged_scenario_is_not_searched_again(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    first = ask(given, memo)
    assert ask(given, memo) == first
    assert searched == ["n1", "n2"]


def test_the_name_of_a_claim_does_not_matter(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    metadata = msgspec.structs.replace(given.claims[0].metadata, name="other")
    ask(given, memo, claims=(msgspec.structs.replace(given.claims[0], metadata=metadata),))
    assert searched == ["n1", "n2"]


def test_an_allocated_device_causes_a_search_on_its_node_only(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    solved = ask(given, memo, view=View({POOL: PoolUse(frozenset({"d0"}))}))
    assert searched == ["n1", "n2", "n1"]
    assert devices(solved["n1"]) == ["r=d1"]


def test_an_equal_use_has_the_answer_of_before_though_it_is_computed_anew(
    searched: list[str],
) -> None:
    given, memo = read(scenario(TWO)), Memo()
    for _ in range(2):
        solved = ask(given, memo, view=View({POOL: PoolUse(frozenset({"d0"}))}))
        assert devices(solved["n1"]) == ["r=d1"]
    assert searched == ["n1", "n2"]


def test_a_changed_slice_causes_a_search_on_its_node_only(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    first, second = given.world.inventory.slices
    changed = msgspec.structs.replace(first, devices=first.devices[1:])
    world = msgspec.structs.replace(given.world, inventory=build_inventory([changed, second]))
    solved = ask(given, memo, world=world)
    assert searched == ["n1", "n2", "n1"]
    assert devices(solved["n1"]) == ["r=d1"]


def test_a_changed_class_causes_a_search_on_all_nodes(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    other = read(scenario(TWO | {"classes": {"gpu": ["false"]}}))
    world = msgspec.structs.replace(given.world, classes=other.world.classes)
    solved = ask(given, memo, world=world)
    assert searched == ["n1", "n2"] * 2
    assert outcome(solved["n1"]) == "not this node"


def test_a_changed_node_label_causes_a_search(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    ask(given, memo, nodes=(Node("n1", {"zone": "a"}), given.nodes[1]))
    assert searched == ["n1", "n2", "n1"]


def test_a_change_of_a_node_that_devices_do_not_depend_on_causes_no_search(
    searched: list[str],
) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    ask(given, memo, nodes=(Node("n1", allocatable={"cpu": parse("1")}), given.nodes[1]))
    assert searched == ["n1", "n2"]


def test_the_results_of_a_deleted_node_are_dropped(searched: list[str]) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    memo.drop_node("n1")
    ask(given, memo)
    assert searched == ["n1", "n2", "n1"]


def test_other_feature_gates_clear_the_cache() -> None:
    given, memo = read(scenario(TWO | {"slices": [TAINTED]})), Memo()
    assert outcome(ask(given, memo)["n1"]) == "not this node"
    without = read(scenario(TWO | {"slices": [TAINTED], "gates": {"DRADeviceTaints": False}}))
    assert devices(ask(without, memo)["n1"]) == ["r=d0"]


@pytest.mark.parametrize(("results", "kept"), [(1_000, 3), (8, 2), (4, 1)])
def test_demands_are_bounded_by_their_results_on_all_nodes(
    monkeypatch: pytest.MonkeyPatch, results: int, kept: int
) -> None:
    monkeypatch.setattr(memo_module, "MAX_DEMANDS", 3)
    monkeypatch.setattr(memo_module, "MAX_NODE_RESULTS", results)
    given, memo = read(scenario(TWO)), Memo()
    for count in range(1, 7):
        claims = read(scenario(TWO | {"claims": [{"requests": {"r": count}}]})).claims
        ask(given, memo, claims=claims)
    assert len(memo.demands) == kept


def with_shared_devices(round_: int) -> Scenario:
    """A claim that a node cannot serve whose driver publishes other amounts in each round."""
    shared = [
        {
            "name": f"d{number}",
            "shared": True,
            "attributes": {"pair": number},
            "capacity": {f"c{each}": 10**18 + round_ for each in range(16)},
        }
        for number in range(12)
    ]
    own = {"match": ["gpu.example.com/pair"]}
    case = {"slices": [{"node": "n1", "devices": shared}], "requests": {"r": 2}, "claim": own}
    return read(scenario({"name": "other amounts", **case}))


def test_the_state_of_a_node_takes_what_it_counts_however_many_amounts_there_are() -> None:
    memo = Memo()
    given = with_shared_devices(0)
    ask(given, memo)
    (demand,) = memo.demands.values()
    counted, rounds = demand.searches.kept_bytes, 64
    assert counted > 0
    worlds = [with_shared_devices(number).world for number in range(1, rounds)]
    gc.collect()
    tracemalloc.start()
    for world in worlds:
        ask(given, memo, world=world)
    gc.collect()
    written_by = ("bounds", "node_classes", "bounded_cache", "digest")
    filters = [tracemalloc.Filter(inclusive=True, filename_pattern=f"*/{e}.py") for e in written_by]
    kept = tracemalloc.take_snapshot().filter_traces(filters).statistics("filename")
    tracemalloc.stop()
    assert demand.searches.kept_bytes == rounds * counted
    assert sum(each.size for each in kept) < rounds * counted


def test_a_demand_counts_the_states_of_nodes() -> None:
    given, memo = with_shared_devices(0), Memo()
    ask(given, memo)
    (demand,) = memo.demands.values()
    before = demand.cost
    for number in range(1, 20):
        ask(given, memo, world=with_shared_devices(number).world)
    assert demand.cost - before >= 10


def candidates_of(memo: Memo, given: Scenario) -> list[Candidate]:
    """The devices of all nodes, on which filters keep their results."""
    pools = (memo.pools_for(node) for node in given.nodes)
    return [each for (pool,) in pools for each in memo.candidates_in_pool(pool)]


def kept_results(memo: Memo, given: Scenario) -> int:
    return sum(
        len(each.verdicts) + len(each.needs) + len(each.older_verdicts) + len(each.older_needs)
        for each in candidates_of(memo, given)
    )


def requests(*numbers: int) -> dict[str, Json]:
    """Requests of which each has a filter of its own, in one claim."""
    return {f"r{number}": {"if": f"{number} >= 0", "count": 1} for number in numbers}


@pytest.mark.parametrize("choices", [1, 16])
def test_results_of_filters_are_bounded_also_within_one_pod(
    monkeypatch: pytest.MonkeyPatch, choices: int
) -> None:
    monkeypatch.setattr(candidates_module, "MAX_FILTER_RESULTS", 12)
    given, memo, most = read(scenario(TWO)), Memo(), 0
    for number in range(0, 32, choices):
        claims = [{"requests": requests(*range(number, number + choices))}]
        ask(given, memo, claims=read(scenario(TWO | {"claims": claims})).claims)
        most = max(most, kept_results(memo, given))
    assert 6 < most <= 12


def test_results_on_few_devices_are_bounded_by_the_number_of_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates_module, "MAX_FILTERS", 4)
    given, memo = read(scenario(TWO)), Memo()
    for number in range(20):
        claims = [{"requests": requests(number)}]
        ask(given, memo, claims=read(scenario(TWO | {"claims": claims})).claims)
        assert kept_results(memo, given) <= 4 * 2 * 3


def test_results_that_are_asked_for_stay_while_others_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(candidates_module, "MAX_FILTER_RESULTS", 40)
    evaluated = []
    original = RequestFilter._evaluate_selectors  # noqa: SLF001  # counts private calls

    def count(asked: RequestFilter, candidate: Candidate) -> SelectorVerdict:
        evaluated.append(asked.selectors[1][0])
        return original(asked, candidate)

    monkeypatch.setattr(RequestFilter, "_evaluate_selectors", count)
    given, memo = read(scenario(TWO)), Memo()
    for number in range(1, 20):
        for asked in (0, number):
            memo.demands.clear()
            claims = read(scenario(TWO | {"claims": [{"requests": requests(asked)}]})).claims
            ask(given, memo, claims=claims)
    assert len(evaluated) == 2 * 20
    ask(given, memo, claims=read(scenario(TWO | {"claims": [{"requests": requests(1)}]})).claims)
    memo.demands.clear()
    ask(given, memo, claims=read(scenario(TWO | {"claims": [{"requests": requests(1)}]})).claims)
    assert evaluated[40:] == ["1 >= 0"] * 2


def test_what_devices_need_is_bounded_in_a_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility_module, "_MAX_NEEDS", 3)
    devices = [{"name": f"d{n}", "capacity": {"mem": f"{n + 1}Gi"}} for n in range(9)]
    case = TWO | {"slices": [{"node": "n1", "devices": devices}]}
    given, memo = read(scenario(case)), Memo()
    asked = memo_filter(given, memo)
    (pool,) = memo.pools_for(given.nodes[0])
    needs = [asked.required_capacity(each) for each in memo.candidates_in_pool(pool)]
    assert [str(each.amounts["mem"]) for each in needs] == [f"{n + 1}Gi" for n in range(9)]
    assert len(asked._needs) <= 3  # noqa: SLF001  # its bound is tested


def memo_filter(given: Scenario, memo: Memo) -> RequestFilter:
    memo.bind(given.world)
    return memo.request_filter(((), ()), {})


def test_a_change_of_a_class_that_requests_do_not_depend_on_causes_no_search(
    searched: list[str],
) -> None:
    given, memo = read(scenario(TWO)), Memo()
    ask(given, memo)
    device_class = given.world.classes["gpu"]
    metadata = msgspec.structs.replace(device_class.metadata, resource_version="2")
    other = msgspec.structs.replace(device_class.metadata, name="other")
    classes = {
        "gpu": DeviceClass(metadata=metadata, spec=device_class.spec),
        "other": DeviceClass(metadata=other),
    }
    ask(given, memo, world=msgspec.structs.replace(given.world, classes=classes))
    assert searched == ["n1", "n2"]


def test_devices_with_the_same_verdict_share_it() -> None:
    given, memo = read(scenario(TWO | {"classes": {"gpu": ["false"]}})), Memo()
    ask(given, memo)
    (pool,) = memo.pools_for(given.nodes[0])
    verdicts = [v for each in memo.candidates_in_pool(pool) for v in each.verdicts.values()]
    assert len(verdicts) == 2
    assert verdicts[0] is verdicts[1]


TAINTED = {"node": "n1", "devices": [{"name": "d0", "taints": ["sick:NoSchedule"]}]}


def test_a_share_gets_a_new_id_in_each_call(searched: list[str]) -> None:
    shared = {"node": "n1", "devices": [{"name": "d0", "shared": True}]}
    given, memo = read(scenario(TWO | {"nodes": ["n1"], "slices": [shared]})), Memo()
    numbers = itertools.count(1)
    shares = [
        ask(given, memo, ids=lambda: f"id-{next(numbers)}")["n1"].allocations[0].devices  # type: ignore[union-attr]
        for _ in range(2)
    ]
    assert [devices.results[0].share_id for devices in shares] == ["id-1", "id-2"]
    assert searched == ["n1"]


def test_a_view_sums_shares_and_excludes_admin_access() -> None:
    held = {
        "allocated": [
            {"device": "n1/d0", "share": {"mem": "1Gi"}},
            {"device": "n1/d0", "share": {"mem": "512Mi"}},
            {"device": "n1/d1", "share": {}},
            {"device": "n1/d2"},
            {"device": "n1/d3", "admin": True},
        ]
    }
    use = read(scenario(TWO | held)).view.use(POOL)
    assert use.dedicated == {"d2"}
    assert use.shares == {"d0": {"mem": parse("1536Mi")}, "d1": {}}
    assert [use.holds(f"d{i}") for i in range(4)] == [True, True, True, False]
    assert view_of_claims([]).pools == {}


PARTITIONS = {
    "name": "partitions",
    "gates": {"DRADeviceCompatibilityGroups": True},
    "slices": [
        {"node": "n1", "count": 2, "counters": {"g": {"mem": 10}}},
        {"node": "n1", "count": 2, "devices": [{"name": "p1", "draws": {"g": {"mem": 6}}}]},
    ],
    "claims": [{"requests": {"r": 1}}],
}


@pytest.mark.parametrize(("drawn", "expected"), [("4", ["r=p1"]), ("5", [])])
def test_counters_of_an_unpublished_device_count_if_a_snapshot_exists(
    drawn: str, expected: list[str]
) -> None:
    # kubernetes#140802: p0 was allocated and its driver does not publish it any more.
    given = read(scenario(PARTITIONS))
    snapshot = (CounterUse("g", {"mem": Counter(parse(drawn))}),)
    view = View({POOL: PoolUse(frozenset({"p0"}), snapshots={"p0": snapshot})})
    assert devices(ask(given, Memo(), view=view)["n1"]) == expected
    without = View({POOL: PoolUse(frozenset({"p0"}))})
    assert devices(ask(given, Memo(), view=without)["n1"]) == ["r=p1"]


@pytest.mark.parametrize(("left", "expected"), [("4", ["r=p2"]), ("5", [])])
def test_counters_of_a_published_device_count_once(left: str, expected: list[str]) -> None:
    slices = [
        {"node": "n1", "count": 2, "counters": {"g": {"mem": 10}}},
        {
            "node": "n1",
            "count": 2,
            "devices": [
                {"name": "p1", "draws": {"g": {"mem": 6}}},
                {"name": "p2", "draws": {"g": {"mem": left}}},
            ],
        },
    ]
    given = read(scenario(PARTITIONS | {"slices": slices}))
    snapshot = (CounterUse("g", {"mem": Counter(parse("5"))}),)
    view = View({POOL: PoolUse(frozenset({"p1"}), snapshots={"p1": snapshot})})
    assert devices(ask(given, Memo(), view=view)["n1"]) == expected


def forged(device: str, **amounts: str) -> View:
    """The use of a pool in which a record says more than the driver ever published."""
    uses = tuple(CounterUse(name, {"mem": Counter(parse(each))}) for name, each in amounts.items())
    return View({POOL: PoolUse(frozenset({device}), snapshots={device: uses})})


TWO_GPUS = {
    "slices": [
        {"node": "n1", "count": 2, "counters": {"g0": {"mem": 10}, "g1": {"mem": 10}}},
        {
            "node": "n1",
            "count": 2,
            "devices": [
                {"name": "held", "draws": {"g0": {"mem": 1}}},
                {"name": "p1", "draws": {"g0": {"mem": 5}}},
                {"name": "p2", "draws": {"g1": {"mem": 9}}},
            ],
        },
    ],
    "claims": [{"requests": {"r": 2}}],
}


@pytest.mark.parametrize(
    ("device", "amounts", "expected"),
    [
        ("held", {"g0": "10", "g1": "10"}, ["r=p1", "r=p2"]),
        ("held", {"g1": "10"}, ["r=p1", "r=p2"]),
        ("lost", {"g0": "10"}, []),  # all of g0, as a whole device that was withdrawn
        ("lost", {"g1": "10"}, ["r=held", "r=p1"]),
        ("lost", {"g1": "1", "g0": "5"}, ["r=held", "r=p2"]),  # a device of both GPUs
        ("lost", {"g1": "10", "g0": "10"}, []),  # the only device of both
        ("lost", {"g1": "2", "g0": "5"}, []),
        ("lost", {"other": "99", "g1": "99"}, ["r=held", "r=p1"]),  # no more than the pool has
    ],
)
def test_a_snapshot_takes_what_a_withdrawn_device_may_have_of_the_counters_of_its_pool(
    device: str, amounts: dict[str, str], expected: list[str]
) -> None:
    given = read(scenario(PARTITIONS | TWO_GPUS))
    assert devices(ask(given, Memo(), view=forged(device, **amounts))["n1"]) == expected


def test_groups_of_a_snapshot_count_beside_published_groups() -> None:
    given = read(scenario(PARTITIONS))
    snapshot = (CounterUse("g", {}, ("mig",)),)
    view = View({POOL: PoolUse(frozenset({"p0"}), snapshots={"p0": snapshot})})
    assert outcome(ask(given, Memo(), view=view)["n1"]) == "not this node"
