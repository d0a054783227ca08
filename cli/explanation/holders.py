"""Who holds devices, for `drawbridge explain`: of the cluster, of a node, or one device."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from cli.explanation.held_objects import NodeObjects, read_held
from cli.input import codes
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.durations import format_age
from cli.terminal.exit_codes import BAD, DONE
from cli.terminal.streams import Streams
from drawbridge.documents.document import LocatedFinding, has_errors
from drawbridge.dra.counted import count_noun, list_some
from drawbridge.report.device_holders import (
    DeviceUse,
    find_holders,
    is_numbered,
    list_devices,
)
from drawbridge.report.stuck.found import Stuck, format_stuck
from drawbridge.report.tables import align_columns

# Lines of text; -o json prints all devices.
MAX_ROWS: Final = 200
HEADING: Final = ("NODE", "DEVICE", "CLAIM", "PODS", "SINCE", "AMOUNT")
_MAX_PODS, _MAX_TEXT = 4, 120


class DevicesAsked(NamedTuple):
    """What a person names: one device, all of a node, or with empty names all."""

    node: str
    device: str


def parse_devices(text: str) -> DevicesAsked | None:
    """Parse `devices`, `device/NODE` and `device/NODE/NAME`; None for anything else."""
    word, slash, name = text.partition("/")
    if word.lower() != "devices" and not (slash and word.lower() == "device"):
        return None
    node, _, device = name.partition("/")
    return DevicesAsked(node, device)


def explain_devices(named: DevicesAsked, options: argparse.Namespace, streams: Streams) -> int:
    """Print who holds the devices; the exit code is 2 if the node or device does not exist."""
    findings: list[LocatedFinding] = []
    try:
        objects = read_held(options, named.node, streams, findings)
        held = _select(objects, *named)
    except ClusterReadError as error:
        return output.print_unreadable([*findings, error.located], options, streams)
    output.print_findings(findings, streams.err)
    stuck = select_stuck(objects.stuck, held)
    data = {"devices": msgspec.to_builtins(held), "stuck": msgspec.to_builtins(stuck)}
    data |= output.findings_as_data(findings)
    lines = chain(_format(held, objects.held.unread, *named), format_stuck(stuck))
    output.print_answer(options.output, data, lines, streams.out)
    return BAD if has_errors(findings) else DONE


def _select(objects: NodeObjects, node: str, device: str) -> list[DeviceUse]:
    """Return the holders that were asked for; raises ClusterReadError for an unknown device.

    A pod of a device plugin that can have the device is one of them.
    """
    held = [each for each in find_holders(objects.held) if node in ("", each.node)]
    if not device:
        return held
    selected = [each for each in held if each.matches(device)]
    published = [
        name
        for name in list_devices(objects.held.slices, node)
        if device in (name[2], "/".join(name)) or is_numbered(name[2], device)
    ]
    candidates = [each for each in held if not each.is_known]
    is_told = selected or published or candidates or objects.held.unread
    if not is_told:
        message = f"node {node} has no device {device}"
        raise ClusterReadError(codes.DEVICE_NOT_FOUND.at("", message))
    return [*selected, *candidates]


def select_stuck(stuck: Iterable[Stuck], held: Iterable[DeviceUse]) -> tuple[Stuck, ...]:
    """Return what is stuck about those who hold devices."""
    names = {f"ResourceClaim/{each.claim}" for each in held if each.claim}
    names |= {f"Pod/{pod}" for each in held for pod in each.pods}
    return tuple(each for each in stuck if each.about & names)


def _format(
    held: Sequence[DeviceUse], unread: frozenset[str], node: str, device: str
) -> Iterator[str]:
    where = f"{node}/{device}" if device else node or "the cluster"
    if not held:
        what = "it" if device else "a device"
        is_whole = unread.isdisjoint(("ResourceClaim", "Pod"))
        nobody = "no claim and no pod" if is_whole else "nothing that you may read"
        yield f"{where}: {nobody} holds {what}"
    elif device and not any(each.is_known for each in held):
        no_claim = "no claim that you may read" if "ResourceClaim" in unread else "no claim"
        yield f"{where}: {no_claim} holds it, and a pod of a device plugin may"
    if held:
        yield from format_holders(held, datetime.now(UTC))
    unknown = sum(not each.is_known for each in held)
    if unknown:
        subject = count_noun(unknown, "pod")
        yield f"{subject} of device plugins can have any device of the plugin on the node"


def format_holders(held: Sequence[DeviceUse], now: datetime) -> Iterator[str]:
    """Format a table of the first devices."""
    yield from align_columns([HEADING, *(_row(each, now) for each in held[:MAX_ROWS])])
    if len(held) > MAX_ROWS:
        yield f"and {len(held) - MAX_ROWS:,} more; -o json prints all"


def _row(held: DeviceUse, now: datetime) -> tuple[str, ...]:
    name = "/".join(filter(None, (held.driver, held.pool, held.device)))
    identity = f" ({held.id})" if held.id not in ("", held.device) else ""
    return (
        held.node or "-",
        f"{name}{identity}",
        held.claim or "-",
        list_some(held.pods, _MAX_PODS, "pod")
        or ", ".join(f"PodGroup {each}" for each in held.groups[:_MAX_PODS])
        or "no pod",
        format_age(held.since, now) or "-",
        ", ".join(f"{key} {amount}" for key, amount in held.amounts.items() if amount)[:_MAX_TEXT],
    )
