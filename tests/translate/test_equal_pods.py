"""A pod and its essence have equal translations, for every pod of every table."""

import itertools
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drawbridge.config.model import Configuration, Legacy
from drawbridge.documents.patch import apply_edits
from drawbridge.facts.model import Facts
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.essence import reduce_to_essence
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.thorough import drawn
from tests.translate.injected_webhooks import INJECTED, injected

TABLES = Path(__file__).parent
PODS = [
    *load_cases(TABLES / "pods.yaml"),
    *(case for table in sorted(TABLES.glob("cases/dialects/*.yaml")) for case in load_cases(table)),
]
# Without the translation cache: its key is the essence, so both translations would be one.
WITHOUT_FACTS, WITH_FACTS = (
    msgspec.structs.replace(context, translations=None)
    for context in (
        make_context(Configuration()),
        make_context(Configuration(legacy=Legacy()), Facts()),
    )
)
# Fields that a cluster sets in every pod.
FILLED: YamlValue = {
    "image": "registry/x:1",
    "command": ["a"],
    "env": [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
        {"name": "NCCL_IB_HCA", "value": "=mlx5_0"},
        {"name": "HOME", "value": "/x"},
    ],
    "volumeMounts": [{"name": "kube-api-access-abcde", "mountPath": "/var/run"}],
    "livenessProbe": {"httpGet": {"path": "/"}},
}


def build_pod(case: YamlValue) -> YamlValue:
    """Build the pod of a case in either format, with the fields that a cluster sets."""
    template: YamlValue = case.get("pod", case) or {}
    spec: YamlValue = dict(template.get("spec", {}) or {})
    for part, key in (("containers", "containers"), ("init", "initContainers")):
        if isinstance(case.get(part), dict):
            spec[key] = [
                {"name": name, "resources": {"limits": limits}}
                for name, limits in case[part].items()
            ]
    for key in ("containers", "initContainers"):
        if isinstance(spec.get(key), list):
            spec[key] = [FILLED | each if isinstance(each, dict) else each for each in spec[key]]
    spec["volumes"] = [{"name": "kube-api-access-abcde"}, {"hostPath": {"path": "/dev/infiniband"}}]
    spec |= {"hostname": "h", "serviceAccountName": "default"}
    original: YamlValue = template.get("metadata") or {}
    metadata: YamlValue = {**original, "name": "p", "generateName": "p-"}
    for part in ("annotations", "labels"):
        if part in case:
            metadata[part] = {"app": "x", **case[part]}
    return {"metadata": metadata, "spec": spec}


def check_equal_translations(pod: YamlValue, by: TranslationContext) -> None:
    complete, reduced = translate(pod, by, "team"), translate(reduce_to_essence(pod), by, "team")
    assert reduced.edits == complete.edits
    assert reduced.templates == complete.templates
    assert reduced.findings == complete.findings
    apply_edits(pod, reduced.edits)  # they apply to the complete pod


@every_row("case", PODS, ids=lambda case: case["name"])
def test_a_pod_and_its_essence_have_equal_translations(case: YamlValue) -> None:
    for by in (WITHOUT_FACTS, WITH_FACTS):
        check_equal_translations(build_pod(case), by)


@pytest.mark.parametrize("put_back", [(), ("limits", "requests")])
@settings(max_examples=drawn(20, thorough=200))
@given(st.sampled_from(PODS), INJECTED)
def test_a_translated_pod_and_its_essence_have_equal_translations(
    put_back: tuple[str, ...], case: YamlValue, steps: list[tuple[str, int, int]]
) -> None:
    """Also after other webhooks inserted items, or put requests back."""
    pod = build_pod(case)
    for container in pod["spec"].get("containers") or ():
        container["env"] = [{"name": "HOME"}, {"name": "NVIDIA_VISIBLE_DEVICES"}]
    edits = translate(pod, WITHOUT_FACTS).edits
    assume(edits)
    changed: YamlValue = apply_edits(pod, edits)
    containers = zip(changed["spec"]["containers"], pod["spec"]["containers"], strict=True)
    for part, (container, asked) in itertools.product(put_back, containers):
        if part in asked.get("resources", {}):
            container.setdefault("resources", {})[part] = asked["resources"][part]
    check_equal_translations(injected(changed, pod, steps), WITHOUT_FACTS)


JSON: YamlValue = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.sampled_from(["a", "hostPath"]),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "env", "value", "volumes", "image", "hostPath"]), below
        )
    ),
    max_leaves=6,
)


@settings(max_examples=drawn(12, thorough=60))
@given(JSON, JSON, JSON, st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "A", None, 7]))
def test_any_field_value_has_an_essence(
    env: YamlValue, volumes: YamlValue, labels: YamlValue, name: YamlValue
) -> None:
    resources = {"limits": {"nvidia.com/gpu": 1}}
    container = {"name": "c", "env": [env, {"name": name}], "resources": resources}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    check_equal_translations(pod, WITHOUT_FACTS)
