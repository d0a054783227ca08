"""Registers scenarios: each module registers its own when it is imported.

@scenario("smoke")
def a_claim_is_prepared_and_released(stage: Stage) -> None:
    '''The behaviour, in a sentence.'''
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from e2e.controlplane.plane import Options
from e2e.scenarios.stage import Stage

ScenarioFunction = Callable[[Stage], None]
SUITES = ("smoke", "full", "compat", "chaos", "node", "drivers", "queues")
VERSIONS = ("1.37", "1.36", "1.35", "1.34")


@dataclass(frozen=True)
class Scenario:
    """One behaviour to test.

    `suite` is the smallest that has it; `since` the oldest Kubernetes that can; `rig` names the
    kind of control plane it runs on; `needs` what not every rig has (`processes`, `loopback`).
    `nodes` are the names of the real nodes, if it needs others than those of its suite.
    """

    name: str
    play: ScenarioFunction
    suite: str
    since: str
    rig: str
    needs: tuple[str, ...]
    nodes: tuple[str, ...] = ()

    def in_suite(self, suite: str) -> bool:
        """Return whether a suite contains it: full and compat contain smoke."""
        if suite in ("full", "compat"):
            return self.suite in ("smoke", suite)
        return self.suite == suite

    def can_run_on(self, version: str) -> bool:
        """Return whether a Kubernetes version is new enough."""
        return _number(self.since) <= _number(version)


RIGS: dict[str, Callable[[str], Options]] = {}
_REGISTERED: list[Scenario] = []


def scenario(
    suite: str,
    *,
    since: str = "1.34",
    rig: str = "stock",
    needs: tuple[str, ...] = (),
    nodes: tuple[str, ...] = (),
) -> Callable[[ScenarioFunction], ScenarioFunction]:
    """Register the decorated function as a scenario."""

    def register(play: ScenarioFunction) -> ScenarioFunction:
        name = play.__name__.replace("_", "-")
        _REGISTERED.append(Scenario(name, play, suite, since, rig, needs, nodes))
        return play

    return register


def default_options(version: str) -> Options:
    """Return the default control plane; 1.36 with DeviceTaintRule, which is off by default."""
    if version != "1.36":
        return Options(version=version)
    return Options(
        version=version,
        gates={"DRADeviceTaintRules": True},
        runtime={"resource.k8s.io/v1beta2": True},
    )


RIGS["stock"] = default_options


def all_scenarios() -> list[Scenario]:
    """Import every module of the folder and return the registered scenarios in order."""
    package = importlib.import_module("e2e.scenarios")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        importlib.import_module(f"e2e.scenarios.{module.name}")
    return list(_REGISTERED)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
