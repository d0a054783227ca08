"""What the program takes an API server to do, asked of a real one by the program's own tests.

They run in a process of their own: scenarios know nothing of the rooms.
"""

import os
import subprocess
import sys

from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

TESTS = ("tests/cluster/test_api_behaviour.py", "tests/cluster/test_api_following.py")
SECONDS = 120
# A server forgets when it starts again, or after more changes than a scenario should make.
FORGETS = "expired_version"


def ask(stage: Stage, which: str) -> None:
    """Play the tests whose names fit, as the administrator of the stage's cluster."""
    config = stage.processes.user_config()
    arguments = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", which)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *TESTS, *arguments],
        env={**os.environ, "DRAWBRIDGE_TEST_KUBECONFIG": str(config)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    # pytest ends with 5 where it found no tests.
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert " skipped" not in done.stdout, done.stdout


@scenario("smoke", needs=("processes",))
def cluster_room(stage: Stage) -> None:
    """The tests that hold the fake API server to the real one pass on the real one."""
    ask(stage, f"not {FORGETS}")


@scenario("chaos", needs=("processes",))
def cluster_room_and_a_server_that_forgets(stage: Stage) -> None:
    """A watch from before the API server's start is told that it is too late."""
    stage.processes.processes["kube-apiserver"].kill()
    stage.processes.start_apiserver()
    ask(stage, FORGETS)
