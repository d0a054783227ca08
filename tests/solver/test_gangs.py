"""The members of a gang on small random clusters: the search against all placements."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Any, TypeAlias

import msgspec
import pytest

from drawbridge.dra.claim import Claim
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import (
    Ask,
    CutSearch,
    GangPlacement,
    MemberKind,
    Question,
    count_all,
    place_gang,
    placing,
)
from drawbridge.solver.memo import Memo, OutOfTimeError
from drawbridge.solver.solve import solve
from tests.solver.scenario import Scenario, read, share_ids
from tests.solver.short import scenario
from tests.tables import every_row
from tests.thorough import drawn

Json: TypeAlias = dict[str, Any]
CASES = drawn(200, 10_000)
PARTS = 8
# So many kinds have more partial results than are kept.
MANY_KINDS = 66
NODES = ("n1", "n2", "n3")
MEMORY = 4  # of a device with shares
DEVICES = [{"kind": "whole"}, {"kind": "whole"}, {"kind": "part"}, {"kind": "shared"}]


def ask_of(given: Scenario, memo: Memo) -> Ask:
    """Return the question to the solver."""
    nodes = {node.name: node for node in given.nodes}

    def ask(node: str, claims: Sequence[Claim]) -> Solution | None:
        some = [nodes[node]]
        answers = solve(given.world, given.view, claims, some, ids=share_ids(), memo=memo)
        answer = answers.get(node)
        return answer if isinstance(answer, Solution) else None

    return ask


# --- generated clusters ---


def draw_device(random: Random, name: str) -> Json:
    """Return a whole device, a part that draws on counters of the node, or one with shares."""
    kind = random.choice(DEVICES)["kind"]
    device: Json = {"name": name, "attributes": {"x.io/numa": random.choice((0, 1))}}
    device["attributes"]["x.io/size"] = random.choice((1, 2))
    if kind == "part":
        device["draws"] = {"set": {"units": random.choice((1, 2))}}
    if kind == "shared":
        device |= {"shared": True, "capacity": {"memory": MEMORY}}
    return device


def draw_member(random: Random) -> Json:
    """Return the requests of a member."""
    if random.random() < 0.3:
        return {"requests": {"r": {"capacity": {"memory": random.choice((1, 2, 3))}}}}
    requests: Json = {"r": {"count": random.choice((1, 1, 2))}}
    if random.random() < 0.4:
        requests["r"]["if"] = 'device.attributes["x.io"].size >= 2'
    if random.random() < 0.3:
        requests["q"] = 1
    return {"requests": requests, "match": ["x.io/numa"] if random.random() < 0.4 else []}


def draw_case(seed: int) -> Json:
    """Return a cluster of up to three nodes and a gang of up to three kinds."""
    random = Random(seed)  # not a secret
    nodes = NODES[: random.randint(1, 3)]
    slices = []
    for node in nodes:
        devices = [draw_device(random, f"d{number}") for number in range(random.randint(1, 4))]
        counters = {"set": {"units": random.randint(1, 4)}}
        slices += [{"node": node, "devices": devices, "count": 2}]
        slices += [{"node": node, "counters": counters, "count": 2}]
    kinds = range(random.choice((1, 1, 2, 2, 3)))
    claims = [draw_member(random) for _ in kinds]
    counts = [random.randint(1, 3) for _ in kinds]
    open_nodes = [
        [node for node in nodes if random.random() < 0.8] if random.random() < 0.3 else [*nodes]
        for _ in kinds
    ]
    return {
        "name": f"seed {seed}",
        "nodes": list(nodes),
        "slices": slices,
        "claims": claims,
        "counts": counts,
        "open": open_nodes,
    }


# --- all placements ---


def choices(member: Json, devices: Sequence[Json]) -> Iterator[tuple[Json, ...]]:
    """Yield all choices of devices for one member, by its requests alone."""
    of_requests = []
    for given in member["requests"].values():
        wanted = given if isinstance(given, dict) else {"count": given}
        least = 2 if "if" in wanted else 1
        needs = wanted.get("capacity", {}).get("memory")
        able = [
            each
            for each in devices
            if each["attributes"]["x.io/size"] >= least
            and (needs is None or (needs <= MEMORY and "shared" in each))
        ]
        of_requests.append([*combinations(able, wanted.get("count", 1))])
    for chosen in product(*of_requests):
        together = tuple(device for of_request in chosen for device in of_request)
        numas = {device["attributes"]["x.io/numa"] for device in together}
        if len({each["name"] for each in together}) == len(together) and (
            not member.get("match") or len(numas) == 1
        ):
            yield together


def fits(members: Sequence[Json], devices: Sequence[Json], units: int) -> bool:
    """Return whether members fit on a node together, by trying every choice of devices."""
    if not members:
        return True
    first, *others = members
    needs = first["requests"]["r"].get("capacity", {}).get("memory")
    for chosen in choices(first, devices):
        left, units_left = [], units
        for device in devices:
            if device not in chosen:
                left.append(device)
            elif "shared" in device:
                # Without a request for capacity, a share gets all of it.
                rest = device["left"] - (MEMORY if needs is None else needs)
                left += [{**device, "left": rest}]
            else:
                units_left -= device.get("draws", {}).get("set", {}).get("units", 0)
        if (
            units_left >= 0
            and all(each.get("left", 0) >= 0 for each in left)
            and fits(others, left, units_left)
        ):
            return True
    return False


def most_members(case: Json) -> int:
    """Return how many members fit on all nodes together."""
    reached = {(0,) * len(case["counts"])}
    for number, node in enumerate(case["nodes"]):
        devices = [
            {**each, "left": MEMORY} if "shared" in each else each
            for each in case["slices"][2 * number]["devices"]
        ]
        units = case["slices"][2 * number + 1]["counters"]["set"]["units"]
        here = [
            counts
            for counts in product(*(range(each + 1) for each in case["counts"]))
            if all(not c or node in o for c, o in zip(counts, case["open"], strict=True))
            and fits(
                [m for m, c in zip(case["claims"], counts, strict=True) for _ in range(c)],
                devices,
                units,
            )
        ]
        sums = (tuple(map(int.__add__, a, b)) for a, b in product(reached, here))
        reached = {each for each in sums if all(map(int.__le__, each, case["counts"]))}
    return max(map(sum, reached))


def place(case: Json) -> tuple[GangPlacement, list[MemberKind]]:
    """Place the gang of a case."""
    given = read(scenario(case))
    kinds = [
        MemberKind((claim,), count, nodes)
        for claim, count, nodes in zip(given.claims, case["counts"], case["open"], strict=True)
    ]
    return place_gang(kinds, ask_of(given, Memo())), kinds


@every_row("part", range(PARTS))
def test_as_many_members_fit_as_in_the_best_of_all_placements(part: int) -> None:
    partly = 0
    for seed in range(part, CASES, PARTS):
        case = draw_case(seed)
        placed, kinds = place(case)
        best = most_members(case)
        assert placed.placed == best, seed
        partly += 0 < best < sum(case["counts"])
        for on_node in placed.nodes:
            for allocation, kind, count in zip(
                on_node.allocations(kinds), kinds, on_node.counts, strict=True
            ):
                assert len(allocation) == count
                assert not count or on_node.node in kind.nodes
    assert partly > CASES // PARTS // 10


# --- single cases ---


def cluster(sizes: Mapping[str, int]) -> Json:
    """Return nodes with whole devices."""
    slices = [
        {"node": node, "devices": [f"d{number}" for number in range(size)]}
        for node, size in sizes.items()
    ]
    return {"name": "nodes", "nodes": [*sizes], "slices": slices}


def gang(sizes: Mapping[str, int], *members: tuple[int, int]) -> Json:
    """Return a gang; each kind has a number of members and of devices for each."""
    claims = [{"requests": {"r": devices}} for _, devices in members]
    counts = [count for count, _ in members]
    return cluster(sizes) | {"claims": claims, "counts": counts, "open": [[*sizes]] * len(members)}


def on_nodes(placement: GangPlacement) -> dict[str, tuple[int, ...]]:
    """Return how many members are on each node."""
    return {each.node: each.counts for each in placement.nodes}


def test_members_are_on_few_nodes_and_leave_no_more_free_than_needed() -> None:
    placed, _ = place(gang({"a": 2, "b": 8, "c": 4, "d": 3}, (10, 1)))
    assert on_nodes(placed) == {"b": (8,), "a": (2,)}


def test_a_member_moves_for_one_that_needs_its_node() -> None:
    placed, _ = place(gang({"a": 1, "b": 4}, (1, 1), (1, 4)))
    assert on_nodes(placed) == {"a": (1, 0), "b": (0, 1)}


def test_a_gang_that_does_not_fit_is_told_how_many_do() -> None:
    placed, _ = place(gang({"a": 4, "b": 2}, (8, 1)))
    assert placed.placed == 6


def test_many_kinds_are_placed_too() -> None:
    placed, _ = place(gang({"a": 8, "b": 7}, (1, 5), (1, 4), (1, 3), (1, 2), (1, 1)))
    assert placed.placed == 5


def test_few_members_of_many_kinds_are_placed_in_all_ways() -> None:
    placed, _ = place(gang({"a": 8, "b": 8}, (1, 2), (1, 3), (1, 4), (1, 2), (1, 5)))
    assert placed.placed == 5


@pytest.mark.parametrize("others_first", [False, True])
def test_many_kinds_with_one_node_each_leave_room_for_members_of_any_node(
    *, others_first: bool
) -> None:
    """On the node of a member that needs all of it, several others would fit."""
    sizes = {f"n{number}": 2 for number in range(MANY_KINDS)}
    given = read(scenario(gang(sizes, (1, 2), (2, 1))))
    large, small = given.claims
    singles = [MemberKind((large,), 1, [f"n{number}"]) for number in range(MANY_KINDS - 1)]
    others = MemberKind((small,), 2, [*sizes])
    kinds = [others, *singles] if others_first else [*singles, others]
    assert place_gang(kinds, ask_of(given, Memo())).placed == count_all(kinds)


def test_no_more_nodes_are_asked_than_needed() -> None:
    given = read(scenario(gang({f"n{number}": 8 for number in range(80)}, (16, 1))))
    asked: set[str] = set()
    ask = ask_of(given, Memo())

    def count(node: str, claims: Sequence[Claim]) -> Solution | None:
        asked.add(node)
        return ask(node, claims)

    kind = MemberKind(given.claims, 16, [node.name for node in given.nodes])
    assert place_gang([kind], count).placed == 16
    assert len(asked) == 64


@pytest.mark.parametrize("raises", [False, True])
def test_a_search_out_of_time_has_no_result(*, raises: bool) -> None:
    given = read(scenario(gang({"a": 8}, (8, 1))))

    def stop(_: Question) -> Solution | None:
        raise OutOfTimeError

    kind = MemberKind(given.claims, 8, ["a"])
    search, ask = CutSearch(placing([kind])), ask_of(given, Memo())
    assert search.run(stop if raises else lambda each: ask(*each), lambda: not raises) is None
    ran = search.run(lambda each: ask(*each))
    assert ran is not None
    assert ran.placed == 8


@every_row("seed", range(0, CASES, CASES // 50))
def test_a_search_that_is_cut_after_each_step_finds_the_same(seed: int) -> None:
    case = draw_case(seed)
    whole, kinds = place(case)
    ask, search = ask_of(read(scenario(case)), Memo()), CutSearch(placing(kinds))
    while (ran := search.run(lambda each: ask(*each), lambda: True)) is None:
        pass
    assert on_nodes(ran) == on_nodes(whole)


def test_a_search_ends_though_no_turn_has_time_for_two_nodes_or_knows_of_earlier_ones() -> None:
    given = read(scenario(gang({"a": 2, "b": 2, "c": 2}, (6, 1))))
    search = CutSearch(placing([MemberKind(given.claims, 6, ["a", "b", "c"])]))

    def ask(question: Question) -> Solution | None:
        memo = Memo()
        memo.limit_time(lambda: True)
        return ask_of(given, memo)(*question)

    ran = [search.run(ask, lambda: True) for _ in range(30)][-1]
    assert ran is not None
    assert ran.placed == 6


def test_a_step_asks_one_question_or_compares_few_numbers() -> None:
    """Three kinds on nodes that take all of them are the most that a tenant can ask."""
    kinds = [MemberKind((), 128, [f"n{number}" for number in range(64)]) for _ in range(3)]
    asked = 0

    def ask(question: Question) -> Solution | None:
        nonlocal asked
        asked += 1
        return Solution(question[0], ())

    search = CutSearch(placing(kinds))
    for _ in range(100):
        before = asked
        search.run(ask, lambda: True)
        assert asked - before <= 1


def test_members_of_one_kind_need_no_equal_names() -> None:
    given = read(scenario(gang({"a": 2}, (2, 1))))
    named = msgspec.structs.replace(
        given.claims[0], metadata=msgspec.structs.replace(given.claims[0].metadata, name="other")
    )
    kinds = [MemberKind((each,), 1, ["a"]) for each in (given.claims[0], named)]
    assert place_gang(kinds, ask_of(given, Memo())).placed == 2


def test_members_that_need_one_node_count_as_many() -> None:
    """A node has room for two members, or for four that share two devices."""
    given = read(scenario(gang({"a": 2}, (2, 1), (1, 2))))
    ask = ask_of(given, Memo())
    kinds = [
        MemberKind((given.claims[0],), 2, ["a"]),
        MemberKind((given.claims[1],), 1, ["a"], size=4),
    ]
    assert count_all(kinds) == 6
    assert place_gang(kinds, ask).placed == 4
    assert place_gang(kinds[:1], ask).placed == 2
