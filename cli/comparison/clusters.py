"""Reads several clusters, one after the other or a few at once, and makes a row of each.

A cluster is audited without its plan. One that does not answer, or a dump that cannot be read, is a
row that says so. Of a dump, a ConfigMap with the configuration counts if it is among its files.
"""

import argparse
import io
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from cli.input.admission_decisions import decide_with
from cli.input.audited_cluster import ClusterRead, read_audited
from cli.input.configuration_file import read_configuration
from cli.input.effective_configuration import read_effective_configuration
from cli.input.facts_file import choose_gates
from cli.input.files import SUFFIXES
from cli.input.live_cluster import ClusterReadError
from cli.terminal import output
from cli.terminal.streams import Streams
from drawbridge.agreement.scope import decide_namespace_scope
from drawbridge.audit.clusters import ClusterRow, add_counts, rank_clusters, write_clusters
from drawbridge.audit.compose import DecisionsByFacts, compose_audit, foresee
from drawbridge.audit.objects import AuditedNamespace, text_at
from drawbridge.config.model import Configuration, Scope
from drawbridge.documents.codes import FILE_UNREADABLE
from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list
from drawbridge.dra.gates import Gates
from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONFIGURATION_KEY,
    WEBHOOK_DEPLOYMENT,
)
from drawbridge.report.page.waiting import asks_for_devices, is_waiting

# Clusters that are asked at once.
_AT_ONCE: Final = 4
_DIGITS: Final = 8
_INVALID: Final = "invalid"
_USED: Final = frozenset(
    {
        *("clusters", "kubeconfig", "config", "kubernetes_version", "feature_gates"),
        *("output", "quiet", "debug", "run"),
    }
)


def add_clusters_option(parser: argparse.ArgumentParser) -> None:
    """Declare the option for a folder of dumps."""
    parser.add_argument(
        "--clusters",
        metavar="DIR",
        help="a folder with a dump of a cluster in each file or subfolder: one table, the worst"
        " first; so does --context with several names, a,b",
    )


def names_several(options: argparse.Namespace) -> bool:
    """Whether the options name several clusters."""
    return bool(options.clusters) or "," in (options.context or "")


def print_comparison(
    options: argparse.Namespace, streams: Streams
) -> tuple[ClusterRow, ...] | None:
    """Print a row of each cluster, the worst first, and return them; None for bad input.

    Raises ClusterReadError if there is no dump.
    """
    if unused := list(_find_unused(options)):
        text = f"a comparison of clusters cannot use {', '.join(unused)}"
        streams.err.write(f"drawbridge: error: {text}\n")
        return None
    rows = rank_clusters(_read_rows(options, streams))
    data = {"clusters": [msgspec.to_builtins(each) for each in rows]}
    output.print_answer(options.output, data, write_clusters(rows), streams.out)
    return rows


def _find_unused(options: argparse.Namespace) -> Iterator[str]:
    """Yield the options that were given, and that would have no effect."""
    used = _USED if options.clusters else _USED | {"context"}
    if options.output not in ("text", "json", "yaml"):
        yield f"--output {options.output}"
    for name, value in vars(options).items():
        if value and name not in used:
            yield "NAMESPACE" if name == "only" else f"--{name.replace('_', '-')}"


def _read_rows(options: argparse.Namespace, streams: Streams) -> Iterable[ClusterRow]:
    quiet = streams._replace(err=io.StringIO())
    if options.clusters:
        # One after the other: a dump takes memory, and the work needs no waiting.
        return [
            _describe(path.stem, _chosen(options, cluster=[str(path)], context=None), quiet)
            for path in find_dumps(options.clusters)
        ]
    names = [each.strip() for each in options.context.split(",")]
    chosen = [(each, _chosen(options, cluster=[], context=each), quiet) for each in names if each]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(lambda each: _describe(*each), chosen)]


def find_dumps(folder: str) -> list[Path]:
    """Return the files and subfolders that are dumps, by name; raises ClusterReadError.

    What is hidden is none.
    """
    try:
        paths = sorted(Path(folder).iterdir())
    except OSError as error:
        raise ClusterReadError(FILE_UNREADABLE.at("", f"{folder}: {error.strerror}")) from None
    dumps = [
        path
        for path in paths
        if not path.name.startswith(".") and (path.is_dir() or path.suffix in SUFFIXES)
    ]
    if not dumps:
        raise ClusterReadError(FILE_UNREADABLE.at("", f"{folder}: no dump of a cluster in it"))
    return dumps


