"""Scenarios: the legacy manifest of each dialect becomes running pods in bridge placement.

These are cases of `translated.yaml`. The command sets the scheduler, and the allocator selects the
devices, which are compared with the hardware as in native placement.
"""

import msgspec

from e2e.bridge.placement import BridgeStage, bridge_fields, bridge_scenario
from e2e.scenarios.translated import TRANSLATED, ManifestCase, cases, play


def runs_in_bridge_placement(case: ManifestCase) -> bool:
    """Whether the pods of an example get the scheduler of Drawbridge, which can allocate them."""
    return bool(case.example) and case.exit == TRANSLATED and not case.scheduler


def _register(case: ManifestCase) -> None:
    bridged = msgspec.structs.replace(case, configuration=f"{case.configuration}{bridge_fields()}")

    def play_it(stage: BridgeStage) -> None:
        play(bridged, stage, codes=False)

    play_it.__name__ = f"translated_{case.name}".replace("-", "_")
    play_it.__doc__ = case.shows
    bridge_scenario("full", case.since)(play_it)


for _case in filter(runs_in_bridge_placement, cases()):
    _register(_case)
