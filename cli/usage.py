"""`drawbridge usage`: who used how many device-hours, from the books of the controller."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final

from cli.input import codes, installed_namespace, live_cluster
from cli.input.files import read_values
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, add_shared_options
from cli.terminal.durations import parse_duration
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.printable import make_printable
from cli.terminal.streams import Streams, write_data
from drawbridge.agreement.operation_codes import USAGE_BOOK_UNREADABLE
from drawbridge.cluster import resources
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.names import USAGE_CONFIG_MAP_PREFIX
from drawbridge.report.tables import align_columns, make_csv_line
from drawbridge.usage.accounts import UsedAmount
from drawbridge.usage.book import Book, BookError, format_day, format_time
from drawbridge.usage.changes import ChangedPods, read_changes, sum_changes
from drawbridge.usage.stored_books import all_names, choose_books, read_config_map
from drawbridge.usage.summary import COLUMNS, UsageLine, UsageSummary, find_missing, summarize

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

EXIT_CODES = {DONE: "printed", BAD: "there is no book, it cannot be read, or bad input"}
_DEFAULT: Final = ("namespace", "class")
_HOUR: Final = 3_600
_GIB: Final = 2**30
_MAX_GAPS: Final = 5
# Without a first day; no month is longer.
_DEFAULT_DAYS: Final = 31


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the period, the grouping, the cluster and the output."""
    parser.add_argument(
        "only", metavar="NAMESPACE", nargs="?", default="", help="only this namespace"
    )
    parser.add_argument(
        "--from",
        dest="first_day",
        metavar="DURATION|DATE",
        type=_parse_first_day,
        help="from the beginning of the day (UTC) so long ago, for example 7d, or of a date"
        " (default: the last 31 days; the books of 62 days are kept)",
    )
    parser.add_argument(
        "--by",
        metavar="COLUMN,...",
        type=_parse_columns,
        default=_DEFAULT,
        help=f"sum up by {', '.join(COLUMNS)}, or several of them (default: {','.join(_DEFAULT)})",
    )
    parser.add_argument(
        "--changes",
        action="store_true",
        help="instead: which pods Drawbridge translated, by namespace and owner, also those that"
        " are gone",
    )
    add_shared_options(parser, "--cluster", *LIVE)
    output.add_format_option(parser, "text", "json", "yaml", "csv")


def _parse_first_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        if "-" in text:
            message = f"{text}: must be a date such as 2026-11-01, or a duration such as 7d"
            raise argparse.ArgumentTypeError(message) from None
        return (datetime.now(UTC) - timedelta(seconds=parse_duration(text))).date()


