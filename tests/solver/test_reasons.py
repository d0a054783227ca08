"""Tests of reasons: messages, numbers, merging over nodes, documented codes."""

import re
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from drawbridge.solver.answers import Failure, Solution
from drawbridge.solver.codes import CODES
from drawbridge.solver.reasons import Reason, merge_reasons, say_with_subject, summarize_reasons
from drawbridge.solver.solve import solve
from tests.solver.scenario import answers, read
from tests.solver.short import picked, scenario
from tests.tables import load_cases

HELD = Reason(
    "NoDeviceFree", "in use", 8, 0, 1, "n1: d/p/gpu-0", "no free gpu device (8 of 8 in use)"
)
ACTIVE = Reason("GroupClash", "groups", 8, 0, 1, "n2: d/p/gpu-0", "mode mig is active")


def test_equal_reasons_of_nodes_are_merged() -> None:
    reasons = [ACTIVE] * 88 + [HELD] * 412
    assert (
        summarize_reasons(reasons)
        == "412 nodes: no free gpu device (8 of 8 in use); 88 nodes: mode mig is active"
    )
    first, second = merge_reasons(reasons)
    assert (first.nodes, first.before, first.after, first.example) == (412, 3296, 0, HELD.example)
    assert second.nodes == 88


def test_the_summary_uses_the_singular_for_one_node() -> None:
    assert summarize_reasons([HELD]) == "1 node: no free gpu device (8 of 8 in use)"
    assert summarize_reasons([]) == ""


def _names_in_message(reason: Reason) -> set[str]:
    """The names in a message of the node, pools and devices of its example."""
    node, _, about = reason.example.partition(": ")
    ids = re.findall(r"[a-z.0-9-]+/([a-z.0-9-]+)(/[a-z.0-9-]+)?", about)
    return {node, *chain(*ids)} & set(re.findall(r"/?[\w.-]+", reason.message))


def test_every_failure_in_the_case_tables_has_documented_reasons() -> None:
    seen = set()
    for table in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        for case in load_cases(table):
            assert case["why"]
            for answer in answers(scenario(case), steps=case.get("steps", 20_000)).values():
                if isinstance(answer, Failure):
                    assert answer.reasons
                    assert all(each.message and each.example for each in answer.reasons)
                    assert not set(chain(*map(_names_in_message, answer.reasons))), case["name"]
                    seen |= {each.code for each in answer.reasons}
    assert seen <= set(CODES)
    assert set(CODES) - seen <= {"DeviceElsewhere", "TooFewTogether", "TooManyResults"}


def test_the_reason_is_the_deepest_dead_end_if_each_request_alone_fits() -> None:
    devices = [{"name": f"d{i}", "attributes": {"root": f"r{i}"}} for i in range(3)]
    case = {
        "name": "x",
        "slices": [{"node": "n1", "devices": devices}],
        "claims": [{"requests": {"a": 1, "b": 1}, "match": ["gpu.example.com/root"]}],
    }
    answer = answers(scenario(case))["n1"]
    assert isinstance(answer, Failure)
    (reason,) = answer.reasons
    assert (reason.code, reason.before, reason.after) == ("ConstraintUnmet", 2, 0)
    where = "request b, device 1 of 1 (1 chosen before)"
    assert (
        reason.message
        == f"{where}: no gpu device with the gpu.example.com/root of the chosen devices"
    )


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            "match",
            "at most 2 of 3 free gpu devices have the same gpu.example.com/root, 3 requested",
        ),
        (
            "distinct",
            "3 free gpu devices have 2 different values of gpu.example.com/root, 3 requested",
        ),
    ],
)
def test_a_constraint_reason_names_the_nearest_miss(kind: str, message: str) -> None:
    devices = [{"name": f"d{i}", "attributes": {"root": f"r{i // 2}"}} for i in range(3)]
    case = {
        "name": "x",
        "slices": [{"node": "n1", "devices": devices}],
        "claims": [{"requests": {"r": 3}, kind: ["gpu.example.com/root"]}],
    }
    answer = answers(scenario(case))["n1"]
    assert isinstance(answer, Failure)
    assert answer.reasons[0].message == message


def test_where_errors_reject_a_device_with_an_invalid_node_selector_is_on_no_node() -> None:
    invalid = {"matchExpressions": [{"key": "zone", "operator": "In"}]}
    devices: list[Any] = [{"name": f"d{number}", "allNodes": True} for number in range(3)]
    devices[1] = {"name": "d1", "nodeSelector": {"nodeSelectorTerms": [invalid]}}
    slices = [{"perDeviceNodeSelection": True, "devices": devices}]
    given = read(scenario({"name": "x", "slices": slices, "requests": {"r": 2}}))
    world = replace(given.world, errors_reject=True)
    answer = solve(world, given.view, given.claims, given.nodes)["n1"]
    assert isinstance(answer, Solution)
    assert picked(answer.allocations) == ["r=d0", "r=d2"]


def test_incomplete_pools_of_several_nodes_are_one_reason() -> None:
    nodes = ["n1", "n2", "n3"]
    slices = [{"node": node, "count": 2, "devices": [{"name": "d"}]} for node in nodes]
    case = {"name": "x", "nodes": nodes, "slices": slices, "claims": [{"requests": {"a": 1}}]}
    reasons: list[Reason] = []
    for answer in answers(scenario(case)).values():
        assert isinstance(answer, Failure)
        reasons += answer.reasons
    (pool,) = (each for each in merge_reasons(reasons) if each.code == "PoolUnusable")
    assert (pool.nodes, pool.example) == (3, "n1: gpu.example.com/n1")
    assert say_with_subject(pool) == "a pool is incomplete (n1: gpu.example.com/n1)"
