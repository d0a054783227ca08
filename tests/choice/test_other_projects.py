"""The rules for devices beside what other projects' tests say, by a table."""

from pathlib import Path
from typing import Any

import pytest

from drawbridge.choice.amounts import NodeRoom, Task
from tests.choice.nodes import room, strategy_of
from tests.tables import load_cases

_TABLE: dict[str, list[dict[str, Any]]] = load_cases(
    Path(__file__).parent / "cases" / "other_projects.yaml"
)  # type: ignore[assignment]  # lists by name
_PART = Task(1, 1, 0, 0)


def _rows(name: str) -> list[Any]:
    return [pytest.param(row, id=row["name"]) for row in _TABLE[name]]


def _expected(row: dict[str, Any]) -> Any:  # noqa: ANN401  # a device, or several
    """Return what is taken here, which a row has to argue if it is not what the project takes."""
    assert ("why" in row) == ("ours" in row), row["name"]
    return row.get("ours", row["theirs"])


def _score(node: NodeRoom, rules: str) -> int:
    """Return the score of a node, as the sum of its parts."""
    return sum(each.value for each in strategy_of(rules).parts(node, _PART, ()))


@pytest.mark.parametrize("row", _rows("orders"))
def test_the_device_of_the_row_is_taken(row: dict[str, Any]) -> None:
    devices = {
        name: {"total": (100, 100, 100), "used": (use, use, use), "numa": numa}
        for name, (numa, use) in (("a", row["a"]), ("b", row["b"]))
    }
    judged = strategy_of(row["rules"]).judge(room(devices, (1, 1, 1), row["rules"]), _PART)
    assert judged is not None
    (taken,) = judged.taken
    assert "ab"[taken] == _expected(row)


@pytest.mark.parametrize("row", _rows("scores"))
def test_a_device_has_the_score_of_the_row(row: dict[str, Any]) -> None:
    # HAMi compares devices with the task on them.
    used = [sum(each) for each in zip(row["used"], row["asked"], strict=True)]
    device = {"d": {"total": row["total"], "used": used}}
    node = room(device, (0, 0, 0), "binpack")
    score = strategy_of("binpack", row.get("weights")).device_score(node, 0)
    assert score / 100 == pytest.approx(row["score"], abs=0.15)


@pytest.mark.parametrize("row", _rows("nodes"))
def test_a_node_has_the_score_of_the_row(row: dict[str, Any]) -> None:
    devices = {f"{i}": {"total": t, "used": used} for i, (t, used) in enumerate(row["devices"])}
    score = _score(room(devices, (0, 0, 0), "binpack"), "binpack")
    assert score / 100 == pytest.approx(row["score"], abs=0.15)


@pytest.mark.parametrize("row", _rows("better"))
def test_the_node_of_the_row_is_better(row: dict[str, Any]) -> None:
    scores = {}
    for name in "ab":
        use = row[name]
        device = {"d": {"total": (100, 100, 100), "used": (use, use, use)}}
        scores[name] = _score(room(device, (0, 0, 0), row["rules"]), row["rules"])
    assert max(scores, key=scores.__getitem__) == _expected(row)


@pytest.mark.parametrize("row", _rows("selections"))
def test_the_devices_of_the_row_are_taken(row: dict[str, Any]) -> None:
    scores: dict[tuple[str, ...], int] = {}
    for given in row["nodes"].values():
        devices = {
            name: {"total": (1, *total), "used": (0, *used)}
            for name, (total, used) in given.items()
        }
        node = room(devices, (0, 1, 1), row["rules"])
        judged = strategy_of(row["rules"]).judge(node, _PART._replace(devices=row["count"]))
        if judged is not None:
            names = [*given]
            scores[tuple(map(names.__getitem__, judged.taken))] = judged.score
    best = max(scores, key=scores.__getitem__, default=())
    assert sorted(best) == sorted(_expected(row))
