"""The commands of the pages work on the cluster of `python -m e2e play`, word for word.

Blocks marked `console play` run in order on one cluster. Starting it takes a minute, so this test
runs only with DRAWBRIDGE_TEST_PLAY=1, as a scenario of e2e does.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_commands import PAGES, PLAY, ROOT, console, does, steps

EXPORT = re.compile(r" *export KUBECONFIG=(\S+) PATH=(\S+):\$PATH")
LAST = "Ctrl-C ends the cluster"


@contextlib.contextmanager
def playing() -> Iterator[dict[str, str]]:
    """Start the cluster as a person does; yield the variables that it prints, and end it."""
    command = [sys.executable, "-m", "e2e", "play"]
    with subprocess.Popen(  # noqa: S603  # this repository's own command
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line)
            if LAST in line:
                break
        exported = next(filter(None, map(EXPORT.match, printed)), None)
        assert exported, "".join(printed)
        try:
            yield {"KUBECONFIG": exported[1], "PATH": f"{exported[2]}:{os.environ['PATH']}"}
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert process.returncode == 0
    assert not Path(exported[1]).exists()


@pytest.mark.skipif("DRAWBRIDGE_TEST_PLAY" not in os.environ, reason="starts a control plane")
def test_the_pages_work_on_the_cluster_to_play_with_and_nothing_is_left(tmp_path: Path) -> None:
    with playing() as variables:
        for page in PAGES:
            folder = tmp_path / page.relative_to(ROOT).as_posix().replace("/", "-")
            shutil.copytree(ROOT / "examples", folder / "examples")
            for block in console(page):
                for step in steps(block) if PLAY in block.words[1:] else ():
                    does(step, block, folder, **variables)
