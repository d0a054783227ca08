"""Runs the reproductions and prints what is red; see the package."""

import argparse
import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from .cluster import Api, ApiError, DefectError, Place, UnclearError, connected

HERE = Path(__file__).parent
RED, GREEN, UNCLEAR = "red", "green", "unclear"


class Outcome(NamedTuple):
    """What a reproduction showed."""

    verdict: str
    reason: str = ""


def read() -> dict[str, dict[str, Any]]:
    """Return the defects by their numbers."""
    table: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "defects.yaml").read_text("utf-8"))
    return table


def find(test: str) -> Callable[[Place], None]:
    """Return a reproduction by its module and its name."""
    module, name = test.split(".")
    play: Callable[[Place], None] = getattr(
        importlib.import_module(f".{module}", __package__), name
    )
    return play


def run(api: Api, number: str, test: str, labels: Mapping[str, str]) -> Outcome:
    """Run one reproduction; whatever else goes wrong is unclear."""
    name = "defect-" + "".join(each for each in number if each.isdigit())
    try:
        with Place(api, name, dict(labels)) as place:
            find(test)(place)
    except DefectError as defect:
        return Outcome(RED, str(defect))
    except (ApiError, OSError, UnclearError, ValueError) as problem:
        return Outcome(UNCLEAR, str(problem))
    return Outcome(GREEN)


def main(words: Sequence[str]) -> int:
    """Print a line for each defect; 1 if something differs from what was seen before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kubernetes", default="", help="the version of the cluster that is started"
    )
    parser.add_argument("--ours", action="store_true", help="with Drawbridge's scheduler")
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster, and start none")
    parser.add_argument("--kubectl", default="kubectl")
    parser.add_argument("-k", dest="part", default="", help="only numbers or tests with this part")
    given = parser.parse_args(words)
    differs = False
    with contextlib.ExitStack() as stack:
        kubeconfig, kubectl, labels = given.kubeconfig, given.kubectl, {}
        if not kubeconfig:
            rig = importlib.import_module(".rig", __package__)
            kubeconfig, kubectl, labels = stack.enter_context(
                rig.started(given.kubernetes, ours=given.ours)
            )
        api = stack.enter_context(connected(kubeconfig, kubectl))
        version = api.call("GET", "/version")["gitVersion"].removeprefix("v")
        seen_at = f"{version} ours" if given.ours else version
        for number, defect in read().items():
            if given.part not in f"{number} {defect['test']}":
                continue
            outcome = run(api, number, defect["test"], labels)
            before = defect["seen"].get(seen_at)
            differs |= outcome.verdict != (before or outcome.verdict)
            note = "" if outcome.verdict == before else f"  (seen before: {before or 'not here'})"
            lines = f"{outcome.verdict:8}{version}  {number}: {defect['title']}{note}\n"
            lines += f"        {outcome.reason}\n" if outcome.reason else ""
            sys.stdout.write(lines)
            sys.stdout.flush()
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
