"""Pods that can run on one node only, in a cluster where plugins and drivers are on other nodes."""

from typing import Any

import pytest

from drawbridge.agreement.match_conditions import derive_conditions
from drawbridge.config.model import Configuration
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import Quantity
from drawbridge.facts.alike import SeenNode
from drawbridge.names import POD_WEBHOOK
from tests.tables import YamlValue
from tests.webhook.admission.harness import AdmissionHarness, pod
from webhook.admission.protocols import RecentInputs
from webhook.admission.tied_pods import MAX_BYTES

pytestmark = pytest.mark.asyncio
NAME, CLASS = "nvidia.com/gpu", "gpu.nvidia.com"
HOSTNAME = "kubernetes.io/hostname"
MIXED = {
    "classes": [{"name": CLASS, "drivers": [CLASS], "devices": 8}],
    "names": [{"name": NAME, "nodes": 1, "devices": 8, "most": 8}],
    "offers": [{"classes": [CLASS]}, {"names": [NAME]}],
}
UNMIXED = {**MIXED, "names": [], "offers": [{"classes": [CLASS]}]}
ANY_NODE = pod({NAME: "1"})


def plugin_node(name: str = "plugin", **labels: str) -> SeenNode:
    return SeenNode(Node(name, labels, allocatable={NAME: Quantity.of(8)}))


def driver_node(name: str = "driver") -> SeenNode:
    return SeenNode(Node(name), frozenset({CLASS}))


def requiring(*terms: YamlValue) -> YamlValue:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod({NAME: "1"}, affinity=affinity)


def named(key: str, *values: str) -> YamlValue:
    return {"key": key, "operator": "In", "values": list(values)}


def daemon(node: str) -> YamlValue:
    """Return a pod as the DaemonSet controller makes it."""
    made = requiring({"matchFields": [named("metadata.name", node)]})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "1"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


def build(*nodes: SeenNode, facts: YamlValue = None) -> AdmissionHarness:
    harness = AdmissionHarness()
    harness.configure({}, facts or MIXED)
    harness.cluster.unread = {each.node.name: each for each in nodes}
    return harness


async def is_translated(harness: AdmissionHarness, object_: YamlValue) -> bool:
    response = await harness.pod(object_)
    assert response.allowed, response.status
    return "resourceClaims" in response.after["spec"]


async def test_a_pod_of_a_daemon_set_is_decided_by_its_node() -> None:
    harness = build(plugin_node(), driver_node())
    assert not await is_translated(harness, daemon("plugin"))
    assert await is_translated(harness, daemon("driver"))
    assert await is_translated(harness, ANY_NODE)
    assert harness.cluster.reads == ["plugin", "driver"]
    # A node that was read a short time ago is not read again.
    assert not await is_translated(harness, daemon("plugin"))
    assert harness.cluster.reads == ["plugin", "driver"]


async def test_what_stays_is_told_without_a_word_about_other_nodes() -> None:
    response = await build(plugin_node()).pod(daemon("plugin"))
    (warning,) = response.warnings
    assert "stays with its device plugin: no node that could run the pod offers" in warning


async def test_a_node_that_has_moved_is_decided_anew() -> None:
    harness = build(plugin_node("a"))
    assert not await is_translated(harness, daemon("a"))
    harness.cluster.nodes["a"] = driver_node("a")
    assert await is_translated(harness, daemon("a"))


@pytest.mark.parametrize("seen", [(), (SeenNode(Node("plugin")),)])
async def test_the_facts_decide_if_the_node_tells_nothing(seen: tuple[SeenNode, ...]) -> None:
    """It does not respond, or has neither plugin nor driver yet."""
    harness = build(*seen)
    assert await is_translated(harness, daemon("plugin"))
    assert harness.cluster.reads == ["plugin"]


async def test_no_node_is_read_where_all_nodes_are_alike() -> None:
    harness = build(plugin_node(), facts=UNMIXED)
    assert await is_translated(harness, daemon("plugin"))
    assert harness.cluster.reads == []


async def test_a_pod_of_a_hostname_is_decided_by_the_node_of_that_name() -> None:
    selecting = pod({NAME: "1"}, nodeSelector={HOSTNAME: "plugin"})
    expression = requiring({"matchExpressions": [named(HOSTNAME, "plugin")]})
    for object_ in (selecting, expression):
        assert not await is_translated(build(plugin_node(**{HOSTNAME: "plugin"})), object_)
        # The node with this label has another name.
        assert await is_translated(build(plugin_node(**{HOSTNAME: "other"})), object_)


@pytest.mark.parametrize(
    "terms",
    [
        [{"matchFields": [named("metadata.name", "plugin")]}, {"matchExpressions": [named("a")]}],
        [{"matchExpressions": [named(HOSTNAME, "plugin", "other")]}],
    ],
)
async def test_a_pod_that_several_nodes_can_run_is_decided_by_the_facts(
    terms: list[YamlValue],
) -> None:
    assert await is_translated(build(plugin_node()), requiring(*terms))


async def test_no_long_pod_is_searched_for_its_node() -> None:
    harness, long = build(plugin_node()), daemon("plugin")
    long["spec"]["containers"][0]["args"] = ["x" * MAX_BYTES]
    assert await is_translated(harness, long)
    assert harness.cluster.reads == []


async def test_the_guard_denies_no_pod_whose_node_may_have_been_seen_differently() -> None:
    conditions = derive_conditions(Configuration())[POD_WEBHOOK]
    listed = [{"name": name, "expression": text} for name, text in conditions.items()]
    webhook: dict[str, Any] = {"webhooks": [{"name": POD_WEBHOOK, "matchConditions": listed}]}
    harness = build(driver_node())
    context = harness.cluster.context
    assert context is not None
    assert context.facts is not None
    inputs = RecentInputs((Configuration(),), (context.facts,), (webhook,), is_complete=True)
    harness.cluster.recent = inputs
    response = await harness.guarded_pod(daemon("driver"))
    assert response.allowed
    assert any(each.startswith("RequestsAddedLate") for each in response.warnings)
    assert not (await harness.guarded_pod(ANY_NODE)).allowed


@pytest.mark.parametrize(
    ("kind", "facts", "told"), [("DaemonSet", MIXED, True), ("Deployment", MIXED, False)]
)
async def test_a_daemon_set_is_told_that_each_pod_is_decided_by_its_node(
    kind: str, facts: YamlValue, *, told: bool
) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": ANY_NODE["spec"]}
    metadata = {"name": "d", "namespace": "team"}
    object_ = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata}
    response = await build(facts=facts).workload({**object_, "spec": {"template": template}})
    said = [each for each in response.warnings if each.startswith("PodsDecidedByNode")]
    assert bool(said) is told
    assert all(f"serves {NAME} on 1 node, and claims can use 1 node" in each for each in said)
