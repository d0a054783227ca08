"""The reproductions of upstream's defects are all in the data, and need nothing else of ours."""

import ast
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from e2e.upstream.defects import __main__ as command
from e2e.upstream.defects import allocating, cluster, evicting, gangs
from e2e.upstream.defects.cluster import Api, DefectError, Place, UnclearError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "e2e" / "upstream" / "defects"
DEFECTS = command.read()
MODULES = (allocating, evicting, gangs)


def test_each_reproduction_belongs_to_one_defect() -> None:
    reproductions = [
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in MODULES
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == module.__name__
        and list(inspect.signature(value).parameters) == ["place"]
    ]
    assert sorted(each["test"] for each in DEFECTS.values()) == sorted(reproductions)


@pytest.mark.parametrize("number", DEFECTS)
def test_each_defect_has_a_part_of_ours_and_was_seen_on_both_versions(number: str) -> None:
    defect = DEFECTS[number]
    assert (ROOT / defect["part"]).is_file()
    assert {"1.36.3", "1.37.2"} <= set(defect["seen"])
    assert {defect["seen"]["1.36.3"], defect["seen"]["1.37.2"]} <= {command.RED, command.GREEN}
    assert callable(command.find(defect["test"]))


def test_only_the_rig_needs_more_than_the_folder() -> None:
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            node.module or ""
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and not node.level
        }
        ours = {each for each in imported if each.split(".")[0] in ("e2e", "drawbridge", "tests")}
        assert not ours or path.name == "rig.py"


@pytest.mark.parametrize(
    ("raised", "verdict"),
    [
        (None, command.GREEN),
        (DefectError("twice"), command.RED),
        (UnclearError("no PodGroups"), command.UNCLEAR),
        (cluster.ApiError(403, {}), command.UNCLEAR),
        (ConnectionRefusedError(), command.UNCLEAR),
    ],
)
def test_only_a_defect_is_red_and_only_the_end_is_green(
    monkeypatch: pytest.MonkeyPatch, raised: Exception | None, verdict: str
) -> None:
    def play(_place: Place) -> None:
        if raised:
            raise raised

    made: list[str] = []

    def call(_api: Api, method: str, path: str, body: Any = None, kind: str = "json") -> Any:  # noqa: ANN401, ARG001  # as the Api
        made.append(f"{method} {path}")
        return {"items": [], **(body or {})}

    monkeypatch.setattr(Api, "call", call)
    monkeypatch.setattr(command, "find", lambda _: play)
    outcome = command.run(Api(0), "k8s#12345", "x.y", {})
    assert outcome.verdict == verdict
    assert "DELETE /api/v1/namespaces/defect-812345" in made


def test_reproductions_are_found_by_module_and_name() -> None:
    play = command.find("gangs.a_gang_shares_a_claim")
    assert play is importlib.import_module("e2e.upstream.defects.gangs").a_gang_shares_a_claim
