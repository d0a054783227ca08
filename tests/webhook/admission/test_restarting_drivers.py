"""A driver that restarts offers nothing for a while, and no pod is denied for that."""

import pytest

from drawbridge.config.model import Configuration
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.translate.context import make_context
from e2e.nodes.family import CLASSES
from tests.facts.clusters import device_class
from tests.tables import YamlValue
from tests.translate import worlds
from tests.webhook.admission.harness import AdmissionHarness, pod
from webhook.admission.protocols import RecentInputs

pytestmark = pytest.mark.asyncio
MIG, SHARES = "dgx-a100 gpu.nvidia.com static-mig", "dgx-a100 hami-core-gpu.project-hami.io"


def build_facts(**words_by_node: tuple[str, ...]) -> Facts:
    """Return the facts of nodes with these machines and drivers."""
    slices = tuple(
        slice_
        for node, all_words in words_by_node.items()
        for words in all_words
        for slice_ in worlds.slices_of_node(node, *words.split())
    )
    classes = tuple(device_class(name, cel=cel) for name, cel in CLASSES.items())
    return gather_facts(FactsInput(slices, classes, ())).facts


APART = build_facts(a=(MIG,), b=(SHARES,))
OTHERS_APART = build_facts(a=(MIG,), b=(SHARES,), c=(SHARES,))
NOT_ALL_KNOWN = (build_facts(), build_facts(a=(MIG,)), build_facts(b=(SHARES,)))
TOGETHER = build_facts(a=(MIG, SHARES), b=(SHARES,))


def two_containers() -> YamlValue:
    """Return a pod whose containers need devices of two drivers."""
    made = pod()
    limits: list[YamlValue] = [
        {"nvidia.com/mig-1g.5gb": "1"},
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"},
    ]
    made["spec"]["containers"] = [
        {"name": f"c{i}", "image": "x", "resources": {"limits": own, "requests": dict(own)}}
        for i, own in enumerate(limits)
    ]
    return made


def build_harness(*kept: object) -> AdmissionHarness:
    """Return a handler with the facts of devices apart, and the versions that are kept."""
    harness = AdmissionHarness()
    harness.cluster.context = make_context(Configuration(), APART)
    harness.cluster.recent = RecentInputs(facts=kept)  # type: ignore[arg-type]  # facts
    return harness


async def test_a_pod_that_one_node_could_serve_a_short_time_ago_is_translated() -> None:
    response = await build_harness(APART, OTHERS_APART, TOGETHER).pod(two_containers())
    assert response.allowed, response.status
    warning = next(each for each in response.warnings if each.startswith("NoNodeOffersAll"))
    assert "but a node did a short time ago" in warning
    digest = make_context(Configuration(), TOGETHER).facts_digest
    assert response.after["metadata"]["annotations"]["drawbridge.dev/facts"] == digest
    assert len(response.after["spec"]["resourceClaims"]) >= 1


async def test_a_pod_that_no_node_could_serve_a_short_time_ago_is_denied() -> None:
    response = await build_harness(APART, OTHERS_APART).pod(two_containers())
    assert not response.allowed
    assert "NoNodeOffersAll" in response.status["message"]


async def test_facts_that_do_not_know_all_devices_say_nothing_about_a_node_with_them() -> None:
    response = await build_harness(APART, *NOT_ALL_KNOWN).pod(two_containers())
    assert not response.allowed
    assert "NoNodeOffersAll" in response.status["message"]
