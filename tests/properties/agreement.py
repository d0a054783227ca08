"""Runs the packages on a generated cluster and pod, and returns their contradictions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from drawbridge.cel import CompileError
from drawbridge.cel.dra import Selectors
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.claim import Template, request_choices, template_reader
from drawbridge.dra.classes import IMPLICIT_PREFIX
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.finding import Finding, Severity
from drawbridge.judge.context import JudgeCaches, JudgeContext, ObjectLookups, build_context
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import pod_subject
from drawbridge.ledger.extended_resources import class_by_resource_name
from drawbridge.ledger.ledger import Ledger
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.placing import Placer, PodPlacement, hold_claims
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.report.explain import PodObjects, explain
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.reasons import Reason
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.manifests.objects import TranslatedObject, translate_object
from drawbridge.translate.pods import translate
from drawbridge.translate.targets.by_facts import FactsContext, judge_by_facts
from tests.properties.generated import GeneratedCluster

# By the code of a reason of `simulate`: the findings of `translate` with the same cause, or why
# only `simulate` knows it.
Causes: TypeAlias = Mapping[str, Mapping[str, Any]]
UNSERVED: Final = "ServedByNobody"
# The findings that name the server of a request, and how they begin.
LEFT: Final = frozenset({"LeftToClass", "LeftToPlugin", "LeftAsItIs"})
_STAYS: Final = re.compile(r"(\S+(?:, \S+)*) stays? ")


class PreparedCluster:
    """A cluster as each package sees it."""

    def __init__(self, cluster: GeneratedCluster) -> None:
        self.cluster = cluster
        objects = FactsInput(cluster.slices, cluster.classes, cluster.nodes)
        self.facts = gather_facts(objects, cluster.configuration, cluster.gates).facts
        self.context: TranslationContext = make_context(cluster.configuration, self.facts)
        self.planner = Planner(cluster.gates, allocator=Allocator.UPSTREAM)
        for slice_ in (*cluster.slices, *cluster.classes, *cluster.nodes):
            self.planner.update(slice_)
        self.selectors = Selectors(cluster.gates.version)
        self.judging: JudgeContext = build_context(
            self.planner.world(), cluster.nodes, caches=JudgeCaches(self.selectors)
        )
        classes = class_by_resource_name(cluster.classes)
        self.nodes = ClusterNodes(
            nodes=cluster.nodes,
            advertised=cluster.advertised,
            classes=classes if cluster.gates.extended_resource else {},
        )


@dataclass(frozen=True)
class Case:
    """A pod on a cluster, translated and placed."""

    on: PreparedCluster
    pod: dict[str, Any]
    left: bool = False  # placed as it is

    def alone(self, limits: dict[str, str]) -> "Case":
        """Return a pod of the same cluster with one container, which requests only this."""
        container = {"name": "c", "resources": {"limits": limits}}
        return Case(self.on, {**self.pod, "spec": {"containers": [container]}}, left=True)

    @cached_property
    def translated(self) -> TranslatedObject:
        """The translation of the pod."""
        if self.left:
            return TranslatedObject()
        return translate_object(self.pod, "Pod/p", self.on.context)

    @cached_property
    def after(self) -> dict[str, Any]:
        """The pod after the translation."""
        after = apply_edits(self.pod, self.translated.edits)
        assert isinstance(after, dict)
        return after

    @cached_property
    def judged(self) -> tuple[Finding, ...]:
        """What the judge says about the pod after the translation, on the empty cluster."""
        templates = {each.metadata.name: each for each in self.templates}
        lookups = ObjectLookups(find_template=lambda _, name: templates.get(name))
        context = replace(self.on.judging, lookups=lookups)
        return judge_subject(pod_subject(self.placed_pod, lookups, "Pod/p"), context)

    @cached_property
    def judged_by_facts(self) -> tuple[Finding, ...]:
        """What admission says about the new claims, by the facts alone."""
        if self.left:
            return ()
        written = translate(self.pod, self.on.context).templates
        meanings = {each.name: each.expressions for each in written}
        return tuple(
            finding
            for template in self.templates
            for finding in judge_by_facts(
                template.spec.spec,
                FactsContext(self.on.facts, meanings[template.metadata.name]),
            )
        )

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The new templates, as the API server decodes them."""
        reader = template_reader()
        templates = [reader.read(dict(each)) for each in self.translated.templates]
        assert all(isinstance(each, Template) for each in templates), templates
        return tuple(each for each in templates if isinstance(each, Template))

    @cached_property
    def placed_pod(self) -> Pod:
        """The translated pod, as the scheduler reads it."""
        pod = pod_reader().read(self.after)
        assert isinstance(pod, Pod), pod
        return pod

    @cached_property
    def placement(self) -> PodPlacement:
        """The placement on the empty cluster."""
        ledger = Ledger()
        placer = Placer(self.on.planner, self.on.nodes, hold_claims(ledger, (), self.templates))
        return placer.place_pod(self.placed_pod)

    def codes(self) -> set[str]:
        """The codes that the translation reports."""
        return {each.code for each in self.translated.findings}


