"""Scenario: a short soak, so that `python -m e2e soak` keeps working."""

from e2e.runner import print_line
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.soak.run import Soak
from e2e.soak.settings import SoakSettings

SETTINGS = SoakSettings(minutes=1, nodes=10, lifetime=30, calm=False)


@scenario("full", since="1.36", rig="bridge", needs=("processes",))
def bridge_placement_endures_a_minute_of_faults_and_attacks(stage: Stage) -> None:
    """No device is held twice, nothing is left held, and no pod waits that fits."""
    soak = Soak(stage, SETTINGS, lambda line: print_line(f"      {line}"))
    assert soak.play(), "\n".join(soak.journal.failures)
