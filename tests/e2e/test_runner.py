"""The command that runs scenarios chooses them by suite and name."""

import sys

import pytest

from e2e.__main__ import main
from e2e.runner import select_scenarios

CHAOS = "the-api-server-is-killed-and-comes-back"


def test_a_name_that_the_suite_does_not_have_is_refused_with_the_suites_that_have_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["e2e", "full", "-k", CHAOS])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    expected = f"no scenario of suite full has {CHAOS} in its name; suites that have one: chaos"
    assert expected in capsys.readouterr().err


def test_one_name_chooses_one_rig() -> None:
    assert {one.rig for one in select_scenarios("chaos", CHAOS)} == {"stock"}
