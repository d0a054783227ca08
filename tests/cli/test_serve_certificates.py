"""The options about certificates of `drawbridge serve`."""

import argparse
import io

import pytest

from cli.serve import arguments, run
from cli.terminal.exit_codes import BAD
from cli.terminal.streams import Streams


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("process", ["webhook", "judge"])
@pytest.mark.parametrize("option", ["--tls-cert=a", "--tls-key=a"])
def test_a_certificate_without_its_key_is_refused(process: str, option: str) -> None:
    streams = Streams(io.BytesIO(), io.StringIO(), io.StringIO())
    assert run(parse(process, option), streams) == BAD
    assert "use --tls-cert and --tls-key together" in str(streams.err.getvalue())  # type: ignore[attr-defined]


def test_the_defaults_need_no_certificate() -> None:
    assert parse("webhook").tls_cert is None
    assert parse("webhook").leaf_life == 7 * 86_400
    controller = parse("controller")
    assert (controller.certificates, controller.ca_life, controller.ca_delay) == (
        "managed",
        365 * 86_400,
        120,
    )
