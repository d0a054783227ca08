"""Programs built with Go: processes that need the same one build it once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.controlplane.build import compile_program

GO = """#!/bin/sh
echo built >> "${0%/*}/built"
while [ "$1" != -o ]; do shift; done
echo program > "$2"
"""


def test_two_that_need_a_program_build_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program = tmp_path / "kubectl"
    with ThreadPoolExecutor(2) as both:
        for _ in both.map(lambda _: compile_program(tmp_path, ".", program), range(2)):
            pass
    assert program.read_text() == "program\n"
    assert (tmp_path / "built").read_text() == "built\n"
    assert not list(tmp_path.glob("*.partial"))