def contradictions(case: Case, causes: Causes) -> Iterator[str]:
    """Yield each contradiction between translate, simulate, explain, CEL, facts and the judge."""
    yield from _refusals(case)
    yield from _left(case)
    yield from _selectors(case)
    yield from _explanation(case)
    again = translate_object(case.after, "Pod/p", case.on.context)
    if again.edits:
        yield "a second translation changes the pod"
    if not _has_errors(case.translated.findings):
        yield from _unplaced(case, causes)
        yield from _judged(case)


def _has_errors(findings: Sequence[Finding]) -> bool:
    return any(each.severity is Severity.ERROR for each in findings)


def _refusals(case: Case) -> Iterator[str]:
    translated = case.translated
    if _has_errors(translated.findings) and (translated.edits or translated.templates):
        yield "an error is reported, but the pod is changed"
    if bool(translated.templates) != ("resourceClaims" in case.after["spec"]):
        yield "templates and claims of the pod do not match"


def _left(case: Case) -> Iterator[str]:
    """What translate leaves to a server, this server serves in the simulation."""
    if _has_errors(case.translated.findings):
        return
    for finding in case.translated.findings:
        if finding.code not in LEFT or not (match := _STAYS.match(finding.message)):
            continue
        names = match[1].split(", ")
        alone = case.alone(dict.fromkeys(names, "1")).placement
        unserved = [reason.message for reason in alone.reasons if _is_unserved(reason)]
        if alone.node is None and unserved:
            yield f"translate: {finding.message}; simulate: {'; '.join(unserved)}"


def _selectors(case: Case) -> Iterator[str]:
    """The selectors of new claims compile in the version of the cluster."""
    for template in case.templates:
        for request in template.spec.spec.devices.requests:
            for choice in request_choices(request):
                for selector in choice.requested.selectors:
                    try:
                        case.on.selectors.stored.compile(selector.cel.expression)  # type: ignore[union-attr]
                    except CompileError as error:
                        yield f"selector does not compile: {error}"


def _explanation(case: Case) -> Iterator[str]:
    """`explain` shows the original requests of a translated pod, and its claims."""
    templates = {each["metadata"]["name"]: each for each in case.translated.templates}  # type: ignore[index]
    shown = explain(PodObjects(pod=case.after, templates=templates))  # type: ignore[arg-type]
    before = explain(PodObjects(pod=case.pod))
    removed = {(each.container, each.resource, each.amount) for each in shown.asked}
    original = {(each.container, each.resource, each.amount) for each in before.asked}
    if case.translated.edits and not removed <= original:
        yield f"explain shows {removed - original}, which the pod did not request"
    if len(shown.claims) != len(case.after["spec"].get("resourceClaims", ())):
        yield "explain does not show every claim"


def _is_unserved(reason: Reason) -> bool:
    """Whether no node at all serves a name."""
    return reason.code == UNSERVED and reason.after == 0


def _unplaced(case: Case, causes: Causes) -> Iterator[str]:
    """A reason of simulate has a finding of translate with the same cause, by the table."""
    if case.placement.node is not None:
        return
    for reason in case.placement.reasons:
        partly = reason.code == UNSERVED and reason.after > 0
        cause = causes.get(f"{UNSERVED}, elsewhere" if partly else reason.code)
        if cause is None:
            yield f"simulate: {reason.message} [{reason.code}], which is not in the table"
        elif "translate" in cause and not _is_stated(case, reason, cause["translate"]):
            codes = sorted(each.code for each in case.translated.findings)
            yield f"simulate: {reason.message} [{reason.code}]; translate: {codes}"


def _judged(case: Case) -> Iterator[str]:
    """The judge refuses nothing that simulate places, and names what it does not place."""
    for judge, findings in (("judge", case.judged), ("facts", case.judged_by_facts)):
        errors = [each for each in findings if each.severity is Severity.ERROR]
        if errors and case.placement.node is not None:
            yield f"simulate places the pod; {judge}: {errors[0].code}: {errors[0].message}"
    if case.placement.node is None and _claims_decide(case) and not case.judged:
        reasons = "; ".join(f"{each.message} [{each.code}]" for each in case.placement.reasons)
        yield f"simulate: {reasons}; the judge says nothing"


def _claims_decide(case: Case) -> bool:
    """Whether the pod has nothing but claims, and drivers that publish devices.

    Without any ResourceSlice, the judge asks nothing about devices: the drivers may come later.
    """
    containers = (*case.placed_pod.spec.containers, *case.placed_pod.spec.init_containers)
    asks_by_name = any(each.resources.limits or each.resources.requests for each in containers)
    return bool(case.templates and case.on.cluster.slices) and not asks_by_name


def _is_stated(case: Case, reason: Reason, codes: Sequence[str]) -> bool:
    # The names of DeviceClasses are Kubernetes' own, which translate does not read.
    if reason.message.rpartition(" ")[2].startswith(IMPLICIT_PREFIX):
        return True
    return any(each.code in codes and _is_about(each, reason) for each in case.translated.findings)


def _is_about(finding: Finding, reason: Reason) -> bool:
    """Whether a finding names the resource that no node serves."""
    name = reason.message.rpartition(" ")[2]
    return reason.code != UNSERVED or name in finding.message or name in finding.path