def _chosen(options: argparse.Namespace, **changes: object) -> argparse.Namespace:
    """Return the options of one cluster, all of whose namespaces are read."""
    defaults = {"kubernetes_version": None, "feature_gates": "", "namespace": None}
    return argparse.Namespace(**{**defaults, **vars(options), "only": None, **changes})


def _describe(name: str, options: argparse.Namespace, streams: Streams) -> ClusterRow:
    try:
        return _read_row(name, options, streams)
    except ClusterReadError as error:
        return ClusterRow(name, error=error.finding.message)


def _read_row(name: str, options: argparse.Namespace, streams: Streams) -> ClusterRow:
    effective = read_effective_configuration(options, streams, asks_cluster=not options.cluster)
    if effective.configuration is None and options.config is not None:
        return ClusterRow(name, error=_join(effective.findings))
    read = read_audited(options, streams, Scope(), _ignore)
    if read.nodes_missing:
        return ClusterRow(name, error=_find_reason(read))
    configuration = effective.configuration or Configuration()
    text = _find_configuration(read.config_maps) if options.cluster else None
    stored = read_configuration(Source(name, text.encode())) if text is not None else ()
    configuration = stored if isinstance(stored, Configuration) else configuration
    is_known = isinstance(stored, Configuration) or not options.cluster
    read = _with_modes(read, configuration)
    gates = choose_gates(options, read.version, keeps=read.keeps)
    if not isinstance(gates, Gates):
        return ClusterRow(name, error=_join(gates))
    objects = read.objects
    future = foresee(objects, configuration, gates)
    decisions = DecisionsByFacts(
        decide_with(configuration, future.facts_now), decide_with(configuration, future.facts)
    )
    audit = compose_audit(objects, future, decisions, configuration, gates)
    row = ClusterRow(
        name,
        version=read.version,
        release=_find_release(objects.workloads),
        configuration=_hash(configuration) if is_known else _INVALID if text is not None else "",
        placement=configuration.placement.value if is_known else "",
        waiting=sum(map(_waits, objects.pods)),
    )
    return add_counts(row, audit)


def _join(findings: Iterable[LocatedFinding]) -> str:
    return "; ".join(each.finding.message for each in findings)


def _ignore(text: str) -> None:
    """Show no progress: several clusters are read."""
    del text


def _find_reason(read: ClusterRead) -> str:
    told = (each.finding.message for each in read.findings)
    return next(told, "no Node was read")


def _with_modes(read: ClusterRead, configuration: Configuration) -> ClusterRead:
    """Return what was read with the modes of namespaces by a configuration that was read later."""

    def decide(namespace: AuditedNamespace) -> AuditedNamespace:
        scope = decide_namespace_scope(namespace.name, namespace.labels, configuration.scope)
        return namespace._replace(mode=scope.mode)

    namespaces = tuple(map(decide, read.objects.namespaces))
    return read._replace(objects=replace(read.objects, namespaces=namespaces))


def _waits(pod: Value) -> bool:
    """Whether a pod waits for devices, and no queue holds it back on purpose."""
    is_gated = bool(as_list(get_value(pod, ("spec", "schedulingGates"))))
    return is_waiting(pod) and asks_for_devices(pod) and not is_gated


def _find_configuration(config_maps: Iterable[Value]) -> str | None:
    """Return the text of the configuration in use, or else of the one that is offered."""
    by_name = {text_at(each, "metadata", "name"): each for each in config_maps}
    for name in (CONFIGURATION_IN_USE_CONFIG_MAP, CONFIGURATION_CONFIG_MAP):
        text = get_value(by_name.get(name), ("data", CONFIGURATION_KEY))
        if isinstance(text, str):
            return text
    return None


def _hash(configuration: Configuration) -> str:
    """Return a few digits that are equal for configurations that say the same."""
    encoded = msgspec.json.encode(configuration, enc_hook=str, order="deterministic")
    return sha256(encoded).hexdigest()[:_DIGITS]


def _find_release(workloads: Iterable[Value]) -> str:
    """Return the tag of the image of the webhook."""
    for value in workloads:
        if text_at(value, "metadata", "name") == WEBHOOK_DEPLOYMENT:
            containers = as_list(get_value(value, ("spec", "template", "spec", "containers")))
            image = text_at(containers[0], "image") if containers else ""
            return image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return ""
