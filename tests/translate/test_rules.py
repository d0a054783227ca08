"""Bridge placement: what a claim spec cannot say stands in an annotation, read back strictly."""

import json
from pathlib import Path

import msgspec

from drawbridge.config.model import Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.dra.claim import Template, read_template
from drawbridge.dra.rules import Rules, check_rules, encode_rules, read_rules
from drawbridge.names import RULES_ANNOTATION
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds

TABLE = load_cases(Path(__file__).parent / "cases" / "bridge.yaml")
OWNED = tuple(
    OwnedPool(DriverName(driver), LabelSelector())  # type: ignore[arg-type]  # as it is loaded
    for driver in ("gpu.nvidia.com", "dra.net", "hami-core-gpu.project-hami.io")
)
BRIDGE = Configuration(placement=Placement.BRIDGE, owned_pools=OWNED)
NOT_TOLD = {"ServerUnknown", "TolerationAdded", "SchedulerLeft"}


def pod(case: YamlValue) -> YamlValue:
    """The pod of a case."""
    container = {"name": "main", "resources": {"limits": case["limits"]}}
    spec: YamlValue = {"containers": [container]}
    if "scheduler" in case:
        spec["schedulerName"] = case["scheduler"]
    return {"metadata": {"annotations": case.get("annotations", {})}, "spec": spec}


def done(case: YamlValue, configuration: Configuration = BRIDGE) -> Translation:
    facts = worlds.facts(tuple(case["world"])) if "world" in case else None
    if facts and "keeps" in case:
        cluster = msgspec.structs.replace(facts.cluster, keeps=tuple(case["keeps"]))
        facts = msgspec.structs.replace(facts, cluster=cluster)
    return translate(pod(case), make_context(configuration, facts))


def counts(request: YamlValue) -> YamlValue:
    """The number of devices of a request, or the numbers of its alternatives in their order."""
    if "exactly" in request:
        return request["exactly"]["count"]
    return [each["count"] for each in request["firstAvailable"]]


@every_row("case", TABLE, ids=lambda case: case["name"])
def test_the_claim_has_one_request_per_kind_and_a_rule(case: YamlValue) -> None:
    made = done(case)
    if "not_expressible" in case:
        assert made.edits == ()
        assert any(case["not_expressible"] in each.message for each in made.findings)
        return
    (template,) = made.templates
    requests = get_value(template.object, ("spec", "spec", "devices", "requests"))
    assert isinstance(requests, list)
    assert {each["name"]: counts(each) for each in requests} == case["claim"]  # type: ignore[index,call-overload]
    if "match" in case:
        written = get_value(template.object, ("spec", "spec", "devices", "constraints"))
        assert isinstance(written, list)
        assert {each["matchAttribute"]: each["requests"] for each in written} == case["match"]  # type: ignore[index,call-overload]
    text = get_value(template.object, ("spec", "metadata", "annotations", RULES_ANNOTATION))
    if "rules" not in case:
        assert text is None
    else:
        assert isinstance(text, str)
        head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Rules"}
        assert json.loads(text) == head | case["rules"]
        back = read_rules(text)
        assert isinstance(back, Rules)
        assert encode_rules(back) == text
        whole = read_template(dict(template.object))
        assert isinstance(whole, Template), whole
        assert check_rules(back, whole.spec.spec) == ()
    if "lost" in case:
        assert {each.code for each in made.findings} - NOT_TOLD == set(case["lost"])
    assert get_value(apply_edits(pod(case), made.edits), ("spec", "schedulerName")) == (
        case.get("scheduler", "drawbridge")
    )


@every_row("case", TABLE, ids=lambda case: case["name"])
def test_native_placement_never_has_the_annotation(case: YamlValue) -> None:
    for template in done(case, Configuration()).templates:
        assert RULES_ANNOTATION not in json.dumps(template.object)


def test_the_rules_are_part_of_the_name() -> None:
    (joint,) = (each for each in TABLE if each["name"].startswith("a preferred joint stays"))
    hard = {**joint, "annotations": TABLE[0]["annotations"]}
    assert done(joint).templates[0].name != done(hard).templates[0].name


def test_pods_with_equal_hints_share_a_template() -> None:
    (case,) = (each for each in TABLE if each["name"].startswith("four GPUs on two roots"))
    context = make_context(BRIDGE, worlds.facts(tuple(case["world"])))
    other = pod(case)
    other["metadata"]["name"] = "other"
    other["spec"]["containers"][0]["name"] = "server"
    names = {each.name for one in (pod(case), other) for each in translate(one, context).templates}
    assert len(names) == 1


def test_the_api_server_accepts_a_template_with_rules() -> None:
    whole = dict(done(TABLE[0]).templates[0].object)
    assert not isinstance(read_template(whole), tuple)


def test_drivers_without_owned_pools_are_reported_for_the_own_scheduler_only() -> None:
    case = TABLE[0]
    owner = Configuration(placement=Placement.BRIDGE, owned_pools=OWNED[:1])
    (finding,) = (each for each in done(case, owner).findings if each.code == "DriverNotOwned")
    assert finding.message == (
        "ownedPools has no entry for driver dra.net, so drawbridge cannot allocate the claim"
    )
    for quiet in (
        done({**case, "scheduler": "mine"}, owner),
        done(case),
        done(case, Configuration()),
    ):
        assert "DriverNotOwned" not in {each.code for each in quiet.findings}
