"""Scenarios: the product's own tests of API server behaviour run on a real API server.

They run in a process of their own.
"""

import os
import subprocess
import sys

from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

TESTS = ("tests/cluster/test_api_behaviour.py", "tests/cluster/test_api_following.py")
SECONDS = 120
# A server drops old resourceVersions on a restart.
FORGETS = "expired_version"


def run_tests(stage: Stage, which: str) -> None:
    """Run the tests whose names match, as administrator of the stage's cluster."""
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
def cluster_tests_pass_on_the_real_api_server(stage: Stage) -> None:
    """The tests of the fake API server pass on the real one."""
    run_tests(stage, f"not {FORGETS}")


@scenario("chaos", needs=("processes",))
def cluster_tests_pass_after_the_api_server_restarts(stage: Stage) -> None:
    """A watch with a resourceVersion from before the restart gets 410 Gone."""
    stage.processes.processes["kube-apiserver"].kill()
    stage.processes.start_apiserver()
    run_tests(stage, FORGETS)
