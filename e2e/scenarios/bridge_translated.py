"""Scenarios: the legacy manifest of each dialect becomes running pods in bridge placement.

These are cases of `translated.yaml`. `kubectl` applies the legacy manifest in a namespace that is
opted in. Admission translates its pods and sets their scheduler, and the allocator selects the
devices, which are compared with the hardware as in native placement. One manifest is translated by
the command as well.
"""

import msgspec

from e2e.bridge.placement import SCHEDULER, BridgeStage, bridge_fields, bridge_scenario
from e2e.installed.installation import set_mode
from e2e.scenarios import admission_dialects, translated
from e2e.scenarios.translated import TRANSLATED, ManifestCase, cases

BY_COMMAND = "nvidia"


def runs_in_bridge_placement(case: ManifestCase) -> bool:
    """Whether the pods of an example get the scheduler of Drawbridge, which can allocate them."""
    return bool(case.example) and case.exit == TRANSLATED and not case.scheduler


def play_through_admission(case: ManifestCase, stage: BridgeStage) -> None:
    """Apply the legacy manifest, and look at the scheduler and the devices of its pods."""
    set_mode(stage, "enforce")
    admission_dialects.play(case, stage, stage.placement.cluster, None)
    pods = stage.client.get(stage.pod_path())["items"]
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER}


def _register(case: ManifestCase) -> None:
    def admitted(stage: BridgeStage) -> None:
        play_through_admission(case, stage)

    admitted.__name__ = f"admitted_{case.name}".replace("-", "_")
    admitted.__doc__ = case.shows
    bridge_scenario("full", case.since)(admitted)


@bridge_scenario("full")
def a_manifest_that_the_command_translates_runs(stage: BridgeStage) -> None:
    """The command sets scheduler and toleration as admission does."""
    (case,) = (each for each in cases() if each.name == BY_COMMAND)
    configuration = f"{case.configuration}{bridge_fields()}"
    bridged = msgspec.structs.replace(case, configuration=configuration)
    translated.play(bridged, stage, codes=False)


for _case in filter(runs_in_bridge_placement, cases()):
    _register(_case)
