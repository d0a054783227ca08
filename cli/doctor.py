"""`drawbridge doctor`: checks a live cluster, the installation of Drawbridge, and your rights.

Changes nothing.
"""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from cli.comparison.clusters import add_clusters_option, names_several, print_comparison
from cli.diagnosis.line import DoctorLine, Status
from cli.input import live_cluster
from cli.input.effective_configuration import EffectiveConfiguration, read_effective_configuration
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, add_shared_options
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.config.model import Configuration
from drawbridge.dra.counted import count_noun
from drawbridge.report.tables import align_columns, escape_unprintable

EXIT_CODES = {
    DONE: "no errors",
    NOTICE: "something is wrong; with --strict: warnings",
    BAD: "a cluster cannot be reached, or bad input",
}
_COLOURS: Final = {Status.OK: "32", Status.WARNING: "33", Status.ERROR: "31"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster and the output format."""
    add_clusters_option(parser)
    add_shared_options(parser, *LIVE, "--namespace", "--config")
    output.add_strict_option(parser)
    output.add_format_option(parser, "text", "json", "yaml")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the result of each check, or a row of each of several clusters."""
    if names_several(options):
        rows = print_comparison(options, streams)
        if rows is None or any(each.error for each in rows):
            return BAD
        return NOTICE if any(each.stuck for each in rows) else DONE
    effective = read_effective_configuration(options, streams, asks_cluster=True)
    if effective.configuration is None and options.config is not None:
        return output.print_unreadable(effective.findings, options, streams)
    lines = _check(options, effective)
    if options.output == "text":
        _print_text(lines, streams)
    else:
        data = {"checks": [msgspec.to_builtins(each) for each in lines]}
        output.print_value(data, options.output, streams.out)
    states = {each.status for each in lines}
    return (
        NOTICE if Status.ERROR in states or (options.strict and Status.WARNING in states) else DONE
    )


def _check(
    options: argparse.Namespace, effective: EffectiveConfiguration
) -> tuple[DoctorLine, ...]:
    from cli.diagnosis.checked_state import derive_checked_state  # noqa: PLC0415  # imports the CEL engine
    from cli.diagnosis.checks import check_state  # noqa: PLC0415
    from cli.diagnosis.state import read_state  # noqa: PLC0415

    # A refused configuration must not hide what else is wrong.
    configuration = effective.configuration or Configuration()
    read = partial(read_state, options=options, configuration=configuration)
    state = live_cluster.run_with_session(options, read)
    return check_state(derive_checked_state(state, configuration, effective.findings))


def _print_text(lines: Sequence[DoctorLine], streams: Streams) -> None:
    rows = [(line.status.value, line.check, _message(line)) for line in lines]
    following = [each.remedy for each in lines[1:]]
    for line, row, next_remedy in zip(lines, align_columns(rows), [*following, ""], strict=True):
        status = line.status.value
        if streams.color:
            row = f"\033[{_COLOURS[line.status]}m{status}\033[0m{row.removeprefix(status)}"  # noqa: PLW2901  # the colour is not a column
        streams.out.write(f"{row}\n")
        # One remedy for several lines is printed once, after the last one.
        if line.remedy != next_remedy and line.status is not Status.OK:
            streams.out.write(f"    {escape_unprintable(line.remedy)}\n")
    numbers = {status: sum(line.status is status for line in lines) for status in Status}
    streams.out.write(f"\n{_summary(numbers)}\n")


def _message(line: DoctorLine) -> str:
    return f"{line.message} [{line.code}]" if line.code else line.message


def _summary(numbers: Mapping[Status, int]) -> str:
    told = [f"{numbers[Status.OK]} ok"]
    told += [
        count_noun(numbers[status], status.value)
        for status in (Status.WARNING, Status.ERROR)
        if numbers[status]
    ]
    return f"{count_noun(sum(numbers.values()), 'line')}: {', '.join(told)}"
