"""Rules on small random machines: the solver against all assignments, one by one."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, product, repeat
from random import Random
from typing import Any, TypeAlias

import pytest

from drawbridge.solver.answers import Failure, FailureKind, Solution
from drawbridge.solver.memo import Memo
from drawbridge.solver.rules import ActiveRules
from drawbridge.solver.solve import solve
from tests.solver.scenario import answers, read, share_ids
from tests.solver.short import picked, scenario
from tests.tables import every_row
from tests.thorough import drawn

Json: TypeAlias = dict[str, Any]
# The devices of each request.
Assignment: TypeAlias = Mapping[str, tuple[Json, ...]]

ATTRIBUTES = ("x.io/root", "x.io/numa")
GROUPS = 8


def machine(random: Random, kind: str, count: int) -> list[Json]:
    """Return devices in random groups; some publish only one attribute, in some groups several."""
    lists = random.random() < 0.1
    devices = []
    for number in range(count):
        values = {"x.io/root": random.choice("abc"), "x.io/numa": random.choice((0, 1))}
        if lists:
            values["x.io/root"] = sorted(random.sample("abc", random.choice((1, 2))))
        if random.random() < 0.1:
            del values[random.choice(ATTRIBUTES)]
        devices.append({"name": f"{kind}{number}", "attributes": values})
    return devices


def rule(random: Random, names: list[str]) -> tuple[str, Json]:
    """Return a random rule about some of the requests, and its kind."""
    attributes = random.choice((ATTRIBUTES[:1], ATTRIBUTES[1:], ATTRIBUTES))
    common = {"attributes": list(attributes), "required": random.random() < 0.6}
    some = random.sample(names, random.randint(1, len(names)))
    if len(some) == 1 or random.random() < 0.4:
        return "near", {"requests": some, **common}
    cut = random.randint(1, len(some) - 1)
    return "joint", {"primary": some[:cut], "others": some[cut:], **common}


def case(seed: int) -> Json:
    """Return a machine, claims of one pod and their rules."""
    random = Random(seed)  # not a secret
    gpus, nics = (machine(random, kind, random.randint(2, 5)) for kind in ("g", "x"))
    requests: Json = {
        "gpu": random.randint(1, 3),
        "nic": {"class": "nic", "count": random.randint(1, 2)},
    }
    if random.random() < 0.3:
        requests["more"] = random.choice((1, [{"count": 2}, {"count": 1, "class": "nic"}]))
    names = random.sample(sorted(requests), len(requests))
    rules: Json = {"joint": [], "near": []}
    for _ in range(random.randint(1, 3)):
        kind, made = rule(random, names)
        rules[kind].append(made)
    if random.random() < 0.3:
        rules["strategy"] = {"devices": random.choice(("packed", "spread"))}
    held = [f"n1/{each['name']}" for each in gpus if random.random() < 0.2]
    return {
        "name": f"seed {seed}",
        "slices": [
            {"node": "n1", "devices": gpus},
            {"node": "n1", "driver": "nic.example.com", "pool": "n1", "devices": nics},
        ],
        "allocated": held,
        "requests": {name: requests[name] for name in names},
        "claim": {"rules": rules},
    }


def assignments(given: Json) -> Iterator[Assignment]:
    """Yield all choices of devices, without the rules."""
    gpus, nics = (each["devices"] for each in given["slices"])
    free = {
        "gpu": [each for each in gpus if f"n1/{each['name']}" not in given["allocated"]],
        "nic": nics,
    }
    choices = []
    for wanted in given["requests"].values():
        alternatives = wanted if isinstance(wanted, list) else [wanted]
        plain = [each if isinstance(each, dict) else {"count": each} for each in alternatives]
        choices.append(
            [
                chosen
                for alternative in plain
                for chosen in combinations(
                    free[alternative.get("class", "gpu")], alternative.get("count", 1)
                )
            ]
        )
    for chosen in product(*choices):
        names = [each["name"] for devices in chosen for each in devices]
        if len(names) == len(set(names)):
            yield dict(zip(given["requests"], chosen, strict=True))


def values(device: Json, name: str) -> set[Any]:
    """Return the groups of a device."""
    value = device["attributes"].get(name, [])
    return set(value) if isinstance(value, list) else {value}


def holds(kind: str, part: Json, chosen: Assignment) -> bool:
    """Return whether a rule holds, by its definition."""
    sides = (
        [part["requests"]] if kind == "near" else [part["primary"], *([o] for o in part["others"])]
    )
    devices = [[each for name in side for each in chosen[name]] for side in sides]
    published = (
        name
        for name in part["attributes"]
        if all(values(each, name) for side in devices for each in side)
    )
    name = next(published, None)
    if name is None:
        return False
    if kind == "near":
        return bool(set.intersection(*(values(each, name) for each in devices[0])))
    primary, *others = devices
    return all(
        any(values(mine, name) & values(theirs, name) for theirs in against)
        for other in others
        for side, against in ((primary, other), (other, primary))
        for mine in side
    )


def kept(rules: Json, possible: Iterable[Assignment]) -> tuple[list[Assignment], int]:
    """Return the assignments that keep the required rules and, in order, what they can."""
    parts = [(kind, one) for kind in ("joint", "near") for one in rules[kind]]
    left = [
        chosen
        for chosen in possible
        if all(holds(kind, one, chosen) for kind, one in parts if one["required"])
    ]
    number = 0
    for kind, part in parts:
        better = [] if part["required"] else [each for each in left if holds(kind, part, each)]
        if better:
            left, number = better, number + 1
    return left, number


@every_row("part", range(GROUPS))
def test_the_solver_finds_a_solution_that_keeps_all_rules_it_can(part: int) -> None:
    solved = 0
    for seed in range(part, drawn(400, thorough=800), GROUPS):
        given = case(seed)
        best, number = kept(given["claim"]["rules"], assignments(given))
        answer = answers(scenario(given), memo=Memo())["n1"]
        assert isinstance(answer, Solution) == bool(best), (seed, answer)
        if isinstance(answer, Solution):
            solved += 1
            assert answer.preferences == number, seed
            names = {each.partition("=")[2] for each in picked(answer.allocations)}
            of_best = ({each["name"] for side in one.values() for each in side} for one in best)
            assert names in of_best, seed
    assert 20 < solved < 95


def test_many_rules_do_not_make_a_search_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of steps counts the rules that each device is checked against."""
    checked = count_checks(monkeypatch)
    attributes = [f"x.io/a{number}" for number in range(8)]
    random = Random(1)  # not a secret
    devices = [
        {
            "name": f"{kind}{n}",
            "attributes": {each: random.choice("abcdefgh") for each in attributes},
        }
        for kind in "gx"
        for n in range(32)
    ]
    joint = [{"primary": ["gpu"], "others": ["nic"], "attributes": [each]} for each in attributes]
    nics = {"driver": "nic.example.com", "pool": "n1", "devices": devices[32:]}
    given = {
        "name": "many rules",
        "slices": [{"node": "n1", "devices": devices[:32]}, {"node": "n1", **nics}],
        "requests": {"gpu": 8, "nic": {"class": "nic", "count": 8}},
        "claim": {"rules": {"joint": joint * 4}},
    }
    answers(scenario(given), steps=2000)
    assert len(checked) <= 2 * 2000 + 32


