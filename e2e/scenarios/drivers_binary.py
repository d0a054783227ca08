"""Runs the program of a driver that a user names, and writes what it does into a report.

python -m e2e drivers --binary PATH [--arguments "--node-name={node} ..."]
"""

import os
from pathlib import Path

from e2e.drivers.report import PRINT, REPORT, Probe, write
from e2e.drivers.stage import with_drivers
from e2e.runner import print_line
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

# Set by the command; what runs inside the namespaces inherits them.
BINARY, ARGUMENTS = "DRAWBRIDGE_E2E_BINARY", "DRAWBRIDGE_E2E_ARGUMENTS"
SUITE = "binary"


@scenario(SUITE, rig="nodes")
def the_program_of_a_user_on_a_real_kubelet(stage: Stage) -> None:
    """It publishes, prepares, is restarted under a pod, and is asked for devices twice."""
    nodes = with_drivers(stage)
    nodes.says = PRINT
    node = nodes.node("a", "cpu-only").name
    binary, report = Path(os.environ[BINARY]), Path(REPORT).absolute()
    probe = Probe(nodes, binary, os.environ.get(ARGUMENTS, ""), node)
    try:
        probe.run()
    finally:
        write(probe.answers, report)
        print_line(f"      {report}")
