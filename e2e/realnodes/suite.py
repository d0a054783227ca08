"""Runs a suite on real nodes: builds outside, then starts the rig in namespaces and plays there.

The suite `node` has drivers of ours; the suite `drivers` has the programs of others.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CalledProcessError

from e2e.controlplane.build import DEFAULT, NoGoError, binaries
from e2e.controlplane.processes import StartError
from e2e.drivers import nvml
from e2e.drivers.build import PINS
from e2e.drivers.build import build as build_drivers
from e2e.drivers.stage import DriverStage
from e2e.realnodes.build import NoProgramsError, programs
from e2e.realnodes.enter import RUN, lacking, run_inside
from e2e.realnodes.fleet import RealFleet
from e2e.realnodes.product import (
    NEXT,
    PREVIOUS,
    SCHEDULER,
    image_archive,
    previous_archive,
    scheduler_archive,
)
from e2e.realnodes.rig import NodeRig, mount_run
from e2e.realnodes.seed import seeded
from e2e.realnodes.stage import RealStage
from e2e.renderers.build import binaries as build_renderers
from e2e.runner import (
    create_classes,
    device_order,
    play_all,
    print_line,
    report_all_failed,
    select_scenarios,
    summary,
)
from e2e.scenarios.registry import Scenario

SUITE = "node"
NAMES = ("a", "b", "c")
# Set for the command inside: the nodes of its rig.
NODES = "DRAWBRIDGE_E2E_NODES"


def run_node_suite(suite: str, part: str) -> int:
    """Run the scenarios; 1 if one failed or the machine is not as it was before."""
    chosen = select_scenarios(suite, part)
    if RUN in os.environ:
        names = tuple(os.environ[NODES].split(","))
        return _play(suite, names, [one for one in chosen if _names(one) == names])
    reason = lacking() or _build(chosen)
    if reason:
        for one in chosen:
            print_line(f"SKIP  {DEFAULT}  {one.name}: {reason}")
        print_line(f"0 passed, 0 failed, {len(chosen)} skipped")
        return 0
    command = [sys.executable, "-m", "e2e", *sys.argv[1:]]
    # Each rig has namespaces of its own.
    codes = []
    for names in dict.fromkeys(map(_names, chosen)):
        os.environ[NODES] = ",".join(names)
        codes.append(run_inside(command, print_line))
    return max(codes, default=0)


def _names(scenario: Scenario) -> tuple[str, ...]:
    """Return the nodes that a scenario runs on."""
    return scenario.nodes or NAMES


def _build(chosen: Sequence[Scenario]) -> str:
    """Build everything while there is a network; say what makes it impossible."""
    try:
        binaries(DEFAULT)
        programs(DEFAULT)
        _archives(chosen)
        if _needs_previous(chosen):
            build_renderers()
        if pins := _needed_pins(chosen):
            nvml.library()
            build_drivers(*pins)
    except (NoGoError, NoProgramsError) as problem:
        return str(problem)
    return ""


def _needs_previous(chosen: Sequence[Scenario]) -> bool:
    return any(PREVIOUS in one.needs for one in chosen)


def _needed_pins(chosen: Sequence[Scenario]) -> list[str]:
    return [pin for pin in PINS if any(pin in one.needs for one in chosen)]


def _archives(chosen: Sequence[Scenario]) -> list[tuple[Path, str]]:
    """Return the archives that scenarios need, and the further tags of their images."""
    archives = [(previous_archive(), PREVIOUS)] if _needs_previous(chosen) else []
    archives.append((image_archive(), NEXT))
    if any(SCHEDULER in one.needs for one in chosen):
        archives.append((scheduler_archive(), NEXT))
    return archives


def _play(suite: str, names: tuple[str, ...], chosen: list[Scenario]) -> int:
    try:
        mount_run(Path(os.environ[RUN]))
        built = programs(DEFAULT)
        seed = seeded(built, _archives(chosen))
        with NodeRig(DEFAULT, names, built, seed) as rig:
            times = ", ".join(f"{what} {value:.1f} s" for what, value in rig.timings.items())
            print_line(f"      {DEFAULT}  {len(names)} nodes ready: {times}")
            create_classes(rig.plane.admin)
            with RealFleet(rig, seed=device_order()) as fleet:
                make = RealStage if suite == SUITE else DriverStage
                counts = play_all(
                    chosen, DEFAULT, rig.plane, lambda one: make(one.name, DEFAULT, fleet)
                )
    except (StartError, CalledProcessError) as problem:
        counts = report_all_failed(chosen, DEFAULT, str(problem))
    print_line(summary(counts))
    return 1 if counts["failed"] else 0
