"""`drawbridge check`: judges manifests before they are applied.

Reads claims, templates, pods, workloads, classes and slices, and prints what can never work, what
waits for something that does not exist, and what does not fit now. Needs no cluster; with one, it
also judges devices, references and quotas.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from cli.checking.checked_cluster import CheckedCluster, read_cluster
from cli.checking.pod_verdicts import (
    TranslatedPod,
    find_served_names,
    judge_in_pools,
    judge_pod,
    translate_pods,
)
from cli.input.cluster_objects import sort_documents
from cli.input.effective_configuration import read_effective_configuration
from cli.input.files import read_documents
from cli.input.live_cluster import ClusterReadError
from cli.lint import drop_consequences, find_ignored_fields, read_claim_subject
from cli.terminal import output
from cli.terminal.cluster_options import (
    add_allocator_option,
    add_config_option,
    add_files_option,
    add_live_options,
    add_manifests_option,
    add_version_options,
)
from cli.terminal.exit_codes import JUDGED, exit_code
from cli.terminal.looked_at import ALL_KINDS, describe_looked_at
from cli.terminal.streams import Streams
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.agreement.owned_pools import report_shared_pools
from drawbridge.cel.dra import Selectors
from drawbridge.config.placement import owned_pools
from drawbridge.config.policy import apply_policies, compatibility_declarations
from drawbridge.documents.document import Document, LayoutCache, LocatedFinding
from drawbridge.documents.paths import format_path
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.facts.gather import GatheredFacts
from drawbridge.finding import Finding
from drawbridge.judge.judgement import judge_file
from drawbridge.judge.slices.checks import judge_slices
from drawbridge.judge.slices.classes import judge_classes
from drawbridge.judge.slices.codes import NOTHING_TO_JUDGE
from drawbridge.pod_groups import Member
from drawbridge.translate.changes.group_members import report_split_gangs
from drawbridge.translate.changes.scheduler import DEFAULT
from drawbridge.translate.manifests.workloads import map_finding_path

NAME = "check"
EXIT_CODES = JUDGED
_CLASS: Final = "DeviceClass"
_SLICE: Final = "ResourceSlice"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the manifests, the cluster and the output format."""
    add_manifests_option(parser)
    add_files_option(parser)
    add_live_options(parser)
    add_config_option(parser)
    add_allocator_option(parser)
    add_version_options(parser)
    output.add_findings_format(parser)


def run(options: argparse.Namespace, streams: Streams) -> int:
    """Print the findings; the exit code is that of the most severe one."""
    read: list[Document | LocatedFinding] = []
    findings = _check_files(options, streams, read)
    output.print_found(findings, options, streams)
    if read and options.output == "text" and not options.quiet:
        streams.out.write(f"{describe_looked_at(read, findings, ALL_KINDS)}\n")
    return exit_code(findings, strict=options.strict)


def _check_files(
    options: argparse.Namespace, streams: Streams, read: list[Document | LocatedFinding]
) -> Sequence[LocatedFinding]:
    """Return all findings about the manifests, in the order of files and lines.

    Adds the documents of the manifests to `read`.
    """
    asks_cluster = options.context is not None
    configuration, before = read_effective_configuration(
        options, streams, asks_cluster=asks_cluster
    )
    if configuration is None:
        return before
    read += read_documents(options.filename, streams.stdin)
    files = sort_documents(read)
    try:
        cluster = read_cluster(options, files, configuration, streams)
    except ClusterReadError as error:
        return (*before, error.located)
    if not isinstance(cluster, CheckedCluster):
        return (*before, *(LocatedFinding(each) for each in cluster))
    documents = [each for each in read if isinstance(each, Document)]
    findings = _locate(_judge(documents, cluster), documents)
    ignored = find_ignored_fields(each for each in documents if not each.findings)
    return (
        *before,
        *cluster.cluster.findings,
        *_sort(drop_consequences((*files.findings, *ignored, *findings)), read),
    )


