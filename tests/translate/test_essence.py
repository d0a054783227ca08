"""What a translation looks at: pods that differ in nothing of it are translated once, and alike."""

import copy
import math
from collections.abc import Callable

import msgspec
import pytest

from drawbridge.config.model import Configuration, Legacy
from drawbridge.documents.values import Value
from drawbridge.translate.changes.environment import DEVICE_VARIABLES
from drawbridge.translate.context import make_context
from drawbridge.translate.essence import essence_key
from drawbridge.translate.legacy.asks import SET_VARIABLES
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row


def pod(image: str = "a", owner: str = "one", **env: str) -> dict[str, Value]:
    return {
        "metadata": {
            "generateName": f"{owner}-",
            "labels": {"app": owner, "pod-template-hash": f"{len(owner)}"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": owner, "uid": owner}],
        },
        "spec": {
            "serviceAccountName": owner,
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "env": [{"name": name, "value": value} for name, value in env.items()],
                    "resources": {"limits": {"nvidia.com/gpu": 1}},
                }
            ],
        },
    }


def test_pods_with_equal_requests_share_one_translation() -> None:
    by = make_context(Configuration())
    first = translate(pod("a", "one", LEVEL="1"), by)
    assert translate(pod("b", "other", LEVEL="2"), by) is first


def test_names_and_values_of_other_variables_change_no_key() -> None:
    assert essence_key(pod(LEVEL="1")) == essence_key(pod(OTHER="2"))
    for read in sorted(DEVICE_VARIABLES | SET_VARIABLES):
        keys = {essence_key(pod(**env)) for env in ({read: "1"}, {read: "2"}, {"OTHER": "1"})}
        assert len(keys) == 3


def test_a_variable_that_a_dialect_sets_is_added_where_the_user_has_none() -> None:
    limits = {"nvidia.com/gpu": 1, "nvidia.com/priority": 1}
    by = make_context(Configuration())
    added = []
    for env in ({"OTHER": "1"}, {"CUDA_TASK_PRIORITY": "7"}):
        given = pod(**env)
        given["spec"]["containers"][0]["resources"]["limits"] = limits  # type: ignore[index,call-overload]
        paths = [str(edit.path) for edit in translate(given, by).edits]
        added.append(any("env" in path for path in paths))
    assert added == [True, False]


@every_row(
    "change",
    [
        pytest.param(lambda p: p["spec"].update(schedulerName="x"), id="scheduler"),
        pytest.param(lambda p: p["spec"].update(nodeName="x"), id="node"),
        pytest.param(lambda p: p["metadata"].update(namespace="x"), id="namespace"),
        pytest.param(lambda p: p["metadata"].update(annotations={"x": "y"}), id="annotation"),
        pytest.param(lambda p: p["spec"].update(tolerations=[{"key": "x"}]), id="toleration"),
        pytest.param(
            lambda p: p["spec"]["containers"][0].update(env=[{"name": "NVIDIA_X", "value": "1"}]),
            id="variable",
        ),
        pytest.param(
            lambda p: p["spec"]["containers"][0]["resources"].update(
                limits={"nvidia.com/gpu": True}
            ),
            id="true is not 1",
        ),
        pytest.param(
            lambda p: p["spec"]["containers"][0]["resources"].update(
                limits={"nvidia.com/gpu": 1.0}
            ),
            id="1.0 is not 1",
        ),
    ],
)
def test_fields_that_a_translation_reads_change_the_key(
    change: Callable[[YamlValue], None],
) -> None:
    other = copy.deepcopy(pod())
    change(other)
    assert essence_key(other) != essence_key(pod())


def test_nan_and_null_have_different_keys() -> None:
    assert essence_key({"spec": {"nodeName": math.nan}}) != essence_key(
        {"spec": {"nodeName": None}}
    )


def test_the_namespace_is_part_of_the_key() -> None:
    assert essence_key(pod(), "one") != essence_key(pod(), "other")


@pytest.mark.parametrize("value", ["\ud800", 1 << 80, object()], ids=["half", "huge", "none"])
def test_a_pod_that_cannot_be_encoded_has_no_key(value: object) -> None:
    assert essence_key({"spec": {"nodeName": value}}) is None  # type: ignore[dict-item]  # that is the point


def test_a_pod_that_cannot_be_encoded_is_still_translated() -> None:
    odd = pod()
    odd["metadata"]["annotations"] = {"x": "\ud800"}  # type: ignore[index,call-overload]
    by = make_context(Configuration())
    assert translate(odd, by).findings == translate(pod(), by).findings


def test_pods_whose_networks_have_lists_as_parameters_are_translated() -> None:
    networks = '[{"name": "sriov-a", "namespace": "default", "ips": ["10.0.0.1/24"]}]'
    given = pod()
    given["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/networks": networks}  # type: ignore[index,call-overload]
    given["spec"]["containers"][0]["resources"]["limits"] = {"openshift.io/sriov_a": 1}  # type: ignore[index,call-overload]
    legacy = Legacy(networks={"default/sriov-a": "openshift.io/sriov_a"})
    by = msgspec.structs.replace(make_context(Configuration(legacy=legacy)), translations=None)
    asks = read_pod(given, by.configuration).asks
    with pytest.raises(TypeError):
        hash(asks)
    first, second = (translate(given, by).templates for _ in range(2))
    assert first == second
    assert len(first) == len(asks)
