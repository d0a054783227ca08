"""`drawbridge audit`: what would happen to this cluster in a migration, and in which order.

Decides about the pods and workloads that exist, with the code of admission, for the cluster whose
device plugins are replaced. It keeps no record: restarts, dry runs and the number of replicas do
not change it.
"""

import argparse
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Final, NamedTuple

import msgspec

from cli.comparison.clusters import add_clusters_option, names_several, print_comparison
from cli.input.admission_decisions import decide_with
from cli.input.audited_cluster import ClusterRead, read_audited, select_recent
from cli.input.cluster_objects import ClusterObjects
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates
from cli.input.live_cluster import ClusterReadError
from cli.simulation.pod_allocators import find_cluster_nodes, find_pod_allocators
from cli.terminal import output
from cli.terminal.cluster_options import LIVE, VERSION, add_shared_options
from cli.terminal.durations import parse_duration, parse_time
from cli.terminal.exit_codes import BAD, DONE, exit_code
from cli.terminal.printable import make_printable
from cli.terminal.streams import Streams, write_data
from drawbridge.audit.compose import AskFit, DecisionsByFacts, Future, compose_audit, foresee
from drawbridge.audit.fit import RunningPods
from drawbridge.audit.model import Audit
from drawbridge.audit.objects import namespace_of
from drawbridge.audit.written_as_csv import write_csv
from drawbridge.audit.written_as_html import write_html
from drawbridge.audit.written_as_text import summarize, write_text
from drawbridge.brief import Brief
from drawbridge.config.model import Configuration
from drawbridge.documents.document import LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.dra.counted import count_noun
from drawbridge.dra.gates import Gates
from drawbridge.ledger.devices_of_nodes import ServingNodes
from drawbridge.ledger.still_fits import StillFits, nodes_after, still_fits
from drawbridge.names import DUAL_LABEL
from drawbridge.process.alarm import cut_after
from drawbridge.report.events import time_of_event
from drawbridge.report.tables import escape_unprintable

EXIT_CODES = {
    DONE: "printed",
    BAD: "a cluster, what every audit needs of it, a part of the files or the configuration cannot"
    " be read, or bad input",
}
_WRITERS: Final = {"csv": write_csv, "html": write_html}
# As in a copy of the webhook.
_SECONDS_OF_A_POD: Final = 2.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the part of it, and the output."""
    parser.add_argument(
        "only",
        metavar="NAMESPACE",
        nargs="?",
        help="only the pods of this namespace, without node groups and plan (default: the cluster)",
    )
    parser.add_argument(
        "--since",
        metavar="DURATION",
        type=parse_duration,
        help="only pods that were created, and refusals, in so long, for example 1h, without node"
        " groups and plan (default: all that exist)",
    )
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="print what each step of the plan does to whom, as it was rehearsed",
    )
    add_shared_options(parser, "--cluster")
    add_clusters_option(parser)
    add_shared_options(parser, *LIVE, "--config", *VERSION)
    output.add_detail_options(parser)
    output.add_format_option(parser, "text", "json", "yaml", "csv", "html")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the audit, or a row of each of several clusters."""
    if names_several(options):
        rows = print_comparison(options, streams)
        return BAD if rows is None or any(each.error for each in rows) else DONE
    if not options.cluster and options.context is None:
        options.context = ""
    live = options.context is not None and not options.cluster
    configuration, findings = read_effective_configuration(options, streams, asks_cluster=live)
    if configuration is None:
        return output.print_unreadable(findings, options, streams)
    report = output.progress_writer(options, streams)
    try:
        read = read_audited(options, streams, configuration.scope, report)
    except ClusterReadError as error:
        report("")
        return output.print_unreadable([*findings, error.located], options, streams)
    enabled = choose_gates(options, read.version, keeps=read.keeps)
    if not isinstance(enabled, Gates):
        report("")
        return output.print_unreadable(enabled, options, streams)
    with cut_after(_SECONDS_OF_A_POD) as brief:
        given = AuditInput(read, configuration, enabled, report, brief)
        audit = audit_cluster(options, given)
    report("")
    # What may not be read is an info, and must be known.
    shown = (*findings, *read.findings)
    output.print_findings(
        output.select_findings(shown, quiet=options.quiet, verbose=True), streams.err
    )
    _print(audit, shown, options, streams)
    return exit_code(shown)


class AuditInput(NamedTuple):
    """What the audit is computed from."""

    read: ClusterRead
    configuration: Configuration
    gates: Gates
    report: Callable[[str], None]
    brief: Brief = Brief()


