"""Which scenarios there are: each module registers its own when it is imported.

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

Play = Callable[[Stage], None]
SUITES = ("smoke", "full", "compat", "chaos")
VERSIONS = ("1.36", "1.35", "1.34")


@dataclass(frozen=True)
class Scenario:
    """One behaviour to show.

    `suite` is the smallest that has it; `since` the oldest Kubernetes that can; `rig` names the
    kind of control plane it runs on; `needs` what not every rig has (`processes`, `loopback`).
    """

    name: str
    play: Play
    suite: str
    since: str
    rig: str
    needs: tuple[str, ...]

    def in_suite(self, suite: str) -> bool:
        """Tell whether a suite has it: full has smoke's, compat has what older versions can."""
        if suite == "full":
            return self.suite in ("smoke", "full")
        return self.suite == ("smoke" if suite == "compat" else suite)

    def can_run_on(self, version: str) -> bool:
        """Tell whether a Kubernetes version is new enough."""
        return _number(self.since) <= _number(version)


RIGS: dict[str, Callable[[str], Options]] = {}
_FOUND: list[Scenario] = []


def scenario(
    suite: str, *, since: str = "1.34", rig: str = "stock", needs: tuple[str, ...] = ()
) -> Callable[[Play], Play]:
    """Register the function below."""

    def register(play: Play) -> Play:
        name = play.__name__.replace("_", "-")
        _FOUND.append(Scenario(name, play, suite, since, rig, needs))
        return play

    return register


def stock(version: str) -> Options:
    """Give the control plane as it comes; 1.36 with DeviceTaintRule, which is off by default."""
    if version != "1.36":
        return Options(version=version)
    return Options(
        version=version,
        gates={"DRADeviceTaintRules": True},
        runtime={"resource.k8s.io/v1beta2": True},
    )


RIGS["stock"] = stock


def found() -> list[Scenario]:
    """Import every module of the folder and give what they registered, in order."""
    package = importlib.import_module("e2e.scenarios")
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        importlib.import_module(f"e2e.scenarios.{module.name}")
    return list(_FOUND)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
