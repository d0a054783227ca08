"""The command that runs scenarios chooses them by suite and name."""

import signal
import sys

import pytest

import e2e.__main__ as command
from e2e.__main__ import main
from e2e.runner import select_scenarios
from e2e.soak.settings import SoakSettings

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


@pytest.mark.parametrize(("words", "nodes"), [([], SoakSettings().nodes), (["--nodes", "7"], 7)])
def test_a_soak_has_as_many_nodes_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch, words: list[str], nodes: int
) -> None:
    played: list[SoakSettings] = []

    def play(settings: SoakSettings, _: object) -> bool:
        played.append(settings)
        return True

    monkeypatch.setattr(command, "soak", play)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["e2e", "soak", "--minutes", "2", *words])
    assert main() == 0
    assert played == [SoakSettings(minutes=2, nodes=nodes)]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("soak", "--nodes of soak must be a number, not none"),
        ("play", "--nodes of play must be one of"),
    ],
)
def test_nodes_that_a_command_does_not_have_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["e2e", what, "--nodes", "none"])
    with pytest.raises(SystemExit):
        main()
    assert expected in capsys.readouterr().err
