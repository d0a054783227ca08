"""DaemonSets while some nodes have a device plugin, and others a driver."""

import pytest

from drawbridge.config.model import Configuration
from drawbridge.facts.model import ClassFacts, Facts, NodeOffer, ResourceFacts
from drawbridge.names import DEVICES_LABEL, TRANSLATE_LABEL
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue
from tests.webhook.admission.harness import AdmissionHarness, pod

NAME, CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
CODE = "DaemonSetOnMixedNodes"
SERVED = NodeOffer(classes=(CLASS,), nodes=3)
WITH_PLUGIN = NodeOffer(names=(NAME,), nodes=2)
DUAL = NodeOffer(classes=(CLASS,), names=(NAME,), dual=True)
OPTED_OUT = {TRANSLATE_LABEL: "off"}
MOVED = {"nodeSelector": {DEVICES_LABEL: CLASS}}


def make_facts(*offers: NodeOffer) -> Facts:
    nodes = sum(each.nodes for each in offers if NAME in each.names)
    names = (ResourceFacts(NAME, nodes=nodes, devices=8 * nodes, most=8),)
    classes = (ClassFacts(CLASS, drivers=(CLASS,), devices=8),)
    return Facts(classes=classes, names=names, offers=offers)


def workload(
    kind: str = "DaemonSet", labels: YamlValue = None, **spec: YamlValue
) -> dict[str, YamlValue]:
    template = {"metadata": {"labels": labels or {}}, "spec": pod({NAME: "1"}, **spec)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "d", "namespace": "team"},
        "spec": {"template": template},
    }


def messages(object_: YamlValue, *offers: NodeOffer) -> list[str]:
    context = make_context(Configuration(), make_facts(*offers))
    findings = translate_object(object_, "d", context).findings
    return [each.message for each in findings if each.code == CODE]


def build() -> AdmissionHarness:
    harness = AdmissionHarness()
    names = [{"name": NAME, "nodes": 2, "devices": 16, "most": 8}]
    classes = [{"name": CLASS, "drivers": [CLASS], "devices": 8}]
    offers = [{"classes": [CLASS], "nodes": 3}, {"names": [NAME], "nodes": 2}]
    harness.configure({}, {"classes": classes, "names": names, "offers": offers})
    return harness


def test_a_daemon_set_is_told_how_many_nodes_serve_it() -> None:
    (message,) = messages(workload(), SERVED, WITH_PLUGIN)
    assert message == (
        f"3 nodes can serve claims for {NAME}; new pods wait on 2 nodes whose device plugin "
        "still serves it"
    )


def test_new_pods_wait_on_dual_nodes_too() -> None:
    (message,) = messages(workload(), SERVED, WITH_PLUGIN, DUAL)
    assert "wait on 3 nodes whose" in message


@pytest.mark.parametrize("offers", [(SERVED,), (WITH_PLUGIN,), (SERVED, NodeOffer())])
def test_nothing_is_told_where_nodes_with_the_devices_are_alike(
    offers: tuple[NodeOffer, ...],
) -> None:
    assert messages(workload(), *offers) == []


@pytest.mark.parametrize(
    "object_", [workload("Deployment"), workload(labels=OPTED_OUT), workload(**MOVED)]
)
def test_nothing_is_told_of_pods_that_get_what_their_nodes_have(object_: YamlValue) -> None:
    assert messages(object_, SERVED, WITH_PLUGIN) == []


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("object_", "is_told"), [(workload(), True), (workload(labels=OPTED_OUT), False)]
)
async def test_admission_tells_the_same(object_: YamlValue, *, is_told: bool) -> None:
    warnings = (await build().workload(object_)).warnings
    assert any(each.startswith(CODE) for each in warnings) is is_told


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("labels", "spec", "is_translated"),
    [({}, {}, True), (OPTED_OUT, {}, False), ({}, MOVED, True)],
)
async def test_the_remedy_lets_two_daemon_sets_serve_both_kinds_of_nodes(
    labels: YamlValue, spec: YamlValue, *, is_translated: bool
) -> None:
    created = pod({NAME: "1"}, **spec)
    created["metadata"]["labels"] = labels
    response = await build().pod(created)
    assert response.allowed
    translated = "resourceClaims" in response.after["spec"] if response.patch else False
    assert translated is is_translated
