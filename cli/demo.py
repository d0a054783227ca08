"""`make demo`: shows Drawbridge on the sample cluster and manifests in examples/.

Prints a sample inventory and its findings, translates each legacy manifest for it, and places the
pods in memory. Needs no cluster.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.checking.findings import check_manifests
from cli.checking.input import of_manifests
from cli.input.cluster_objects import ClusterObjects
from cli.input.files import read_documents, read_sources
from cli.main import BROKEN_PIPE
from cli.terminal import output
from cli.terminal.exit_codes import exit_code
from cli.terminal.streams import Streams, process_streams
from cli.translation.outcomes import Outcomes, Row, became_claims, format_rows
from cli.translation.placement_preview import PlacementPreview, make_preview
from drawbridge.config.model import Configuration
from drawbridge.documents.document import Document, Source
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.read import read_objects
from drawbridge.dra.gates import DEFAULTS
from drawbridge.dra.inventory import PoolCache, build_inventory
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.finding import Finding, Severity
from drawbridge.ledger.ledger import Ledger
from drawbridge.report import inventory as drawing
from drawbridge.report.tables import ASCII, UNICODE, align_columns, draw_tree
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.decisions.codes import LEFT_TO_CLASS
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object


@dataclass(frozen=True)
class SampleCluster:
    """The context of the translations, and the devices for the placements."""

    context: TranslationContext
    preview: PlacementPreview


def describe_example(
    name: str, documents: Iterable[Document], cluster: SampleCluster
) -> Iterator[str]:
    """Yield the lines for the file `name`, object by object; the file starts with empty nodes."""
    ledger = cluster.preview.new_ledger()
    for document in documents:
        if document.empty:
            continue
        yield f"{name}: {document.name}"
        if document.findings:
            yield from (f"  {each.finding.message}" for each in document.findings)
            continue
        result = translate_object(document.value, document.name, cluster.context)
        yield from format_rows(_describe_object(document, result, ledger, cluster))


def _describe_object(
    document: Document, result: TranslatedObject, ledger: Ledger, cluster: SampleCluster
) -> list[Row]:
    asked = Outcomes(cluster.context).asked(document.value)
    rows = [("requests", "; ".join(asked) or "no devices")]
    rows += [("claim", line) for line in became_claims(result.templates)]
    rows += [(f"{each.severity}", f"{each.message} [{each.code}]") for each in _shown(result)]
    if not any(each.severity is Severity.ERROR for each in result.findings):
        after = apply_edits(document.value, result.edits)
        rows += cluster.preview.place(document, after, result.templates, ledger)
    return rows


def _shown(result: TranslatedObject) -> Iterator[Finding]:
    """Yield warnings and errors, and the info that a DeviceClass serves the request."""
    for finding in result.findings:
        if finding.severity is not Severity.INFO or finding.code == LEFT_TO_CLASS.name:
            yield finding


SAMPLES = Path(__file__).parent.parent / "examples" / "inventory"
LEGACY = SAMPLES.parent / "legacy"
BOLD, PLAIN = "\033[1m", "\033[0m"


def print_inventory(samples: ClusterObjects, streams: Streams) -> None:
    """Print the first node as a tree, and a table of all pools."""
    inventory, cache = build_inventory(samples.slices, samples.taint_rules), PoolCache()
    glyphs = UNICODE if streams.unicode else ASCII
    for node in samples.nodes[:1]:
        heading, *lines = draw_tree(drawing.draw_node(inventory, node, cache), glyphs)
        _print_section(heading, lines, streams)
    _print_section(
        "Pools", align_columns(drawing.pool_table(inventory, samples.nodes, cache)), streams
    )


def print_translations(samples: ClusterObjects, legacy: Path, streams: Streams) -> None:
    """Print the claims and the placement of each legacy manifest on the sample cluster."""
    _print_section("Legacy manifests, each on the empty sample cluster", [], streams)
    cluster = _sample_cluster(samples)
    for source in read_sources([str(legacy)], streams.stdin):
        if isinstance(source, Source):
            lines = describe_example(Path(source.name).stem, read_objects(source), cluster)
            streams.out.writelines(f"{line}\n" for line in lines)


def _sample_cluster(samples: ClusterObjects) -> SampleCluster:
    configuration = Configuration()
    facts = gather_facts(FactsInput(samples.slices, samples.classes, samples.nodes)).facts
    preview = make_preview(samples, DEFAULTS, configuration)
    return SampleCluster(make_context(configuration, facts), preview)


def _print_section(heading: str, lines: Sequence[str], streams: Streams) -> None:
    streams.out.write(f"\n{BOLD}{heading}{PLAIN}\n" if streams.color else f"\n{heading}\n")
    streams.out.writelines(f"{line}\n" for line in lines)


def run(streams: Streams, folder: Path = SAMPLES, legacy: Path = LEGACY) -> int:
    """Run the demo on the cluster in `folder`; 2 if the samples have errors."""
    documents = tuple(read_documents([str(folder)], streams.stdin))
    given = of_manifests(documents, Configuration())
    samples, findings = given.files, check_manifests(given)
    devices = sum(len(each.devices) for each in samples.slices)
    pools = {(each.driver, each.pool) for each in samples.slices}
    streams.out.write(
        f"Sample inventory: {len(samples.nodes)} nodes, {len(samples.slices)} slices,"
        f" {devices} devices in {len(pools)} pools. The first node:\n"
    )
    print_inventory(samples, streams)
    if findings:
        _print_section("Findings", [], streams)
        output.print_findings(findings, streams.out, color=streams.color)
    print_translations(samples, legacy, streams)
    return exit_code(findings)


if __name__ == "__main__":
    try:
        code = run(process_streams(os.environ))
        sys.stdout.flush()
    except BrokenPipeError:
        # The pager closed the pipe. Discard what the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = BROKEN_PIPE
    sys.exit(code)
