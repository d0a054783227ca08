"""`drawbridge simulate` answers as Kubernetes' own allocator, or as ours, as `--allocator` says."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.solver.deviations import OURS, UPSTREAM, Allocator, Deviations
from e2e.differential.compare import EXCEPTIONS, differences
from e2e.differential.ours import answer
from e2e.differential.theirs import Oracle
from e2e.generator import scenario
from e2e.generator.__main__ import objects, options
from tests.cli.simulating import simulate
from tests.thorough import drawn

# Only these exist in a cluster: some scenarios turn off gates that are locked on.
SEEDS = [
    seed
    for seed in range(drawn(15, thorough=600))
    if isinstance(gates_of_version("1.37", scenario(seed)["gates"]), Gates)  # type: ignore[arg-type]
]


def simulated(plain: Any, node: str, allocator: Allocator, folder: Path) -> dict[str, Any]:  # noqa: ANN401  # JSON
    """Return the answer of the command for one node, in the words of the comparison."""
    path = folder / "objects.json"
    path.write_text(json.dumps(objects(plain)), encoding="utf-8")
    called = ("--cluster", str(path), "--node", node, "--allocator", allocator, "-o", "json")
    (entry,) = json.loads(simulate(*called, *shlex.split(options(plain)))[1])["pods"]
    if entry["node"] is None:
        return {"verdict": "none"}
    return {
        "verdict": "allocated",
        "allocations": [each["allocation"] for each in entry["claims"]],
    }


def without_kind(answer: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    """Simulate prints an error and a plain failure as one: the pod is not placed."""
    return dict(answer) | {"verdict": "allocated" if answer["verdict"] == "allocated" else "none"}


def test_every_deviation_has_a_named_exception() -> None:
    assert set(EXCEPTIONS) == set(Deviations.__struct_fields__)
    assert Deviations(**dict.fromkeys(EXCEPTIONS, True)) == OURS
    assert Deviations(**dict.fromkeys(EXCEPTIONS, False)) == UPSTREAM


@pytest.mark.parametrize("seed", SEEDS)
def test_simulate_answers_as_the_chosen_allocator(
    seed: int, oracle: Oracle, tmp_path: Path
) -> None:
    plain: Any = scenario(seed)
    ours = answer(plain, OURS)
    for node, theirs in oracle.answer(plain).items():
        if theirs["verdict"] not in ("timeout", "panic"):
            upstream = simulated(plain, node, Allocator.UPSTREAM, tmp_path)
            assert differences(upstream, without_kind(theirs)) == []
        drawbridge = simulated(plain, node, Allocator.DRAWBRIDGE, tmp_path)
        assert differences(drawbridge, without_kind(ours[node])) == []