def _parse_columns(text: str) -> tuple[str, ...]:
    columns = tuple(dict.fromkeys(text.split(",")))
    unknown = [each for each in columns if each not in COLUMNS]
    if unknown:
        message = f"{unknown[0]}: must be {', '.join(COLUMNS)}, or several with commas"
        raise argparse.ArgumentTypeError(message)
    # Owners of different namespaces with the same name are different owners.
    return tuple(
        each for each in COLUMNS if each in columns or (each == "namespace" and "owner" in columns)
    )


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print what was used."""
    findings: list[LocatedFinding] = []
    try:
        objects = _read_objects(options, streams, findings)
        books = _read_books(objects, findings)
    except ClusterReadError as error:
        return output.print_unreadable([*findings, error.located], options, streams)
    since = options.first_day or format_day(books[-1][0].day - _DEFAULT_DAYS + 1)
    selected = [each for each in books if format_day(each[0].day) >= since]
    if not selected:
        ends = format_time(books[-1][0].through)
        text = f"no book covers the time since {since}; the last one ends at {ends}"
        findings.append(LocatedFinding(codes.USAGE_MISSING.at("", text)))
        return output.print_unreadable(findings, options, streams)
    findings += _find_missing(selected, options.first_day)
    output.print_findings(findings, streams.err)
    if options.changes:
        print_changes([config_map for _, config_map in selected], options, findings, streams)
        return DONE
    summary = summarize([book for book, _ in selected], options.by, namespace=options.only)
    if options.output == "text":
        lines = _format(summary, options.by)
        output.write_lines(lines, streams.out)
    elif options.output == "csv":
        write_data(streams.out, make_printable(_format_csv(summary, options.by)))
    else:
        data = _to_json(summary) | output.findings_as_data(findings)
        output.print_value(data, options.output, streams.out)
    return DONE


# --- reading -------------------------------------------------------------------------------------


def _read_objects(
    options: argparse.Namespace, streams: Streams, findings: list[LocatedFinding]
) -> list[Value]:
    """Read the ConfigMaps with books."""
    if options.cluster:
        values = read_values(options.cluster, streams.stdin, findings)
        return [each for each in values if _has_book(each)]
    return [*live_cluster.run_with_session(options, partial(_read_live, findings=findings))]


def _read_books(
    objects: Sequence[Value], findings: list[LocatedFinding]
) -> list[tuple[Book, Mapping[str, Value]]]:
    """Read the books, with their ConfigMaps; raises ClusterReadError if there is none."""
    books: list[tuple[Book, Mapping[str, Value]]] = []
    for value in objects:
        config_map = as_mapping(value)
        try:
            books.append((read_config_map(config_map), config_map))
        except BookError as error:
            name = get_value(value, ("metadata", "name"))
            text = f"ConfigMap {name}: {error}"
            findings.append(LocatedFinding(USAGE_BOOK_UNREADABLE.at("", text)))
    if not books:
        raise ClusterReadError(codes.USAGE_MISSING.at("", "no ConfigMap has a book of usage"))
    # Since an upgrade, the book of that day can have two names.
    return choose_books(books)


def _find_missing(
    stored: Sequence[tuple[Book, object]], since: date | None
) -> Iterator[LocatedFinding]:
    """Yield a warning if no book covers a part of the time."""
    missing = [*find_missing((book for book, _ in stored), since)]
    if missing:
        times = ", ".join(map(_interval, missing[:_MAX_GAPS]))
        more = f" and {len(missing) - _MAX_GAPS} more" if len(missing) > _MAX_GAPS else ""
        yield LocatedFinding(codes.USAGE_INCOMPLETE.at("", f"no book covers {times}{more}"))


def _interval(times: tuple[int, int]) -> str:
    return " to ".join(map(format_time, times))


def _has_book(value: Value) -> bool:
    name = get_value(value, ("metadata", "name"))
    is_config_map = get_value(value, ("kind",)) == "ConfigMap"
    return is_config_map and isinstance(name, str) and name.startswith(USAGE_CONFIG_MAP_PREFIX)


async def _read_live(session: "Session", findings: list[LocatedFinding]) -> list[Value]:
    """Read the ConfigMaps by name, which is all that the role of readers allows.

    The role of an earlier version does not allow all of them.
    """
    unread: list[LocatedFinding] = []
    namespace = await installed_namespace.find(session)
    books: list[Value] = []
    for name in all_names() if namespace else ():
        reading = live_cluster.read_object(session, resources.CONFIG_MAPS, name, namespace)
        read = await live_cluster.read_if_allowed(reading, unread)
        if read is not None:
            books.append(read)
    if unread:
        more = f" (and {len(unread) - 1} more ConfigMaps)" if len(unread) > 1 else ""
        text = f"{unread[0].finding.message}{more}"
        findings.append(LocatedFinding(codes.PART_UNREADABLE.at("", text)))
    if unread and not books:
        text = "no ConfigMap that you may read has a book of usage"
        raise ClusterReadError(codes.USAGE_MISSING.at("", text))
    return books


# --- writing -------------------------------------------------------------------------------------


def _format(summary: UsageSummary, columns: Sequence[str]) -> Iterator[str]:
    yield f"from {format_time(summary.start)} to {format_time(summary.through)}"
    yield "devices of claims, and units of device plugins by their resource name"
    whole = summary.total.devices
    heading = [*map(str.upper, columns), "DEVICE-HOURS", "SHARE", "MEMORY GiB-HOURS", "UNKNOWN"]
    rows = [heading, *(_row(line, columns, whole) for line in summary.lines)]
    if len(summary.lines) != 1:
        rows.append(["total", *[""] * (len(columns) - 1), *_numbers(summary.total, whole)])
    yield from align_columns(rows)
    if summary.gaps:
        seconds = sum(end - start for start, end in summary.gaps)
        yield (
            f"not observed: {count_noun(len(summary.gaps), 'interval')} of {seconds:,} s together."
            " Claims that came and went in them are not known."
        )
        for interval in summary.gaps[:_MAX_GAPS]:
            yield f"  {_interval(interval)}"
        if len(summary.gaps) > _MAX_GAPS:
            yield f"  and {len(summary.gaps) - _MAX_GAPS} more; -o json has all"


def _row(line: UsageLine, columns: Sequence[str], whole: Fraction) -> list[str]:
    return [*(line.names[each] for each in columns), *_numbers(line.used, whole)]


def _numbers(used: UsedAmount, whole: Fraction) -> list[str]:
    share = f"{float(100 * used.devices / whole):.1f} %" if whole else "-"
    unknown = f"{float(used.unknown / _HOUR):,.2f}" if used.unknown else "-"
    hours, memory = float(used.devices / _HOUR), float(used.memory / _GIB / _HOUR)
    return [f"{hours:,.2f}", share, f"{memory:,.1f}", unknown]


def _format_csv(summary: UsageSummary, columns: Sequence[str]) -> str:
    rows = [[*columns, "device_seconds", "unknown_device_seconds", "memory_byte_seconds"]]
    for line in summary.lines:
        used = line.used
        numbers = (used.devices, used.unknown, used.memory)
        names = (line.names[each] for each in columns)
        rows.append([*names, *(f"{float(number):.6f}" for number in numbers)])
    return "".join(map(make_csv_line, rows))


def _to_json(summary: UsageSummary) -> dict[str, object]:
    return {
        "from": format_time(summary.start),
        "to": format_time(summary.through),
        "unobserved": [[format_time(start), format_time(end)] for start, end in summary.gaps],
        "usage": [{**line.names, **_exact(line.used)} for line in summary.lines],
        "total": _exact(summary.total),
    }


def print_changes(
    config_maps: Sequence[Mapping[str, Value]],
    options: argparse.Namespace,
    findings: Sequence[LocatedFinding],
    streams: Streams,
) -> None:
    """Print which pods were translated in the days of the books."""
    read = map(read_changes, config_maps)
    changes = [
        (change, number)
        for change, number in sum_changes(each for each in read if each is not None)
        if options.only in ("", change.namespace)
    ]
    if options.output == "csv":
        records = [[*ChangedPods._fields, "pods"], *([*each, f"{n}"] for each, n in changes)]
        write_data(streams.out, make_printable("".join(map(make_csv_line, records))))
        return
    if options.output != "text":
        data = [{**change._asdict(), "pods": number} for change, number in changes]
        shown: dict[str, object] = {"changes": data, **output.findings_as_data(findings)}
        output.print_value(shown, options.output, streams.out)
        return
    rows = [(e.namespace, e.owner, f"{number:,}", e.claims) for e, number in changes]
    table = align_columns([("NAMESPACE", "OWNER", "PODS", "CLAIMS OF EACH"), *rows])
    output.write_lines(table, streams.out)


def _exact(used: UsedAmount) -> dict[str, object]:
    """Return exact fractions as text, and the device-hours as a number."""
    return {
        "deviceHours": float(used.devices / _HOUR),
        "deviceSeconds": f"{used.devices}",
        "unknownDeviceSeconds": f"{used.unknown}",
        "memoryByteSeconds": f"{used.memory}",
    }
