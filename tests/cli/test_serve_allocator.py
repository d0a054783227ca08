"""The options of `drawbridge serve allocator`."""

import argparse

import pytest

from allocator.state.reserved_pods import DEFAULT_LIMITS, HoldLimits
from cli.serve import arguments


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments(parser)
    return parser.parse_args(("allocator", *words))


def test_an_attempt_to_bind_and_a_device_have_the_times_of_upstream() -> None:
    options = parse()
    assert (options.bind_wait, options.binding_timeout) == (110, 600)
    options = parse("--bind-wait=0", "--binding-timeout=1800")
    assert (options.bind_wait, options.binding_timeout) == (0, 1800)


def test_pods_are_held_as_long_as_upstream_does() -> None:
    options = parse()
    assert HoldLimits(options.hold_timeout, options.held_devices) == DEFAULT_LIMITS
    options = parse("--hold-timeout=40", "--held-devices=0")
    assert (options.hold_timeout, options.held_devices) == (40, 0)


@pytest.mark.parametrize("text", ["-1", "1.5", "all", ""])
def test_a_limit_of_devices_is_a_number(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(f"--held-devices={text}")
    assert "must be a number from 0" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["110.5", "-1", "nan", "1m", ""])
def test_an_attempt_that_the_plugin_does_not_wait_for_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(f"--bind-wait={text}")
    assert "must be between 0 and 110 seconds" in capsys.readouterr().err
