"""`make demo`: the main job on the sample inventory of examples/, no cluster needed.

Draws what the samples hold, judges them and places the sample pods on them. Knows nothing of what
it shows: that is read, judged, placed and drawn by the rooms.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cli import placements, show, simulate
from cli.lint import ERRORS, exit_code, judged
from cli.reading import read
from cli.scene import scene
from cli.streams import Streams, of_process
from cli.world import World, world
from config.model import Configuration
from dra.cel.device import view
from dra.cel.errors import CompileError, EvaluationError
from dra.cel.verdict import Selectors
from dra.classes import DeviceClass
from dra.device import Device
from dra.inventory import Memo, inventory
from see import inventory as drawing
from see.text import ASCII, UNICODE, table, tree

SAMPLES = Path(__file__).parent.parent / "examples" / "inventory"
PODS = SAMPLES.parent / "pods"
BOLD, PLAIN = "\033[1m", "\033[0m"


def draw(samples: World, streams: Streams) -> None:
    """Print the nodes as trees, the pools and the classes."""
    whole, memo = inventory(samples.slices, samples.taint_rules), Memo()
    for each in samples.nodes:
        heading, *lines = tree(
            drawing.node(whole, each, memo), UNICODE if streams.unicode else ASCII
        )
        _section(heading, lines, streams)
    _section("Pools", table(drawing.pools(whole, samples.nodes, memo)), streams)
    counted = {each.metadata.name: count(each, samples) for each in samples.classes}
    _section("Classes", table(drawing.classes(samples.classes, counted)), streams)


def count(offered: DeviceClass, samples: World) -> str:
    """How many devices a class selects, as far as its expressions can be evaluated."""
    selectors = Selectors()
    texts = [selector.cel.expression for selector in offered.spec.selectors if selector.cel]
    devices = [(each.driver, device) for each in samples.slices for device in each.devices]
    try:
        return f"{sum(_selected(texts, selectors, *device) for device in devices)}"
    except (CompileError, EvaluationError) as error:
        return f"error: {error}"


def _selected(texts: Sequence[str], selectors: Selectors, driver: str, device: Device) -> bool:
    seen = view(driver, device, list_attributes=selectors.lists)
    return all(selectors.stored.compile(text).evaluate(seen).value is True for text in texts)


def place(folder: Path, streams: Streams) -> None:
    """Print which devices of the samples in `folder` the sample pods get, and why one gets none."""
    parser = argparse.ArgumentParser()
    simulate.arguments(parser)
    options = parser.parse_args(["--cluster", str(folder), "-f", str(PODS)])
    went = simulate.simulated(scene(options, streams))
    lines = [line for each in went.done for line in placements.lines(each)]
    _section("Pods, one after the other", lines, streams)


def _section(heading: str, lines: Sequence[str], streams: Streams) -> None:
    streams.out.write(f"\n{BOLD}{heading}{PLAIN}\n" if streams.color else f"\n{heading}\n")
    streams.out.writelines(f"{line}\n" for line in lines)


def run(streams: Streams, folder: Path = SAMPLES) -> int:
    """Show the samples in `folder`; 2 when something is wrong with them."""
    documents = tuple(read([str(folder)], streams.stdin))
    samples, findings = world(documents), judged(documents, Configuration())
    devices = sum(len(each.devices) for each in samples.slices)
    pools = {(each.driver, each.pool) for each in samples.slices}
    streams.out.write(
        f"The sample inventory: {len(samples.nodes)} nodes, {len(samples.slices)} slices,"
        f" {devices} devices in {len(pools)} pools.\n"
    )
    draw(samples, streams)
    _section("Findings", [] if findings else ["none"], streams)
    show.findings(findings, streams.out, color=streams.color)
    place(folder, streams)
    return ERRORS if exit_code(each.finding for each in findings) == ERRORS else 0


if __name__ == "__main__":
    sys.exit(run(of_process(os.environ)))
