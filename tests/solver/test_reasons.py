"""Reasons: in words, with numbers, added up over nodes, and each with a code that is documented."""

from pathlib import Path

import pytest

from solver.answers import Failure
from solver.codes import CODES
from solver.reasons import Reason, merged, summary
from tests.solver.scenario import answers
from tests.solver.short import scenario
from tests.tables import cases

HELD = Reason("NoDeviceFree", "in use", 8, 0, 1, "n1: d/p/gpu-0", "no free gpu (8 of 8 held)")
ACTIVE = Reason("GroupClash", "groups", 8, 0, 1, "n2: d/p/gpu-0", "mode mig is active")


def test_what_many_nodes_say_is_said_once() -> None:
    found = [ACTIVE] * 88 + [HELD] * 412
    assert summary(found) == "412 nodes: no free gpu (8 of 8 held); 88 nodes: mode mig is active"
    first, second = merged(found)
    assert (first.nodes, first.before, first.after, first.example) == (412, 3296, 0, HELD.example)
    assert second.nodes == 88


def test_one_node_is_one_node() -> None:
    assert summary([HELD]) == "1 node: no free gpu (8 of 8 held)"
    assert summary([]) == ""


def test_every_failure_of_the_tables_has_reasons_that_are_documented() -> None:
    seen = set()
    for table in sorted((Path(__file__).parent / "cases").glob("*.yaml")):
        for case in cases(table):
            assert case["why"]
            for answer in answers(scenario(case), steps=case.get("steps", 20_000)).values():
                if isinstance(answer, Failure):
                    assert answer.reasons
                    assert all(each.message and each.example for each in answer.reasons)
                    seen |= {each.code for each in answer.reasons}
    assert seen <= set(CODES)
    assert set(CODES) - seen <= {"DeviceElsewhere", "TooFewTogether", "TooManyResults"}


def test_how_far_the_search_got_is_said_where_each_request_alone_would_do() -> None:
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
    where = "request b, device 1 of 1, beside 1 chosen before"
    assert reason.message == f"{where}: no gpu with the gpu.example.com/root of those chosen"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("match", "at most 2 of 3 free gpu have the same gpu.example.com/root, 3 wanted"),
        ("distinct", "3 free gpu have 2 different gpu.example.com/root, 3 wanted"),
    ],
)
def test_the_nearest_miss_of_a_constraint_is_said(kind: str, said: str) -> None:
    devices = [{"name": f"d{i}", "attributes": {"root": f"r{i // 2}"}} for i in range(3)]
    case = {
        "name": "x",
        "slices": [{"node": "n1", "devices": devices}],
        "claims": [{"requests": {"r": 3}, kind: ["gpu.example.com/root"]}],
    }
    answer = answers(scenario(case))["n1"]
    assert isinstance(answer, Failure)
    assert answer.reasons[0].message == said
