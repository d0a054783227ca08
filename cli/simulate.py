"""`drawbridge simulate`: places pods in memory and prints which devices they get, or why not.

Reads files, or a live cluster with `--context`. The allocator of bridge placement places them with
`--allocator-url`, and in a live cluster that has one. Also answers what would have to go so that an
allocation grows, or that a pod fits.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from cli.input import allocator_api
from cli.simulation import adjustment, changes, defragmentation, placements, removals
from cli.simulation.api import ask_cluster, print_found, run_by_allocator
from cli.simulation.input import SimulationInput, read_input
from cli.simulation.placing import Simulation, simulate
from cli.simulation.schedulers import default_allocator
from cli.simulation.stages import format_stages, stages_as_data
from cli.terminal import output
from cli.terminal.cluster_options import (
    LIVE,
    VERSION,
    add_allocator_option,
    add_manifests_option,
    add_shared_options,
)
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.documents.document import has_errors
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Finding
from drawbridge.ledger.audit import audit
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.placing import report_unpublished
from drawbridge.solver.deviations import Allocator

EXIT_CODES = {
    DONE: "all pods are placed; the claim can grow; the pod fits, now or after the moves",
    NOTICE: "some pods are not placed; the claim cannot grow; no moves make the pod fit",
    BAD: "bad input",
}
_ALLOCATORS: Final = {
    Allocator.UPSTREAM: "the allocator of kube-scheduler",
    Allocator.DRAWBRIDGE: "for pods with schedulerName drawbridge",
}
# The options that have an effect on some questions only; the one without a name places pods.
_OPTIONS: Final = {
    "": (
        "allocator", "allocator_url", "claims", "devices", "more_nodes", "node", "preempt",
        "stages", "taint", "without",
    ),
    "adjust": ("adjust", "count", "capacity", "request", "namespace"),
    "defrag": ("defrag", "hold", "namespace"),
}  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the pods and the output format."""
    add_manifests_option(parser, required=False)
    add_shared_options(parser, "--cluster", "--config")
    _add_placement_options(parser)
    add_shared_options(parser, "--namespace")
    questions = parser.add_argument_group("instead of placing pods")
    adjustment.add_options(questions)
    defragmentation.add_options(questions)
    output.add_format_option(parser, "text", "json", "yaml")


