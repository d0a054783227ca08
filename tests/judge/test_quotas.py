"""Quotas that are too small for a claim, a template or a pod."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import read_text
from drawbridge.config.target import Target
from drawbridge.dra.claim import Claim, Template, read_claim, read_template
from drawbridge.dra.gates import NEWEST, Gates, gates_of_version
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.resource_quotas import ResourceQuota, quota_reader
from drawbridge.facts.families import known_families
from drawbridge.judge.claims.quotas import check_quotas
from drawbridge.judge.context import JudgeContext, ObjectLookups
from drawbridge.judge.subject import Subject, claim_subject, pod_subject
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.solver.world import World
from tests.judge.contexts import class_context, findings, read_classes
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "quotas.yaml")
METADATA = {"namespace": "ns", "name": "a"}


def quota_of(case: YamlValue) -> ResourceQuota:
    value = {
        "metadata": {"name": "team", "namespace": "ns"},
        "spec": {"hard": case["hard"], "scopes": case.get("scopes")},
        "status": {"used": case.get("used")},
    }
    quota = quota_reader().read(value)
    assert isinstance(quota, ResourceQuota), quota
    return quota


def context_of(case: YamlValue) -> JudgeContext:
    gates = gates_of_version(case.get("version", NEWEST))
    assert isinstance(gates, Gates)
    classes = read_classes(
        {"gpu.nvidia.com": "true", "amd": "true", "hami-core-gpu.project-hami.io": "true"}
    )
    amd = classes["amd"]
    classes["amd"] = replace(amd, spec=replace(amd.spec, extended_resource_name="amd.com/gpu"))
    claim, template = claim_of(case.get("shared", ())), template_of(case.get("template", ()))
    lookups = ObjectLookups(
        find_claim=lambda *_: claim,
        find_template=lambda *_: template,
        find_quotas=lambda namespace: [quota_of(case)] if namespace == "ns" else [],
    )
    world = World(build_inventory((), gates=gates), classes)
    targets = msgspec.convert(case.get("targets", []), tuple[Target, ...], dec_hook=read_text)
    families = known_families(Configuration(targets=targets))
    return replace(class_context({}), world=world, lookups=lookups, families=families)


def request(number: int, short: YamlValue) -> YamlValue:
    exactly = {key: value for key, value in short.items() if key not in ("class", "capacity")}
    if "capacity" in short:
        exactly["capacity"] = {"requests": short["capacity"]}
    return {"name": f"r{number}", "exactly": exactly | {"deviceClassName": short["class"]}}


def claim_of(requests: YamlValue) -> Claim:
    spec = {"devices": {"requests": [request(i, each) for i, each in enumerate(requests)]}}
    claim = read_claim({"metadata": METADATA, "spec": spec})
    assert isinstance(claim, Claim), claim
    return claim


def template_of(requests: YamlValue) -> Template:
    spec = {"devices": {"requests": [request(i, each) for i, each in enumerate(requests)]}}
    template = read_template({"metadata": METADATA, "spec": {"spec": spec}})
    assert isinstance(template, Template), template
    return template


def subject_for(case: YamlValue, context: JudgeContext) -> Subject:
    if "requests" in case:
        return claim_subject(claim_of(case["requests"]))
    entries = [{"name": "t", "resourceClaimTemplateName": "a"}] if "template" in case else []
    entries += [{"name": "c", "resourceClaimName": "a"}] if "shared" in case else []
    spec = {"resourceClaims": entries}
    for field, key in (("containers", "containers"), ("initContainers", "init")):
        spec[field] = [{"resources": {"limits": each}} for each in case.get(key, [])]
    for limits in case.get("sidecars", []):
        spec["initContainers"].append({"restartPolicy": "Always", "resources": {"limits": limits}})
    pod = pod_reader().read({"metadata": METADATA, "spec": spec})
    assert isinstance(pod, Pod), pod
    return pod_subject(pod, context.lookups)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_quota_of_the_namespace(case: YamlValue) -> None:
    context = context_of(case)
    subject = subject_for(case, context)
    reported = findings(check_quotas(subject, context))
    assert [[each.code, each.message] for each in reported] == case["found"]
    path = "spec" if subject.pod else "spec.devices.requests"
    assert {(each.object, each.path) for each in reported} <= {(subject.object, path)}


def test_quota_of_another_namespace_does_not_count() -> None:
    case = {"requests": [{"class": "amd"}], "hard": {"count/resourceclaims.resource.k8s.io": 0}}
    context = context_of(case)
    subject = replace(subject_for(case, context), namespace="other")
    assert not tuple(check_quotas(subject, context))
