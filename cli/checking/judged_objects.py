"""Judges the claims and the pods of manifests, as if they were applied to the cluster together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace as with_fields
from functools import partial
from typing import Final

from msgspec.structs import replace

from cli.checking.checked_cluster import CheckedCluster
from cli.checking.input import CheckInput
from cli.checking.pod_verdicts import (
    TranslatedPod,
    find_served_names,
    judge_in_pools,
    judge_pod,
    translate_pods,
)
from cli.simulation.schedulers import default_allocator
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.documents.document import Document
from drawbridge.documents.paths import format_path, get_value
from drawbridge.dra.claim import CLAIM, TEMPLATE, claim_reader, template_reader
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.judge.judgement import judge_file
from drawbridge.judge.subject import Subject, claim_subject, template_subject
from drawbridge.pod_groups import Member
from drawbridge.solver.deviations import Allocator
from drawbridge.translate.changes.group_members import report_split_gangs
from drawbridge.translate.changes.scheduler import DEFAULT
from drawbridge.translate.manifests.custom_fields import report_dropped
from drawbridge.translate.manifests.workloads import map_finding_path

_ANY_NODE: Final = "any-node"


def judge_objects(
    given: CheckInput, documents: Sequence[Document], allocator: str | None
) -> Iterator[Finding]:
    """Judge the claims and the pods of the documents; yields nothing if they have none."""
    cluster = CheckedCluster(
        # Others of their classes may be in the cluster whose devices may not be read.
        given.files if given.published is None else with_fields(given.files, slices=()),
        given.cluster,
        given.is_read,
        given.gates,
        given.configuration,
        Allocator(allocator) if allocator else default_allocator(given.configuration),
        given.claims_read,
        given.published,
    )
    gathered = cluster.gather_facts()
    translation = cluster.translation_context(gathered.facts if gathered else None)
    translated = [translate_pods(document, translation) for document in documents]
    pods = [pod for each in translated for pod in each.pods]
    yield from (finding for each in translated for finding in each.findings)
    definitions = cluster.find_definitions()
    for document in documents:
        # The webhook translates what has no claims yet, behind the schema of the object.
        for finding in report_dropped(document.value, (), definitions):
            yield replace(finding, object=document.name)
    templates = [one for each in pods for one in each.templates]
    claims = [each for each in map(_decode_subject, documents) if each is not None]
    if claims:
        context = _with_nodes(cluster).judge_context(templates)
        for subject in claims:
            yield from judge_file(subject, context)
    if pods:
        context = cluster.judge_context(templates)
        contexts = cluster.contexts_of_pods(context, templates, translation.facts)
        served = find_served_names(context, cluster.configuration.legacy)
        for pod in pods:
            yield from judge_in_pools(partial(judge_pod, pod, served), context, contexts(pod.pod))
        yield from _report_split_gangs(pods)
    dual = describe_dual_nodes(gathered.dual_nodes) if gathered and (claims or pods) else None
    if dual is not None:
        yield dual


def _decode_subject(document: Document) -> Subject | None:
    """Return a claim or a template as a subject; None for other and for unreadable objects."""
    kind = get_value(document.value, ("kind",))
    if kind == CLAIM:
        claim = claim_reader().read(document.value, ordinal=document.index)
        return None if isinstance(claim, tuple) else claim_subject(claim, document.name)
    if kind == TEMPLATE:
        template = template_reader().read(document.value, ordinal=document.index)
        return None if isinstance(template, tuple) else template_subject(template, document.name)
    return None


def _with_nodes(cluster: CheckedCluster) -> CheckedCluster:
    """Add the nodes that slices need, because authors of drivers have files without nodes.

    Whether a node selector selects any node is then unknown, so the devices are, too.
    """
    files = cluster.input
    if cluster.is_read or files.nodes or not files.slices:
        return cluster
    named = {name for each in files.slices for name in _node_names(each)}
    with_nodes = (
        with_fields(files, slices=())
        if any(each.node_selector for each in files.slices)
        else with_fields(files, nodes=tuple(map(Node, sorted(named) or [_ANY_NODE])))
    )
    return with_fields(cluster, input=with_nodes)


def _node_names(slice_: Slice) -> Iterator[str]:
    yield from filter(None, (slice_.node_name, *(device.node_name for device in slice_.devices)))


def _report_split_gangs(pods: Sequence[TranslatedPod]) -> Iterator[Finding]:
    """Report gangs whose members have several schedulers after their translation."""
    members = {
        Member(pod.pod.group, _describe_place(pod), pod.pod.spec.scheduler_name or DEFAULT): pod
        for pod in pods
        if pod.pod.group is not None
    }
    for group, finding in report_split_gangs(members):
        last = [pod for member, pod in members.items() if member.group == group][-1]
        path = map_finding_path(finding.path, last.place)
        yield replace(finding, object=last.document.name, path=path)


def _describe_place(pod: TranslatedPod) -> str:
    path = format_path(pod.place.path)
    return f"{pod.document.name} {path}".rstrip()