def _add_placement_options(parser: argparse.ArgumentParser) -> None:
    """Declare what is placed where, and the allocator that does it."""
    add_allocator_option(parser)
    parser.add_argument("--node", metavar="N", help="place on this node only")
    text = "place these claims (namespace/name,...) instead of pods, together as for one pod"
    parser.add_argument("--claims", metavar="NAMES", help=text)
    text = "let pods evict pods with a lower priority in the simulation, as kube-scheduler does"
    parser.add_argument("--preempt", action="store_true", help=text)
    add_shared_options(parser, "--stages")
    changes.add_options(parser)
    add_shared_options(parser, *VERSION)
    allocator_api.add_options(parser)
    add_shared_options(parser, *LIVE)
    # Other commands that simulate can leave out the pods of a live cluster.
    parser.set_defaults(pods=True)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Place the pods and print the placements, or answer the question."""
    asked = next((name for name in ("adjust", "defrag") if getattr(options, name) is not None), "")
    if misused := _find_misused(options, asked):
        instead = f"with --{asked}" if asked else "without a question that takes it"
        streams.err.write(f"simulate: --{misused.replace('_', '-')} has no meaning {instead}\n")
        return BAD
    if asked:
        options.preempt = True  # reads priorities and budgets
        question = adjustment.answer if asked == "adjust" else defragmentation.answer
        return question(options, streams)
    before = read_input(options, streams)
    inputs = changes.change_cluster(before, options)
    told = inputs.findings[len(before.findings) :]
    if has_errors(told):
        # Placements in a cluster without the change would pass for an answer.
        errors = output.select_findings(inputs.findings, quiet=True)
        return output.print_unreadable(errors, options, streams)
    if options.allocator_url:
        return run_by_allocator(options, inputs, streams)
    not_asked = ""
    if inputs.is_live and default_allocator(inputs.configuration) is Allocator.DRAWBRIDGE:
        answer = ask_cluster(options, inputs)
        if not answer.not_asked:
            return print_found(options, inputs, answer, streams)
        not_asked = answer.not_asked
    names = removals.names_of_pods(removals.read_removals(options))
    fewest = tuple(changes.find_fewest_pods(before, names)) if names else ()
    return _place_here(options, inputs, not_asked, fewest, streams)


def _find_misused(options: argparse.Namespace, asked: str) -> str:
    """Return an option that has no effect on what is asked; empty if all have one."""
    of_all = chain.from_iterable(_OPTIONS.values())
    given = (
        each
        for each in of_all
        if each not in _OPTIONS[asked] and getattr(options, each) not in (None, False, [])
    )
    return next(given, "")


def _place_here(
    options: argparse.Namespace,
    inputs: SimulationInput,
    not_asked: str,
    fewest: tuple[changes.FewestPods, ...],
    streams: Streams,
) -> int:
    """Place the pods in this process, and print the placements."""
    allocator = options.allocator and Allocator(options.allocator)
    result = simulate(
        inputs, options.claims, allocator, preempt=options.preempt, by_stage=options.stages
    )
    audit_findings = (
        *audit(result.ledger, result.world, inputs.objects.claims),
        *report_unpublished(result.placements),
    )
    if options.output != "text":
        output.print_findings(result.findings, streams.err)
        written = {
            name_of(claim): (claim.status.allocation, inputs.details.allocations[name_of(claim)])
            for claim in inputs.objects.claims
            if name_of(claim) in inputs.details.allocations
        }
        data = placements.placements_as_data(result.entries, result.ledger, audit_findings, written)
        data = {"allocator": result.allocators[0].value, **data}
        if options.stages:
            data = {**data, "stages": stages_as_data(result.stages)}
        if removals.names_of_pods(removals.read_removals(options)):
            data = {**data, "fewestPods": changes.fewest_as_data(fewest)}
        if not_asked:
            data = {**data, "allocatorNotAsked": not_asked}
        data |= output.findings_as_data(result.findings)
        output.print_value(data, options.output, streams.out)
    else:
        output.print_findings(result.findings, streams.out, color=streams.color)
        output.write_lines(_text(result, inputs, audit_findings, streams), streams.out)
        output.write_lines(changes.format_fewest(fewest), streams.out)
        if not_asked and result.placements:
            streams.out.write(f"The allocator of the cluster was not asked: {not_asked}\n")
    if has_errors(result.findings):
        return BAD
    return DONE if all(map(placements.is_placed, result.entries)) else NOTICE


def _text(
    result: "Simulation",
    inputs: SimulationInput,
    audit_findings: Sequence[Finding],
    streams: Streams,
) -> Iterator[str]:
    yield from placements.format_entries(result.entries)
    yield from format_stages(result.stages)
    yield from placements.draw_nodes(
        result.placements,
        result.ledger,
        result.world.inventory,
        inputs.cluster.nodes,
        unicode=streams.unicode,
    )
    yield from placements.format_audit(audit_findings)
    if result.placements:
        placed, total = placements.count_placed(result.entries)
        yield ""
        if len(result.entries) > 1:
            verb = "is" if placed == 1 else "are"
            yield f"{placed:,} of {count_noun(total, 'pod')} {verb} placed."
        yield from _name_allocators(result.allocators)
        yield placements.DEVICES_NOTE if inputs.running is None else placements.NOTE


def _name_allocators(used: Sequence[Allocator]) -> Iterator[str]:
    first, *others = used
    yield f"Allocator: {first}, {_ALLOCATORS[first]}."
    yield from (f"Allocator: {each}, {_ALLOCATORS[each]}, for other pods." for each in others)
