"""Which pods are looked at: nobody who has anything to be told is kept away."""

import functools
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.config.model import Configuration, Legacy, Placement
from drawbridge.config.string_formats import FindingCode, NetworkName, ResourceName
from drawbridge.documents.values import Value
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.interest import covers, derive_interest
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases, read_yaml_documents
from tests.thorough import drawn
from tests.translate.test_dialects import build_pod

HERE = Path(__file__).parent
LEGACY = Path(__file__).parents[2] / "examples" / "legacy"
USUAL = Configuration()


@functools.cache
@functools.cache
def pods() -> tuple[YamlValue, ...]:
    """Every pod of the tables and of the examples; nobody changes one."""
    dialects = sorted((HERE / "cases" / "dialects").glob("*.yaml"))
    all_pods = [build_pod(case) for table in dialects for case in load_cases(table)]
    all_pods += [_pod(case) for case in load_cases(HERE / "pods.yaml")]
    for path in sorted(LEGACY.glob("*.yaml")):
        all_pods += [_pod(each) for each in read_yaml_documents(path.read_text(encoding="utf-8"))]
    return tuple(pod for pod in all_pods if pod is not None)


def _pod(value: YamlValue) -> YamlValue:
    """The pod in a case or an object, wherever it is."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
        return {"metadata": value.get("metadata") or {}, "spec": value["spec"]}
    return next(filter(None, map(_pod, value.values())), None)


def of_note(pod: Value, configuration: Configuration) -> bool:
    """Whether reading the pod gives anything at all."""
    reading = read_pod(pod, configuration)
    return bool(reading.asks or reading.source_fields or reading.findings)


def test_the_tables_have_cases() -> None:
    all_pods = pods()
    assert len(all_pods) > 100
    assert sum(of_note(pod, USUAL) for pod in all_pods) > 100


def test_every_pod_with_findings_or_requests_is_covered() -> None:
    for pod in pods():
        if of_note(pod, USUAL):
            assert covers(pod, derive_interest(USUAL)), pod


def test_a_translated_pod_is_covered_with_and_without_its_annotation() -> None:
    limits: Value = {"limits": {"nvidia.com/gpu": "1"}}
    pod: YamlValue = {"metadata": {}, "spec": {"containers": [{"name": "a", "resources": limits}]}}
    done = translate(pod, TranslationContext())
    marked: YamlValue = {"metadata": {"annotations": {"drawbridge.dev/original": "[]"}}, "spec": {}}
    referring: YamlValue = {
        "spec": {"resourceClaims": [{"resourceClaimTemplateName": done.templates[0].name}]}
    }
    assert covers(marked, derive_interest(USUAL))
    assert covers(referring, derive_interest(USUAL))


@every_row(
    "pod",
    [
        {"spec": {"containers": [{"name": "web"}]}},
        {"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "hugepages-2Mi": "2Mi"}}}]}},
        {"spec": {"containers": [{"resources": {"limits": {"x.kubernetes.io/y": 1}}}]}},
        {"metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}},
        {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "L4"}, "containers": []}},
        {"metadata": None, "spec": {"containers": None, "resourceClaims": [{"name": "own"}]}},
        "no pod",
    ],
    ids=["web", "native", "extension", "labels", "selector-alone", "nulls", "text"],
)
def test_a_pod_without_devices_is_not_covered(pod: Value) -> None:
    assert not of_note(pod, USUAL)
    assert not covers(pod, derive_interest(USUAL))


NETWORKED: YamlValue = {
    "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "default/a"}},
    "spec": {"containers": [{"name": "a"}]},
}


def test_pods_with_networks_are_not_covered_if_the_finding_is_off() -> None:
    silent = {FindingCode("NetworkUnknown"): "off"}
    quiet = Configuration(findings=silent)  # type: ignore[arg-type]  # as it is loaded
    named = Legacy(networks={NetworkName("default/a"): ResourceName("intel.com/vf")})
    assert not covers(NETWORKED, derive_interest(quiet))
    assert covers(NETWORKED, derive_interest(USUAL))
    assert covers(NETWORKED, derive_interest(Configuration(findings=silent, legacy=named)))  # type: ignore[arg-type]


KEYS = st.sampled_from(
    [
        "nvidia.com/gpu", "example.com/gpu", "kubernetes.io/gpu", "kubernetes.io/rdma", "cpu",
        "koordinator.sh/gpu-core", "a.kubernetes.io/b", "requests.nvidia.com/gpu", "rdma/hca",
        "hugepages-1Gi", "memory", "/", "tencent.com/vcuda-core",
    ]
)  # fmt: skip
NOTES = st.sampled_from(
    [
        "gpu-fraction", "gpu-memory", "mps", "tensor-fusion.ai/enabled", "kai.scheduler/queue",
        "tensor-fusion.ai/vram-limit", "k8s.v1.cni.cncf.io/networks", "app", "hami.io/vgpu-node",
        "v1.multus-cni.io/default-network", "scheduling.koordinator.sh/device-allocate-hint",
        "drawbridge.dev/original", "gpu-fraction-num-devices", "nvidia.com/vgpu-mode",
    ]
)  # fmt: skip
AMOUNTS = st.sampled_from(["1", 1, "0", "50", "x", None, "true"])
MAPS = st.dictionaries(KEYS, AMOUNTS, max_size=3) | st.none()
TEXTS = st.dictionaries(NOTES, st.sampled_from(["1", "0.5", "true", "a", ""]), max_size=4)
CONTAINER = st.fixed_dictionaries(
    {
        "name": st.just("a"),
        "resources": st.fixed_dictionaries({}, optional={"limits": MAPS, "requests": MAPS}),
    }
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({}, optional={"annotations": TEXTS, "labels": TEXTS}),
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(CONTAINER, max_size=2)},
            optional={
                "initContainers": st.lists(CONTAINER, max_size=1),
                "schedulerName": st.sampled_from(
                    ["kai-scheduler", "volcano", "koord-scheduler", "hami-scheduler"]
                ),
            },
        ),
    }
)


@given(PODS)
@settings(max_examples=drawn(40, thorough=200))
def test_any_generated_pod_with_findings_or_requests_is_covered(pod: Value) -> None:
    renamed = Legacy(renames={ResourceName("example.com/gpu"): ResourceName("nvidia.com/gpu")})
    for configuration in (USUAL, Configuration(legacy=renamed)):
        assert not of_note(pod, configuration) or covers(pod, derive_interest(configuration))


def test_a_claim_selects_a_pod_in_bridge_placement_only() -> None:
    own: YamlValue = {"spec": {"resourceClaims": [{"name": "own", "resourceClaimName": "gpu"}]}}
    bridge = derive_interest(Configuration(placement=Placement.BRIDGE))
    assert covers(own, bridge)
    assert not covers(own, derive_interest(USUAL))
    assert not covers({"spec": {"resourceClaims": []}}, bridge)


GROUPS = load_cases(HERE.parent / "cases" / "pod_groups.yaml")


@every_row("case", GROUPS, ids=lambda case: str(case["name"]))
def test_a_member_of_a_group_is_covered_in_bridge_placement_only(case: YamlValue) -> None:
    bridge = derive_interest(Configuration(placement=Placement.BRIDGE))
    assert covers(case["pod"], bridge) or case["group"] is None
    assert not covers(case["pod"], derive_interest(USUAL))
