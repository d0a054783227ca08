"""`make demo`: the main job on the samples of examples/, no cluster needed.

Draws a sample cluster, judges it, translates the legacy examples for it and places their pods.
Knows nothing of what it shows: that is read, judged, translated, placed and drawn by the packages.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from cli import output, simulate
from cli.input_files import read, sources
from cli.lint import ERRORS, exit_code, judged
from cli.main import BROKEN_PIPE
from cli.sample_report import Ground, example
from cli.simulation_input import scene
from cli.streams import Streams, of_process
from cli.world import World, world
from config.model import Configuration
from documents.document import Source
from documents.read import objects
from dra.inventory import Memo, inventory
from facts.gather import Objects, gather
from ledger.planner import Object, Planner
from report import inventory as drawing
from report.tables import ASCII, UNICODE, table, tree
from translate.pods import given

SAMPLES = Path(__file__).parent.parent / "examples" / "inventory"
LEGACY = SAMPLES.parent / "legacy"
BOLD, PLAIN = "\033[1m", "\033[0m"


def draw(samples: World, streams: Streams) -> None:
    """Print the first node as a tree, and the pools of all."""
    whole, memo = inventory(samples.slices, samples.taint_rules), Memo()
    glyphs = UNICODE if streams.unicode else ASCII
    for each in samples.nodes[:1]:
        heading, *lines = tree(drawing.node(whole, each, memo), glyphs)
        _section(heading, lines, streams)
    _section("Pools", table(drawing.pools(whole, samples.nodes, memo)), streams)


def carry(folder: Path, samples: World, legacy: Path, streams: Streams) -> None:
    """Print what each legacy manifest becomes on the samples in `folder`, and where it runs."""
    _section("Legacy manifests, each on the empty sample cluster", [], streams)
    ground = _ground(folder, samples, streams)
    for source in sources([str(legacy)], streams.stdin):
        if isinstance(source, Source):
            lines = example(Path(source.name).stem, objects(source), ground)
            streams.out.writelines(f"{line}\n" for line in lines)


def _ground(folder: Path, samples: World, streams: Streams) -> Ground:
    parser = argparse.ArgumentParser()
    simulate.arguments(parser)
    cluster = scene(parser.parse_args(["--cluster", str(folder)]), streams).cluster
    planner = Planner()
    several: tuple[tuple[Object, ...], ...] = (
        samples.slices, samples.taint_rules, samples.classes, samples.nodes,
    )  # fmt: skip
    for each in chain.from_iterable(several):
        planner.put(each)
    counted = gather(Objects(samples.slices, samples.classes, samples.nodes)).facts
    return Ground(given(Configuration(), counted), planner, cluster)


def _section(heading: str, lines: Sequence[str], streams: Streams) -> None:
    streams.out.write(f"\n{BOLD}{heading}{PLAIN}\n" if streams.color else f"\n{heading}\n")
    streams.out.writelines(f"{line}\n" for line in lines)


def run(streams: Streams, folder: Path = SAMPLES, legacy: Path = LEGACY) -> int:
    """Show the samples in `folder`; 2 when something is wrong with them."""
    documents = tuple(read([str(folder)], streams.stdin))
    samples, findings = world(documents), judged(documents, Configuration())
    devices = sum(len(each.devices) for each in samples.slices)
    pools = {(each.driver, each.pool) for each in samples.slices}
    streams.out.write(
        f"The sample inventory: {len(samples.nodes)} nodes, {len(samples.slices)} slices,"
        f" {devices} devices in {len(pools)} pools. The first node of it:\n"
    )
    draw(samples, streams)
    if findings:
        _section("Findings", [], streams)
        output.findings(findings, streams.out, color=streams.color)
    carry(folder, samples, legacy, streams)
    return ERRORS if exit_code(each.finding for each in findings) == ERRORS else 0


if __name__ == "__main__":
    try:
        code = run(of_process(os.environ))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever pages through it went away; what the interpreter flushes at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = BROKEN_PIPE
    sys.exit(code)
