"""`drawbridge simulate` gives the same results as the solver for generated scenarios."""

import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from cli.main import dispatch
from cli.terminal.streams import Streams
from drawbridge.dra.allocation import to_json
from drawbridge.solver.answers import Solution
from e2e.generator import scenario
from e2e.generator.__main__ import objects, options
from tests.solver.scenario import answers


def taken(allocations: list[dict[str, Any]]) -> list[list[str]]:
    return [
        [f"{each['request']} {each['pool']}/{each['device']}" for each in one["devices"]["results"]]
        for one in allocations
    ]


@pytest.mark.parametrize("seed", range(12))
def test_generated_scenarios_have_the_result_of_the_solver(seed: int, tmp_path: Path) -> None:
    plain = scenario(seed)
    path = tmp_path / "objects.json"
    path.write_text(json.dumps(objects(plain)), encoding="utf-8")
    for node, answer in answers(plain).items():
        given = Streams(io.BytesIO(), io.StringIO(), io.StringIO())
        called = ["simulate", "--cluster", str(path), "--node", node, "-o", "json"]
        code = dispatch([*called, *shlex.split(options(plain))], given, "drawbridge")
        (pod,) = json.loads(given.out.getvalue())["pods"]
        if isinstance(answer, Solution):
            assert (code, pod["node"]) == (0, node)
            wanted = taken(list(map(to_json, answer.allocations)))
            assert taken([claim["allocation"] for claim in pod["claims"]]) == wanted
        else:
            assert (code, pod["node"]) == (1, None)
            assert pod["reasons"]
