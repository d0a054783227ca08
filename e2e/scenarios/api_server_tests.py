"""Scenarios: tests of the product that need a real API server, and the pages of the docs.

They run in a process of their own.
"""

import os
import subprocess
import sys
from collections.abc import Sequence

from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

TESTS = ("tests/cluster/test_api_behaviour.py", "tests/cluster/test_api_following.py")
SECONDS = 120
PLAY_SECONDS = 600
# A server drops old resourceVersions on a restart.
FORGETS = "expired_version"


def run_tests(stage: Stage, which: str) -> None:
    """Run the tests whose names match, as administrator of the stage's cluster."""
    config = stage.processes.user_config()
    _run_pytest((*TESTS, "-k", which), SECONDS, DRAWBRIDGE_TEST_KUBECONFIG=str(config))


def _run_pytest(words: Sequence[str], seconds: float, **variables: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *words],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=seconds,
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


@scenario("full", needs=("processes",))
def the_pages_work_on_the_cluster_to_play_with(_stage: Stage) -> None:
    """`python -m e2e play` starts, every `console play` block prints what it shows, and it ends."""
    _run_pytest(("tests/docs/test_play.py",), PLAY_SECONDS, DRAWBRIDGE_TEST_PLAY="1")
