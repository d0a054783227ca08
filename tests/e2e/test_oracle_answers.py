"""The oracle's allocator mode, on scenarios whose answers follow from the API's own text."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.differential.theirs import Oracle
from e2e.oracle import golden
from e2e.oracle.build import NoGoError, binary
from tests.tables import read_yaml

TABLE = read_yaml((Path(__file__).parent / "cases" / "oracle.yaml").read_text("utf-8"))


def scenario(case: dict[str, Any]) -> dict[str, Any]:
    return TABLE["base"] | case["scenario"]


def summary(answer: dict[str, Any]) -> dict[str, Any]:
    """The verdict on each node, or the devices by request."""
    return {
        node: [
            f"{result['request']}={result['device']}"
            for allocation in one["allocations"]
            for result in allocation["devices"]["results"]
        ]
        if one["verdict"] == "allocated"
        else one["verdict"]
        for node, one in answer.items()
    }


@pytest.fixture(scope="module")
def running(oracle: Path) -> Iterator[Oracle]:
    process = Oracle(oracle)
    yield process
    process.close()


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_the_allocator_answers_as_the_api_promises(case: dict[str, Any], running: Oracle) -> None:
    answer = running.answer(scenario(case))
    assert summary(answer) == case["expected"]
    for node, words in case.get("says", {}).items():
        assert words in answer[node]["message"]


def test_a_misspelt_field_is_refused(running: Oracle) -> None:
    with pytest.raises(ValueError, match="unknown field"):
        running.answer(TABLE["base"] | {"slcies": []})


def test_an_unknown_gate_is_refused(running: Oracle) -> None:
    with pytest.raises(ValueError, match="DRANothing"):
        running.answer(TABLE["base"] | {"gates": {"DRANothing": True}})


def test_every_share_id_is_its_own_and_the_search_is_counted(running: Oracle) -> None:
    case = next(case for case in TABLE["cases"] if case["name"] == "two requests share a device")
    answer = running.answer(scenario(case))["n1"]
    ids = [one["shareID"] for one in answer["allocations"][0]["devices"]["results"]]
    assert len(set(ids)) == 2
    assert answer["steps"] > 0


def test_a_search_without_end_is_cut_off(running: Oracle) -> None:
    devices = [{"name": f"g{number}"} for number in range(31)]
    base = TABLE["base"]
    spec = base["slices"][0]["spec"] | {"devices": devices}
    ask = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 16}
    requests = [{"name": name, "exactly": ask} for name in ("a", "b")]
    asked = base | {
        "slices": [{"metadata": {"name": "s"}, "spec": spec}],
        "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}],
    }
    assert running.answer(asked, seconds=0.05)["n1"]["verdict"] == "timeout"


def test_rounds_answer_after_each_change(oracle: Path) -> None:
    case = next(case for case in TABLE["cases"] if case["name"] == "a held device is passed over")
    asked = scenario(case)
    held = asked["allocated"][0]
    both = held | {"metadata": {"name": "more", "namespace": "d"}}
    both["status"] = json.loads(json.dumps(held["status"]).replace("g0", "g1"))
    asked |= {"changes": [{"add": both}, {"remove": "d/more"}]}
    ran = subprocess.run(  # noqa: S603  # what was built here
        [oracle, "rounds"], input=json.dumps(asked), capture_output=True, text=True, check=True
    )
    rounds = json.loads(ran.stdout)["rounds"]
    assert [one["verdicts"] for one in rounds] == [{"allocated": 1}, {"none": 1}, {"allocated": 1}]


def test_generated_scenarios_are_answered_as_stored(running: Oracle) -> None:
    blocks = golden.blocks()
    assert golden.differing([blocks[0], blocks[50], blocks[-1]], running) == []


def test_without_go_the_oracle_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoGoError, match="go is not on the PATH"):
        binary()
