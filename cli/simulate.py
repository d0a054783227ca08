"""`drawbridge simulate`: who would get which devices, pod after pod, and why not.

Reads files, lets the allocator place pods in memory, prints. Exit code 0 when all are placed, 1
when some are not, 2 with bad input. Places nothing itself, and writes nothing anywhere.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from msgspec import structs

from cli import config, output, placements
from cli.simulation_input import Scene, chosen, scene
from cli.streams import Streams
from config.policy import declarations, treated
from documents.document import Located
from dra import gates
from dra.claim import Claim
from dra.compatibility import UnsetGroups
from dra.finding import Severity
from ledger import codes, node_fit
from ledger.audit import audit
from ledger.ledger import Ledger, name_of
from ledger.placing import Placement, Placing
from ledger.planner import Object, Planner
from solver.world import World

NAME = "simulate"
HELP = "place pods on the nodes of a cluster in memory: who gets which devices, and why not"

PLACED, SOME_NOT, BAD = 0, 1, 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the cluster, the pods, and what narrows them."""
    parser.add_argument(
        "--cluster",
        "--inventory",
        metavar="PATH",
        nargs="+",
        action="extend",
        default=[],
        help="files and folders with Nodes, ResourceSlices, DeviceClasses, claims, templates",
    )
    parser.add_argument(
        "-f",
        "--filename",
        metavar="FILE|DIR|-",
        action="append",
        default=[],
        help="the pods to place, with their claims and templates; may be given several times",
    )
    config.option(parser)
    parser.add_argument("--node", metavar="N", help="place on this node or not at all")
    text = "place these claims (namespace/name,...) together, as one pod's, instead of pods"
    parser.add_argument("--claims", metavar="NAMES", help=text)
    text = f"the version of the scheduler (default: {gates.NEWEST})"
    parser.add_argument("--kubernetes-version", metavar="V", default=gates.NEWEST, help=text)
    text = "the gates that the cluster has turned on or off (NAME=true,...)"
    parser.add_argument("--feature-gates", metavar="GATES", default="", help=text)
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text", help="format")


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Place what was asked for, print it, and say how it went."""
    given = scene(options, streams)
    went = simulated(given, options.claims)
    told = audit(went.ledger, went.world)
    if options.output == "json":
        # The form of the answer is fixed: what is wrong with documents is told beside it.
        output.findings(went.findings, streams.err)
        output.value(placements.plain(went.done, went.ledger, told), "json", streams.out)
    else:
        output.findings(went.findings, streams.out, color=streams.color)
        inventory, nodes = went.world.inventory, given.cluster.nodes
        lines = chain(
            *map(placements.lines, went.done),
            placements.pictures(went.done, went.ledger, inventory, nodes, unicode=streams.unicode),
            placements.audited(told),
            ["", placements.NOTE] if went.done else [],
        )
        streams.out.writelines(f"{line}\n" for line in lines)
    if any(each.finding.severity is Severity.ERROR for each in went.findings):
        return BAD
    return PLACED if all(each.node is not None for each in went.done) else SOME_NOT


@dataclass(frozen=True)
class Simulation:
    """What became of everything, and what there was to say."""

    done: tuple[Placement, ...]
    ledger: Ledger
    world: World
    findings: tuple[Located, ...]


def simulated(given: Scene, names: str | None = None) -> Simulation:
    """Place the pods of a scene, or instead the claims named."""
    planner = _planner(given)
    ledger = Ledger(sharing=given.gates.consumable_capacity)
    # In files a claim is its name: a copy with another name often has the UID of the original.
    claims = {name_of(each): _unidentified(each) for each in given.world.claims}
    written = [(each, given.beside.allocations.get(name)) for name, each in claims.items()]
    placing = Placing(planner, ledger, given.cluster, written, given.world.templates)
    findings = list(given.findings)
    done = tuple(_placed(given, names, placing, findings))
    treated_ones = (
        replace(each, finding=finding)
        for each in findings
        for finding in treated([each.finding], given.configuration.findings)
    )
    return Simulation(done, ledger, planner.world(), tuple(treated_ones))


def _planner(given: Scene) -> Planner:
    planner = Planner(
        given.gates,
        compatibility=declarations(given.configuration),
        unset_groups=_unset(given),
    )
    files = given.world
    several: tuple[tuple[Object, ...], ...] = (
        files.slices, files.taint_rules, files.classes, files.nodes,
    )  # fmt: skip
    for each in chain.from_iterable(several):
        planner.put(each)
    return planner


def _unidentified(claim: Claim) -> Claim:
    metadata = structs.replace(claim.metadata, uid="", resource_version="")
    return structs.replace(claim, metadata=metadata)


def _unset(given: Scene) -> UnsetGroups:
    return UnsetGroups(given.configuration.unset_groups)


def _placed(
    given: Scene, named: str | None, placing: Placing, findings: list[Located]
) -> Iterator[Placement]:
    """Place the claims named, or else each pod, one after the other."""
    if named is not None:
        names = chosen(named)
        if not names:
            findings.append(
                Located(codes.NOTHING_TO_PLACE.at("--claims", "no claim is named"), "", 0, 0)
            )
            return
        known = {name_of(each) for each in given.world.claims}
        for name in names:
            if name not in known:
                finding = codes.CLAIM_MISSING.at("--claims", f"there is no ResourceClaim {name}")
                findings.append(Located(finding, "", 0, 0))
        yield placing.claims(names, given.cluster.nodes)
        return
    if not given.pods:
        findings.append(
            Located(codes.NOTHING_TO_PLACE.at("", "there is no pod to place"), "", 0, 0)
        )
    for pod, about in given.pods:
        findings += given.world.located(node_fit.findings(pod, given.cluster, about))
        yield placing.pod(pod)
