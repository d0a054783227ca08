"""`drawbridge simulate --adjust`: whether an allocation could grow, and what would have to go.

Only answers: an allocation never changes in place.
"""

import argparse
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from cli.input import codes as input_codes
from cli.simulation.input import SimulationInput, read_input
from cli.simulation.placements import format_reasons
from cli.simulation.preemption import find_evictable
from cli.simulation.schedulers import find_schedulers
from cli.terminal import output
from cli.terminal.exit_codes import BAD, DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.documents.document import LocatedFinding, has_errors
from drawbridge.dra.allocation import to_json
from drawbridge.dra.counted import list_some
from drawbridge.dra.quantity import QuantityError, parse
from drawbridge.ledger.adjustment import (
    Adjustment,
    AllocatedCluster,
    Growth,
    NotAdjustableError,
    adjust,
)
from drawbridge.ledger.removals import find_holds

_MOST_NODES: Final = 8


def add_options(group: argparse._ArgumentGroup) -> None:
    """Declare the claim, and what it should have."""
    text = "whether an allocated claim could have more on its node; what would have to go"
    group.add_argument("--adjust", metavar="CLAIM", help=text)
    text = "with --adjust: as many devices in total"
    group.add_argument("--count", metavar="N", type=int, help=text)
    text = "with --adjust: as much of a capacity of each device, for example memory=40Gi"
    group.add_argument("--capacity", metavar="NAME=AMOUNT", help=text)
    text = "with --adjust: the request of the claim (default: its only one)"
    group.add_argument("--request", metavar="NAME", help=text)


def answer(options: argparse.Namespace, streams: Streams) -> int:
    """Print the answer: 0 if the claim could have as much on its node, 1 if not."""
    if (options.count is None) is (options.capacity is None):
        streams.err.write("simulate: --adjust needs either --count or --capacity\n")
        return BAD
    inputs = read_input(options, streams)
    findings = list(inputs.findings)
    adjustment = None
    try:
        if not has_errors(findings):
            adjustment = _find_answer(options, inputs)
    except (NotAdjustableError, QuantityError) as error:
        problem = input_codes.CLAIM_NOT_ADJUSTABLE.at("", f"{error}")
        findings.append(LocatedFinding(problem))
    if adjustment is None:
        return output.print_unreadable(findings, options, streams)
    output.print_findings(findings, streams.err)
    data = _as_data(adjustment) | output.findings_as_data(findings)
    output.print_answer(options.output, data, _format(adjustment), streams.out)
    return DONE if adjustment.fits else NOTICE


def _find_answer(options: argparse.Namespace, inputs: SimulationInput) -> Adjustment:
    namespace, _, name = options.adjust.rpartition("/")
    full_name = f"{namespace or options.namespace or inputs.namespace or 'default'}/{name}"
    schedulers = find_schedulers(inputs)
    placer = schedulers.new_placer()
    claims = placer.claims
    planner, nodes = schedulers.world_of(schedulers.used[0])
    running = find_evictable(inputs, []).running
    cluster = AllocatedCluster(
        planner, placer.ledger, nodes.nodes, claims, find_holds(claims), running
    )
    return adjust(full_name, _growth(options), cluster)


def _growth(options: argparse.Namespace) -> Growth:
    if options.count is not None:
        return Growth(options.request or "", count=options.count)
    name, _, amount = options.capacity.partition("=")
    return Growth(options.request or "", capacity=name, amount=parse(amount))


def _format(answer: Adjustment) -> Iterator[str]:
    if answer.fits:
        how = "with all its devices" if answer.keeps else "with other devices"
        yield f"{answer.claim}: fits on {answer.node}, {how}"
    else:
        most = f"at most {answer.most}" if answer.most else "not even what it has"
        yield f"{answer.claim}: does not fit on {answer.node}: {most} fits there"
        yield from format_reasons(answer.reasons, "  ")
        if answer.without:
            yield f"  would fit without {', '.join(answer.without)}"
        elif not answer.cut:
            yield "  no pods of the node would have to go for it: they are not enough"
        if answer.elsewhere:
            yield f"  would fit on {list_some(answer.elsewhere, _MOST_NODES, 'node')}"
        if answer.cut:
            yield "  the search ended early: fewer pods may be enough, and more nodes"
    yield "Note: an allocation never changes. A new claim would have to take the place of this one."


def _as_data(answer: Adjustment) -> dict[str, Any]:
    return {
        "claim": answer.claim,
        "node": answer.node,
        "fits": answer.fits,
        "keepsDevices": answer.keeps,
        "allocation": None if answer.allocation is None else to_json(answer.allocation),
        "most": answer.most,
        "without": None if answer.without is None else list(answer.without),
        "elsewhere": list(answer.elsewhere),
        "cut": answer.cut,
        "reasons": [msgspec.to_builtins(each) for each in answer.reasons],
    }
