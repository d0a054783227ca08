"""A pod to its translation: the table of pods, and what holds for every pod."""

import json
from pathlib import Path

import pytest
from hypothesis import given as every
from hypothesis import settings
from hypothesis import strategies as st

from drawbridge.config.model import Configuration, Legacy, Placement
from drawbridge.config.string_formats import NetworkName, ResourceName
from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import get_value
from drawbridge.facts.model import Facts, ResourceFacts
from drawbridge.facts.serialized import read_facts
from drawbridge.finding import Severity
from drawbridge.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import Translation, TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn
from tests.translate import worlds

HERE = Path(__file__).parent
CASES = load_cases(HERE / "pods.yaml")
UNKNOWING = make_context(Configuration())


def facts_of(case: YamlValue) -> Facts | None:
    if "facts" not in case:
        return None
    head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Facts"}
    facts = read_facts(head | case["facts"])
    assert isinstance(facts, Facts), facts
    return facts


def without_ours(metadata: YamlValue) -> YamlValue:
    annotations = {
        key: text
        for key, text in metadata.get("annotations", {}).items()
        if key not in (ORIGINAL_ANNOTATION, FACTS_ANNOTATION)
    }
    rest = {key: value for key, value in metadata.items() if key != "annotations"}
    return rest | ({"annotations": annotations} if annotations else {})


def requests_of(done: Translation) -> list[list[YamlValue]]:
    path = ("spec", "spec", "devices", "requests")
    return [[each["name"] for each in get_value(made.object, path)] for made in done.templates]  # type: ignore[union-attr,index,call-overload]


@every_row("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_pods(case: YamlValue) -> None:
    pod: YamlValue = {"metadata": case.get("metadata", {}), "spec": case["spec"]}
    done = translate(pod, make_context(Configuration(), facts_of(case)))
    after: YamlValue = apply_edits(pod, done.edits)
    assert [each.code for each in done.findings] == case.get("findings", [])
    told = " ".join(f"{each.path} {each.message}" for each in done.findings)
    assert [words for words in case.get("says", []) if words not in told] == []
    if done.edits:
        assert restore_original(after) == pod
        assert translate(after, make_context(Configuration(), facts_of(case))).edits == ()
    assert without_ours(after["metadata"]) == without_ours(pod["metadata"])
    counts = case.get("counts") or [len(each) for each in case.get("requests", [])]
    assert [len(each) for each in requests_of(done)] == counts
    if "requests" in case:
        assert requests_of(done) == case["requests"]
    if "counts" not in case:
        expected = json.dumps(case.get("becomes", case["spec"]))
        names = [made.name for made in done.templates]
        assert after["spec"] == json.loads(expected.replace("$template", "".join(names)))


def test_more_claims_are_numbered() -> None:
    (case,) = (case for case in CASES if case.get("counts") == [32, 1])
    pod = {"spec": case["spec"]}
    after: YamlValue = apply_edits(pod, translate(pod, UNKNOWING).edits)
    names = [each["name"] for each in after["spec"]["resourceClaims"]]
    assert names == ["drawbridge", "drawbridge-2"]


def test_the_hash_of_the_facts_is_annotated() -> None:
    pod = {"spec": CASES[0]["spec"]}
    by = make_context(Configuration(), worlds.facts(("hgx-h100 gpu.nvidia.com",)))
    for context, digest in ((by, by.facts_digest), (UNKNOWING, None)):
        after: YamlValue = apply_edits(pod, translate(pod, context).edits)
        assert after["metadata"]["annotations"].get(FACTS_ANNOTATION) == digest
    assert by.facts_digest


def test_networks_of_a_template_are_read_in_the_given_namespace() -> None:
    networks = {"k8s.v1.cni.cncf.io/networks": "a"}
    pod: YamlValue = {
        "metadata": {"annotations": networks},
        "spec": {"containers": [{"name": "c"}]},
    }
    legacy = Legacy(networks={NetworkName("team/a"): ResourceName("x.com/vf")})
    by = make_context(Configuration(legacy=legacy))
    told = [each.code for each in translate(pod, by, "team").findings]
    assert told != [each.code for each in translate(pod, by, "other").findings]
    assert translate(pod, by, "team").edits != ()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "containers", "resources", "limits", "name", "env"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=drawn(12, thorough=60))
@every(JUNK)
def test_any_value_has_a_translation(pod: YamlValue) -> None:
    assert isinstance(translate(pod, TranslationContext()), Translation)