def _judge(documents: Sequence[Document], cluster: CheckedCluster) -> Iterator[Finding]:
    """Judge all objects of the manifests; each finding once."""
    readable = [each for each in documents if isinstance(each.value, dict)]
    findings = [*_judge_published(cluster)]
    gathered = cluster.gather_facts()
    translation = cluster.translation_context(gathered.facts if gathered else None)
    pods = list[TranslatedPod]()
    for document in readable:
        of_document = translate_pods(document, translation)
        pods += of_document.pods
        findings += of_document.findings
    templates = [one for each in pods for one in each.templates]
    context = cluster.judge_context(templates)
    contexts = cluster.contexts_of_pods(context, templates, translation.facts)
    claims = [each for each in map(read_claim_subject, readable) if each is not None]
    for subject in claims:
        findings += judge_file(subject, context)
    served = find_served_names(context, cluster.configuration.legacy)
    for pod in pods:
        judge = partial(judge_pod, pod, served)
        findings += judge_in_pools(judge, context, contexts(pod.pod))
    findings += _report_split_gangs(pods, cluster)
    if gathered and (claims or pods):
        findings += _report_dual_nodes(gathered, cluster)
    published = cluster.input.slices or cluster.input.classes
    if not (claims or pods or findings or published or cluster.input.findings):
        message = "no claim, template, pod, workload, DeviceClass or ResourceSlice in the input"
        remedy = "Pass files with such objects."
        yield NOTHING_TO_JUDGE.at("", message, remedy=remedy)
    yield from dict.fromkeys(findings)


def _report_split_gangs(
    pods: Sequence[TranslatedPod], cluster: CheckedCluster
) -> Iterator[Finding]:
    """Report gangs whose members have several schedulers after their translation."""
    members = {
        Member(pod.pod.group, _describe_place(pod), pod.pod.spec.scheduler_name or DEFAULT): pod
        for pod in pods
        if pod.pod.group is not None
    }
    for group, finding in report_split_gangs(members):
        last = [pod for member, pod in members.items() if member.group == group][-1]
        about = last.document.name
        path = map_finding_path(finding.path, last.place)
        yield from apply_policies(
            (replace(finding, object=about, path=path),), cluster.configuration.findings
        )


def _describe_place(pod: TranslatedPod) -> str:
    path = format_path(pod.place.path)
    return f"{pod.document.name} {path}".rstrip()


def _report_dual_nodes(gathered: GatheredFacts, cluster: CheckedCluster) -> Iterator[Finding]:
    """Report nodes that serve a name twice: through a device plugin and through DRA."""
    findings = describe_dual_nodes(gathered.dual_nodes)
    if findings is not None:
        yield from apply_policies((findings,), cluster.configuration.findings)


def _judge_published(cluster: CheckedCluster) -> Iterator[Finding]:
    """Judge classes and slices of the manifests, together with those of the cluster."""
    files, others = cluster.input, cluster.cluster
    configuration = cluster.configuration
    selectors = Selectors.of_gates(cluster.gates)
    names = {each.name for each in files.slices}
    own = {f"{_SLICE}/{name}" for name in names}
    slices = (*(each for each in others.slices if each.name not in names), *files.slices)
    findings = list[Finding]()
    if files.slices:
        unset = UnsetGroups(configuration.unset_groups)
        declared = compatibility_declarations(configuration)
        findings += judge_slices(slices, unset, declared, selectors)
        findings += report_shared_pools(owned_pools(configuration), slices)
    if files.classes:
        names = {each.metadata.name for each in files.classes}
        own |= {f"{_CLASS}/{name}" for name in names}
        unpublished = [each for each in others.classes if each.metadata.name not in names]
        findings += judge_classes((*unpublished, *files.classes), slices, selectors)
    yield from apply_policies(
        (each for each in findings if each.object in own), configuration.findings
    )


def _locate(findings: Iterable[Finding], documents: Sequence[Document]) -> Iterator[LocatedFinding]:
    """Add the file and line of the object; findings about other objects have none."""
    # In a cluster, the last one of several objects with one name replaces the others.
    places = {each.name: each.without_value() for each in documents}
    layouts = LayoutCache()
    for finding in findings:
        document = places.get(finding.object)
        if document is None:
            yield LocatedFinding(finding)
        else:
            yield document.locate_finding(finding, layouts)


def _sort(
    findings: Iterable[LocatedFinding], read: Iterable[Document | LocatedFinding]
) -> list[LocatedFinding]:
    sources = (each.source.name if isinstance(each, Document) else each.source for each in read)
    order = {name: number for number, name in enumerate(dict.fromkeys(sources))}
    last = len(order)
    return sorted(findings, key=lambda each: (order.get(each.source, last), each.line, each.column))