def audit_cluster(options: argparse.Namespace, given: AuditInput) -> Audit:
    """Return the audit of the cluster, or of the part that the options name."""
    objects, configuration, gates = given.read.objects, given.configuration, given.gates
    given.report("reading the devices")
    future = foresee(objects, configuration, gates)
    decisions = DecisionsByFacts(
        decide_with(configuration, future.facts_now),
        decide_with(configuration, future.facts),
        given.brief,
    )
    is_part = bool(options.only) or options.since is not None
    if options.since is not None:
        start = datetime.now(UTC) - timedelta(seconds=options.since)
        objects = select_recent(objects, lambda value: _is_recent(value, start))
    number = f"{len(objects.pods):,}"
    audit = compose_audit(
        objects,
        future,
        decisions,
        configuration,
        gates,
        ask_fit=None if is_part else _ask(given, future),
        progress=lambda done: given.report(f"{done:,} of {number} pods"),
    )
    read = {each.name for each in given.read.objects.namespaces}
    read.update(map(namespace_of, given.read.objects.pods))
    return audit if options.only in {None, *read} else _note_unknown(audit, options.only)


def _note_unknown(audit: Audit, namespace: str) -> Audit:
    missing = f"No namespace {namespace} was read, nor a pod in it: its name may be wrong."
    return msgspec.structs.replace(audit, notes=(*audit.notes, missing))


def _ask(given: AuditInput, future: Future) -> AskFit:
    """Return what asks the solver about the cluster after the migration."""
    objects, after, gates = given.read.objects, future.prediction, given.gates
    cluster = ClusterObjects(
        after.slices, after.classes, nodes=after.nodes, others=given.read.namespaces
    )
    devices = ServingNodes(
        find_cluster_nodes(after.nodes, cluster, gates, given.configuration.legacy),
        find_pod_allocators(cluster, gates, given.configuration, future.facts),
        objects.claims,
        objects.templates,
    )
    return AskFit(
        lambda running, kept: _place(running, kept, given, future),
        devices.find,
        _rehearsing(given.report),
    )


def _rehearsing(report: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a function that tells how far the rehearsal is, and about how long it still takes."""
    start = monotonic()

    def tell(done: int, total: int) -> None:
        left = (monotonic() - start) / done * (total - done) if done else 0.0
        more = f", less than {count_noun(int(left // 60) + 1, 'minute')} left" if done else ""
        report(f"rehearsed {done:,} of {total:,} nodes{more}")

    return tell


def _place(
    running: RunningPods, kept: Collection[str], given: AuditInput, future: Future
) -> StillFits:
    """Simulate whether the running pods fit after the migration. `kept` nodes keep their plugin."""
    objects, after, gates = given.read.objects, future.prediction, given.gates
    replaced = frozenset(name for names in after.replaced.values() for name in names)
    nodes = nodes_after(objects.nodes, kept, replaced, DUAL_LABEL)
    namespaces = given.read.namespaces
    cluster = ClusterObjects(after.slices, after.classes, nodes=nodes, others=namespaces)
    return still_fits(
        running.pods,
        find_cluster_nodes(nodes, cluster, gates, given.configuration.legacy),
        find_pod_allocators(cluster, gates, given.configuration, future.facts),
        objects.claims,
        (*objects.templates, *running.templates),
        progress=lambda done, total: given.report(f"{done:,} of {total:,} placements"),
    )


def _is_recent(value: Value, start: datetime) -> bool:
    is_event = get_value(value, ("kind",)) == "Event"
    text = time_of_event(value) if is_event else get_value(value, ("metadata", "creationTimestamp"))
    time = parse_time(text)
    return time is not None and time >= start


def _print(
    audit: Audit,
    findings: Iterable[LocatedFinding],
    options: argparse.Namespace,
    streams: Streams,
) -> None:
    if options.output in _WRITERS:
        text = "".join(_WRITERS[options.output](audit))
        # A table is read by persons, too; the page escapes what it shows.
        write_data(streams.out, make_printable(text) if options.output == "csv" else text)
        return
    if options.output != "text":
        data = msgspec.to_builtins(audit) | output.findings_as_data(findings)
        output.print_value(data, options.output, streams.out)
        return
    written = write_text(
        audit, options.only or "", verbose=options.verbose, rehearse=options.rehearse
    )
    lines = [summarize(audit), "", *written]
    streams.out.writelines(f"{escape_unprintable(line)}\n" for line in lines)