PLACES = (
    ("metadata", "annotations"), ("metadata", "labels"), ("metadata", "finalizers"),
    ("metadata", "namespace"), ("metadata", "annotations", "gpu-fraction"),
    ("metadata", "labels", "kueue.x-k8s.io/queue-name"),
    ("spec", "schedulerName"), ("spec", "runtimeClassName"), ("spec", "volumes"),
    ("spec", "volumes", 0, "hostPath"), ("spec", "volumes", 0, "hostPath", "path"),
    ("spec", "tolerations"), ("spec", "tolerations", 0), ("spec", "tolerations", 0, "effect"),
    ("spec", "tolerations", 0, "key"), ("spec", "resourceClaims"),
    ("spec", "resourceClaims", 0, "name"), ("spec", "nodeSelector"), ("spec", "affinity"),
    ("spec", "affinity", "nodeAffinity"), ("spec", "schedulingGates"), ("spec", "nodeName"),
    ("spec", "containers", 0, "name"), ("spec", "containers", 0, "env"),
    ("spec", "containers", 0, "env", 0, "name"), ("spec", "containers", 0, "env", 0, "value"),
    ("spec", "containers", 0, "securityContext"), ("spec", "initContainers"),
    ("spec", "containers", 0, "resources", "claims"),
    ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
)  # fmt: skip
PLUGIN = make_context(
    Configuration(),
    Facts(names=(ResourceFacts("nvidia.com/gpu", nodes=2, devices=16, most=8, dual=1),)),
)
OURS = make_context(Configuration(placement=Placement.BRIDGE))


def asking() -> YamlValue:
    """A pod that asks for a GPU, with something at every place that a translation looks at."""
    container = {
        "name": "main",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return {
        "metadata": {"annotations": {}, "labels": {}},
        "spec": {
            "containers": [container],
            "volumes": [{"hostPath": {"path": "/dev/infiniband"}}],
            "tolerations": [{"key": "a"}],
            "resourceClaims": [{"name": "b"}],
            "affinity": {"nodeAffinity": {}},
        },
    }


@settings(max_examples=drawn(30, thorough=150))
@every(st.sampled_from(PLACES), JUNK)
def test_invalid_values_anywhere_in_a_pod_have_a_translation(
    place: YamlValue, junk: YamlValue
) -> None:
    pod = asking()
    top: YamlValue = get_value(pod, place[:-1])
    top[place[-1]] = junk
    for by in (UNKNOWING, PLUGIN, OURS):
        done = translate(pod, by)
        assert isinstance(done, Translation)
        if done.edits:
            assert restore_original(apply_edits(pod, done.edits)) == pod


HINTS = (
    {"gpu-fraction": "0.5"},
    {"tensor-fusion.ai/is-local-gpu": "true", "tensor-fusion.ai/gpu-count": "3"},
    {"tensor-fusion.ai/is-local-gpu": "true", "tensor-fusion.ai/vram-limit": "1Gi"},
)


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize("junk", [None, 7, "text", [1], [{}]])
@pytest.mark.parametrize("hints", HINTS, ids=str)
def test_invalid_containers_get_no_claims(hints: YamlValue, junk: YamlValue, part: str) -> None:
    pod: YamlValue = {"metadata": {"annotations": hints}, "spec": {"containers": [], part: [junk]}}
    for by in (UNKNOWING, PLUGIN, OURS):
        done = translate(pod, by)
        assert apply_edits(pod, done.edits)["spec"][part] == [junk]


@pytest.mark.parametrize("place", ["resources", "env", "claims", "limits"])
@pytest.mark.parametrize("junk", [7, "text", [1], {"a": 1}])
def test_invalid_values_beside_a_request_are_preserved(place: str, junk: YamlValue) -> None:
    container: YamlValue = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    if place in ("claims", "limits"):
        container["resources"]["requests" if place == "limits" else place] = junk
    else:
        container[place] = junk
    pod: YamlValue = {"spec": {"containers": [{"name": "b", **container}, container]}}
    after = apply_edits(pod, translate(pod, UNKNOWING).edits)
    assert json.dumps(junk) in json.dumps(after) or isinstance(junk, list)


@pytest.mark.parametrize(
    ("facts", "name", "severity"),
    [
        (
            worlds.facts(("hgx-h100 sriovnetwork.k8snetworkplumbingwg.io",)),
            "intel.com/intel_sriov_netdevice",
            Severity.WARNING,
        ),
        (worlds.facts(("hgx-h100 gpu.nvidia.com",)), "nvidia.com/gpu", Severity.INFO),
        (
            Facts(names=(ResourceFacts("intel.com/intel_sriov_netdevice", nodes=2),)),
            "intel.com/intel_sriov_netdevice",
            Severity.INFO,
        ),
    ],
    ids=["a claim has the functions", "a claim has GPUs", "the plugin keeps the functions"],
)
def test_an_unknown_network_warns_where_a_claim_has_the_functions(
    facts: Facts, name: str, severity: Severity
) -> None:
    pod = {
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {name: 1}}}]},
    }
    done = translate(pod, make_context(Configuration(), facts))
    assert [e.severity for e in done.findings if e.code == "NetworkUnknown"] == [severity]


def test_an_unknown_network_is_no_warning_beside_functions_of_known_networks() -> None:
    name = "intel.com/intel_sriov_netdevice"
    networks = {NetworkName("default/a"): ResourceName(name)}
    configuration = Configuration(legacy=Legacy(networks=networks))
    facts = worlds.facts(("hgx-h100 sriovnetwork.k8snetworkplumbingwg.io",))
    pod = {
        "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a,macvlan"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {name: 1}}}]},
    }
    done = translate(pod, make_context(configuration, facts))
    assert done.templates
    severities = [e.severity for e in done.findings if e.code == "NetworkUnknown"]
    assert severities == [Severity.INFO]
