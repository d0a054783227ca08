"""Plays scenarios on clusters and says what became of each.

Knows nothing of command lines. `play_all` takes any cluster; `run_suite` brings its own.
"""

import sys
import time
import traceback
from collections import Counter
from subprocess import CalledProcessError

from e2e.controlplane.build import DEFAULT, NoGoError
from e2e.controlplane.client import Client
from e2e.controlplane.plane import ControlPlane
from e2e.controlplane.processes import StartError
from e2e.nodes.fleet import Fleet
from e2e.scenarios import objects, registry
from e2e.scenarios.registry import RIGS, Scenario
from e2e.scenarios.stage import Stage

CAN_DO = ("processes", "loopback")


def say(line: str) -> None:
    """Print a line at once: a run is watched."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def chosen_of(suite: str, part: str) -> list[Scenario]:
    """Give the scenarios of a suite whose name contains `part`."""
    return [one for one in registry.found() if one.in_suite(suite) and part in one.name]


def summary(counts: Counter[str]) -> str:
    """Give the last line of a run."""
    return ", ".join(f"{counts[word]} {word}" for word in ("passed", "failed", "skipped"))


def run_suite(suite: str, part: str) -> Counter[str]:
    """Run every scenario of a suite, version by version and rig by rig; how many did what."""
    counts: Counter[str] = Counter()
    chosen = chosen_of(suite, part)
    for version in registry.VERSIONS[1:] if suite == "compat" else (DEFAULT,):
        able = [one for one in chosen if one.can_run_on(version)]
        for one in chosen:
            if one not in able:
                say(f"skip  {version}  {one.name}: needs Kubernetes {one.since}")
                counts["skipped"] += 1
        for rig in dict.fromkeys(one.rig for one in able):
            counts += run_rig(rig, version, [one for one in able if one.rig == rig])
    return counts


def run_rig(rig: str, version: str, chosen: list[Scenario]) -> Counter[str]:
    """Run scenarios on one cluster of our own."""
    started = time.monotonic()
    try:
        plane = ControlPlane(RIGS[rig](version))
    except NoGoError as problem:
        for one in chosen:
            say(f"SKIP  {version}  {one.name}: {problem}")
        return Counter(skipped=len(chosen))
    except CalledProcessError as problem:
        return all_failed(chosen, version, f"the build failed: {problem}")
    try:
        with plane:
            seconds = time.monotonic() - started
            say(f"      {version}  {rig} control plane ready after {seconds:.1f} s")
            return play_all(chosen, version, plane.admin, plane)
    except StartError as problem:
        return all_failed(chosen, version, str(problem))


def all_failed(chosen: list[Scenario], version: str, reason: str) -> Counter[str]:
    """Say that there is no cluster to play on, which is a failure and no reason to skip."""
    for one in chosen:
        say(f"FAIL  {version}  {one.name}: no control plane")
    say(reason)
    return Counter(failed=len(chosen))


def play_all(
    chosen: list[Scenario], version: str, client: Client, plane: ControlPlane | None
) -> Counter[str]:
    """Play scenarios one after the other on a cluster."""
    counts: Counter[str] = Counter()
    for name, expression in objects.CLASSES.items():
        path = f"{objects.RESOURCE}/deviceclasses/{name}"
        client.apply(path, objects.device_class(name, expression))
    with Fleet(client) as fleet:
        for one in chosen:
            if lacking := [need for need in one.needs if plane is None and need in CAN_DO]:
                say(f"skip  {version}  {one.name}: needs {', '.join(lacking)}")
                counts["skipped"] += 1
                continue
            stage = Stage(one.name, version, client, fleet, plane)
            counts["passed" if play(one, stage) else "failed"] += 1
    return counts


def play(one: Scenario, stage: Stage) -> bool:
    """Play one scenario; on failure print everything that helps to see why."""
    started = time.monotonic()
    try:
        stage.open()
        one.play(stage)
        stage.close()
        left = stage.violations()
        assert not left, "violations nobody expected:\n" + "\n".join(map(str, left))
    except Exception:  # noqa: BLE001  # whatever went wrong, the other scenarios still run
        say(f"FAIL  {stage.version}  {time.monotonic() - started:6.2f} s  {one.name}")
        say(traceback.format_exc())
        print_scene(stage)
        return False
    say(f"ok    {stage.version}  {time.monotonic() - started:6.2f} s  {one.name}")
    return True


def print_scene(stage: Stage) -> None:
    """Print what is on the stage and in the logs, then clear the stage as far as possible."""
    try:
        for line in [*stage.report(), *map(str, stage.violations())]:
            say(f"      {line}")
        if stage.plane:
            stage.plane.print_logs(20)
        stage.close()
        stage.violations()
    except Exception:  # noqa: BLE001  # the cluster may be what failed
        say(traceback.format_exc())