def test_the_steps_count_the_checks_of_pruning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pruning checks every device for every request whose rules differ."""
    checked = count_checks(monkeypatch)
    names = [f"r{number}" for number in range(32)]
    near = [
        {"requests": [name], "attributes": [*(f"x.io/{name}-{i}" for i in range(7)), "x.io/root"]}
        for name in names[1:]
    ]
    given = {
        "name": "rules of each request",
        "slices": [
            {
                "node": "n1",
                "devices": [
                    {"name": f"g{n}", "attributes": {"x.io/root": f"{n // 2}"}} for n in range(64)
                ],
            }
        ],
        "requests": dict.fromkeys(names, 1),
        "claim": {"rules": {"near": [*near, {"requests": names, "attributes": ["x.io/root"]}]}},
    }
    sent = read(scenario(given))
    # The clock is read once in 128 steps.
    times = chain(repeat(0.0, 40), repeat(1.0))
    memo = Memo(clock=times.__next__)
    answers = solve(sent.world, sent.view, sent.claims, sent.nodes, ids=share_ids(), memo=memo)
    assert isinstance(answers["n1"], Failure)
    assert answers["n1"].outcome is FailureKind.GAVE_UP
    assert len(checked) <= 2 * 5000 + 32


def count_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets each attribute of a rule that a device is checked against."""
    checked: list[str] = []
    extend = ActiveRules.extend

    def count(rules: ActiveRules, states: Any, device: Any) -> Any:  # noqa: ANN401  # passed on
        for index, _ in rules.sides_of(device.request_index):
            checked.extend(rules.rules[index].attributes)
        return extend(rules, states, device)

    monkeypatch.setattr(ActiveRules, "extend", count)
    return checked
