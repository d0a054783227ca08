"""Runs scenarios on clusters and reports the results.

`run_all` runs on any cluster; `run_suite` starts its own control planes.
"""

import os
import secrets
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from subprocess import CalledProcessError

from e2e.controlplane.build import DEFAULT, NoGoError
from e2e.controlplane.client import Client
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import StartError
from e2e.installed.image import NoImageError
from e2e.nodes.family import CLASSES
from e2e.nodes.fleet import Fleet
from e2e.scenarios import objects, registry
from e2e.scenarios.registry import RIGS, Scenario
from e2e.scenarios.stage import Stage

OPTIONAL_NEEDS = ("processes", "loopback")


def print_line(line: str) -> None:
    """Print a line and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def select_scenarios(suite: str, part: str) -> list[Scenario]:
    """Return the scenarios of a suite whose name contains `part`, or one of several."""
    parts = part.split(",")
    return [
        one
        for one in registry.all_scenarios()
        if one.in_suite(suite) and any(each in one.name for each in parts)
    ]


def suites_with(part: str) -> list[str]:
    """Return the suites that have a scenario with `part` in its name."""
    return [suite for suite in registry.SUITES if select_scenarios(suite, part)]


def summary(counts: Counter[str]) -> str:
    """Return the last line of a run."""
    return ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))


def run_suite(suite: str, part: str, only: str | None = None) -> Counter[str]:
    """Run every scenario of a suite by version and rig; returns the counts.

    The versions are those of the suite, or `only` one.
    """
    counts: Counter[str] = Counter()
    chosen = select_scenarios(suite, part)
    others = tuple(version for version in registry.VERSIONS if version != DEFAULT)
    versions = others if suite == "compat" else (DEFAULT,)
    for version in (only,) if only else versions:
        able = [one for one in chosen if one.can_run_on(version)]
        for scenario in chosen:
            if scenario not in able:
                print_line(f"skip  {version}  {scenario.name}: needs Kubernetes {scenario.since}")
                counts["skipped"] += 1
        for rig in dict.fromkeys(one.rig for one in able):
            counts += run_rig(rig, version, [one for one in able if one.rig == rig])
    return counts


def run_rig(rig: str, version: str, chosen: list[Scenario]) -> Counter[str]:
    """Run scenarios on one control plane that the rig starts."""
    started = time.monotonic()
    try:
        plane = ControlPlane(RIGS[rig](version))
    except (NoGoError, NoImageError) as problem:
        for one in chosen:
            print_line(f"SKIP  {version}  {one.name}: {problem}")
        return Counter(skipped=len(chosen))
    except CalledProcessError as problem:
        return report_all_failed(chosen, version, f"the build failed: {problem}")
    try:
        with plane:
            seconds = time.monotonic() - started
            print_line(f"      {version}  {rig} control plane ready after {seconds:.1f} s")
            return run_all(chosen, version, plane.admin, plane)
    except StartError as problem:
        return report_all_failed(chosen, version, str(problem))


def report_all_failed(chosen: list[Scenario], version: str, reason: str) -> Counter[str]:
    """Report scenarios as failed because there is no control plane."""
    for one in chosen:
        print_line(f"FAIL  {version}  {one.name}: no control plane")
    print_line(reason)
    return Counter(failed=len(chosen))


def run_all(
    chosen: list[Scenario], version: str, client: Client, plane: ControlPlane | None
) -> Counter[str]:
    """Run scenarios one after the other on a cluster."""
    create_classes(client)
    with Fleet(client, seed=device_order()) as fleet:
        return play_all(
            chosen, version, plane, lambda one: Stage(one.name, version, client, fleet, plane)
        )


def device_order() -> int:
    """Choose and print the seed of the order in which drivers publish devices."""
    seed = int(os.environ.get("DEVICE_ORDER") or secrets.randbelow(10**6))
    print_line(f"      devices in the order of DEVICE_ORDER={seed}")
    return seed


def create_classes(client: Client, names: Iterable[str] = CLASSES) -> None:
    """Create the DeviceClasses that the drivers' own charts install."""
    for name in names:
        expression = CLASSES[name]
        path = f"{objects.RESOURCE}/deviceclasses/{name}"
        client.apply(path, objects.device_class(name, expression))


def play_all(
    chosen: list[Scenario],
    version: str,
    plane: ControlPlane | None,
    make_stage: Callable[[Scenario], Stage],
) -> Counter[str]:
    """Run scenarios one after the other, each on a stage of its own."""
    counts: Counter[str] = Counter()
    for scenario in chosen:
        if lacking := [need for need in scenario.needs if plane is None and need in OPTIONAL_NEEDS]:
            print_line(f"skip  {version}  {scenario.name}: needs {', '.join(lacking)}")
            counts["skipped"] += 1
            continue
        counts["passed" if run_scenario(scenario, make_stage(scenario)) else "failed"] += 1
    return counts


def run_scenario(scenario: Scenario, stage: Stage) -> bool:
    """Run one scenario; on failure print the state that helps to find the cause."""
    started = time.monotonic()
    try:
        stage.set_up()
        scenario.play(stage)
        stage.clean_up()
        left = stage.violations()
        assert not left, "violations nobody expected:\n" + "\n".join(map(str, left))
    except Exception:  # noqa: BLE001  # whatever went wrong, the other scenarios still run
        print_line(f"FAIL  {stage.version}  {time.monotonic() - started:6.2f} s  {scenario.name}")
        print_line(traceback.format_exc())
        print_state(stage)
        return False
    print_line(f"ok    {stage.version}  {time.monotonic() - started:6.2f} s  {scenario.name}")
    return True


def print_state(stage: Stage) -> None:
    """Print the state of the stage and the logs, then clean up as far as possible."""
    try:
        for line in [*stage.report(), *map(str, stage.violations())]:
            print_line(f"      {line}")
        if stage.plane:
            stage.plane.print_logs(20)
        stage.clean_up()
        stage.violations()
    except Exception:  # noqa: BLE001  # the cluster may be what failed
        print_line(traceback.format_exc())
