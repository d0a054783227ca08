"""Runs scenarios on real control planes, measures one, or starts one to play with.

    python -m e2e [smoke|full|compat|chaos|node|drivers|queues|timings|list] [-k PART]
        [--kubernetes VERSION] [--image]
    python -m e2e drivers --binary PATH [--arguments TEXT]
    python -m e2e soak [--minutes N] [--seed S] [--nodes N]
    python -m e2e play [--nodes simulated|real|drivers] [--bridge]

Without an argument the suite is taken from the environment variable SUITE, else it is `smoke`.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from e2e.installed.installation import image_options
from e2e.play import KINDS, SIMULATED, play
from e2e.realnodes.suite import run_node_suite
from e2e.runner import print_line, run_suite, select_scenarios, suites_with, summary
from e2e.scenarios.drivers_binary import ARGUMENTS, BINARY
from e2e.scenarios.drivers_binary import SUITE as BINARY_SUITE
from e2e.scenarios.registry import RIGS, SUITES, VERSIONS, all_scenarios
from e2e.soak.run import soak
from e2e.soak.settings import SoakSettings
from e2e.timings import timings


def _stop_at_signal(number: int, _frame: FrameType | None) -> None:
    # The exception ends the control planes.
    raise SystemExit(128 + number)


def _run_on_real_nodes(arguments: argparse.Namespace) -> int:
    if not arguments.binary:
        return run_node_suite(arguments.what, arguments.part)
    binary = str(Path(arguments.binary).absolute())
    os.environ |= {BINARY: binary, ARGUMENTS: arguments.arguments}
    return run_node_suite(BINARY_SUITE, "")


def _find_problem(arguments: argparse.Namespace) -> str:
    """Return what is wrong with -k or --nodes; empty if nothing is."""
    what, part, nodes = arguments.what, arguments.part, arguments.nodes
    if nodes and what == "soak" and not nodes.isdecimal():
        return f"--nodes of soak must be a number, not {nodes}"
    if nodes and what == "play" and nodes not in KINDS:
        return f"--nodes of play must be one of {', '.join(KINDS)}, not {nodes}"
    if not part or select_scenarios(what, part):
        return ""
    others = ", ".join(suites_with(part)) or "none"
    return f"-k: no scenario of suite {what} has {part} in its name; suites that have one: {others}"


def main() -> int:
    """Run the command; 1 if a scenario failed."""
    parser = argparse.ArgumentParser(prog="python -m e2e", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        default=os.environ.get("SUITE", "smoke"),
        choices=[*SUITES, "soak", "play", "timings", "list"],
    )
    parser.add_argument("-k", dest="part", default="", help="only names with one of: A,B")
    parser.add_argument("--kubernetes", choices=VERSIONS, help="instead of the suite's versions")
    parser.add_argument("--image", action="store_true", help="run Drawbridge from its image")
    defaults = SoakSettings()
    parser.add_argument("--minutes", type=float, default=defaults.minutes, help="of a soak")
    parser.add_argument("--seed", type=int, default=defaults.seed, help="of a soak")
    parser.add_argument("--nodes", help="of a soak: how many; of play: which")
    parser.add_argument("--bridge", action="store_true", help="play with bridge placement")
    parser.add_argument(
        "--pods-per-gpu", type=float, default=defaults.pods_per_gpu, help="of a soak"
    )
    parser.add_argument("--binary", help="drivers: run this program of a driver, write a report")
    parser.add_argument("--arguments", default="", help="its arguments; {node} is its node's name")
    arguments = parser.parse_args()
    if problem := _find_problem(arguments):
        parser.error(problem)
    if arguments.image:  # for any scenario; those of e2e.scenarios.image always do
        RIGS["installed"] = image_options
    signal.signal(signal.SIGTERM, _stop_at_signal)
    if arguments.what == "list":
        for one in all_scenarios():
            print_line(f"{one.suite:6}  since {one.since}  {one.name}")
        return 0
    if arguments.what == "timings":
        timings(print_line)
        return 0
    if arguments.what == "soak":
        return _soak(arguments)
    if arguments.what == "play":
        return play(arguments.nodes or SIMULATED, bridge=arguments.bridge)
    if arguments.what in ("node", "drivers"):
        return _run_on_real_nodes(arguments)
    counts = run_suite(arguments.what, arguments.part, arguments.kubernetes)
    print_line(summary(counts))
    return 1 if counts["failed"] else 0


def _soak(arguments: argparse.Namespace) -> int:
    nodes = int(arguments.nodes or SoakSettings().nodes)
    settings = SoakSettings(arguments.minutes, arguments.seed, nodes, arguments.pods_per_gpu)
    return 0 if soak(settings, print_line) else 1


if __name__ == "__main__":
    sys.exit(main())
