"""The options of `drawbridge serve`."""

import argparse
import subprocess
import sys

import pytest

from allocator.state.reserved_pods import DEFAULT_LIMITS, HoldLimits
from cli.serve import EXIT_CODES, arguments
from cli.terminal.exit_codes import BAD, DONE
from drawbridge.process.run import RESTORED
from tests.cli.running import command
from tests.tables import every_row


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments(parser)
    return parser.parse_args(words)


@every_row(
    ("text", "seconds"),
    [("9", 9), ("9s", 9), ("1.5m", 90), ("12h", 43_200), ("7d", 604_800), ("3650d", 315_360_000)],
)
def test_a_duration_has_a_unit_or_is_in_seconds(text: str, seconds: float) -> None:
    assert parse("webhook", f"--leaf-life={text}").leaf_life == seconds
    assert parse("controller", f"--ca-life={text}").ca_life == seconds


@pytest.mark.parametrize(
    "text", ["", "d", "0", "0.9s", "-1d", "3651d", "1w", "nan", "inf", "7 days"]
)
def test_a_duration_that_makes_no_sense_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse("controller", f"--ca-life={text}")
    assert "must be between 1s and 3650d" in capsys.readouterr().err


def test_the_exit_code_after_a_restore_is_documented() -> None:
    assert "restored from a backup" in EXIT_CODES[RESTORED]


@pytest.mark.parametrize("process", ["webhook", "judge"])
@pytest.mark.parametrize("option", ["--tls-cert=a", "--tls-key=a"])
def test_a_certificate_without_its_key_is_refused(process: str, option: str) -> None:
    code, _, err = command("serve", process, option)
    assert (code, "use --tls-cert and --tls-key together" in err) == (BAD, True)


STOPPED_WHILE_IMPORTING = """
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "controller.process":
            signal.raise_signal(signal.SIGTERM)
sys.meta_path.insert(0, Finder())
from cli.main import main
sys.exit(main())
"""


def test_a_process_that_still_imports_its_modules_is_stopped() -> None:
    """Without a handler, the first process of a container would ignore the signal."""
    words = [sys.executable, "-c", STOPPED_WHILE_IMPORTING, "serve", "controller"]
    assert subprocess.run(words, timeout=60, check=False).returncode == DONE  # noqa: S603  # our own


def test_the_defaults_need_no_certificate() -> None:
    assert parse("webhook").tls_cert is None
    assert parse("webhook").leaf_life == 7 * 86_400
    controller = parse("controller")
    assert (controller.certificates, controller.ca_life, controller.ca_delay) == (
        "managed",
        365 * 86_400,
        120,
    )


def test_an_attempt_to_bind_and_a_device_have_the_times_of_upstream() -> None:
    options = parse("allocator")
    assert (options.bind_wait, options.binding_timeout) == (110, 600)
    options = parse("allocator", "--bind-wait=0", "--binding-timeout=1800")
    assert (options.bind_wait, options.binding_timeout) == (0, 1800)


def test_no_scheduler_has_a_lease_that_the_controller_does_not_know() -> None:
    with pytest.raises(SystemExit):
        parse("allocator", "--lease=other")


def test_pods_are_held_as_long_as_upstream_does() -> None:
    options = parse("allocator")
    assert HoldLimits(options.hold_timeout, options.held_devices) == DEFAULT_LIMITS
    options = parse("allocator", "--hold-timeout=40", "--held-devices=0")
    assert (options.hold_timeout, options.held_devices) == (40, 0)


@pytest.mark.parametrize("text", ["-1", "1.5", "all", ""])
def test_a_limit_of_devices_is_a_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("allocator", f"--held-devices={text}")
    assert "must be a number from 0" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["110.5", "-1", "nan", "1m", ""])
def test_an_attempt_that_the_plugin_does_not_wait_for_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse("allocator", f"--bind-wait={text}")
    assert "must be between 0 and 110 seconds" in capsys.readouterr().err
