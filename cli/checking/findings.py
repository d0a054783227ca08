"""Finds what is wrong in manifests, with file and line, and with the configured severities."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cli.checking.input import CheckInput
from cli.checking.looked_at import CLAIMS_AND_PODS, kind_of
from cli.checking.published import drop_consequences, find_ignored_fields, judge_published
from drawbridge.config.load import OBJECT
from drawbridge.config.policy import apply_policies
from drawbridge.documents.document import Document, LayoutCache, LocatedFinding
from drawbridge.finding import Finding
from drawbridge.judge.slices.codes import NOTHING_TO_JUDGE


def check_manifests(given: CheckInput, allocator: str | None = None) -> list[LocatedFinding]:
    """Return all findings about the manifests by file and line, with the configured severities."""
    documents = [each for each in given.read if isinstance(each, Document)]
    readable = [each for each in documents if not each.findings]
    findings = drop_consequences(
        (
            *given.problems,
            *find_ignored_fields(readable),
            *_locate(_judge(given, readable, allocator), documents),
        )
    )
    with_policies = (
        replace(located, finding=finding)
        for located in findings
        for finding in apply_policies([located.finding], given.configuration.findings)
    )
    return _sort(with_policies, given.read)


def _judge(
    given: CheckInput, documents: Sequence[Document], allocator: str | None
) -> Iterator[Finding]:
    """Judge all objects of the manifests; each finding once."""
    findings = [*judge_published(given, documents)]
    kinds = {kind_of(each) for each in documents}
    if not kinds.isdisjoint(CLAIMS_AND_PODS):
        # What judges claims and pods takes half of the imports.
        from cli.checking.judged_objects import judge_objects  # noqa: PLC0415

        others = [each for each in documents if kind_of(each) in CLAIMS_AND_PODS]
        findings += judge_objects(given, others, allocator)
    if not (findings or given.problems or any(kinds)):
        message = (
            "no slice, class, rule, claim, template, pod, workload or Configuration in the input"
        )
        yield NOTHING_TO_JUDGE.at("", message)
    yield from dict.fromkeys(findings)


def _locate(findings: Iterable[Finding], documents: Sequence[Document]) -> Iterator[LocatedFinding]:
    """Add the file and line of the object; findings about other objects have none."""
    # In a cluster, the last one of several objects with one name replaces the others.
    places = {each.name: each.without_value() for each in documents}
    own = [each for each in documents if kind_of(each) == OBJECT]
    if len(own) == 1:
        places[OBJECT] = own[0]
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
