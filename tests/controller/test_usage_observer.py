"""What an observer reads of caches that change, and of objects that have one name."""

import asyncio
import copy
from fractions import Fraction
from typing import Any

from drawbridge.agreement.slice_limits import MAX_OF_DRIVER
from drawbridge.usage.accounts import UNKNOWN, UsedAmount
from tests.controller.test_usage import (
    CLASS,
    GIB,
    NOW,
    SLICE,
    TEAM,
    Cluster,
    Controller,
    devices,
    plugin_pod,
)
from tests.tables import every_row

PLUGIN = {"nvidia.com/gpu": "1"}


def test_what_changes_while_an_observer_begins_counts_as_it_is_then() -> None:
    cluster = Cluster()
    cluster.claim("ended", "gpu-0", allocated=NOW)
    cluster.device_pods.put(plugin_pod("ended", "old", PLUGIN))
    controller = Controller(cluster)

    async def begin() -> None:
        checked = asyncio.create_task(controller.observer.check())
        await asyncio.sleep(0)  # it reads the claims
        cluster.claims.remove("ended", TEAM)
        cluster.claim("new", "gpu-1", allocated=NOW)
        await asyncio.sleep(0)  # it reads the pods
        cluster.device_pods.remove("ended", TEAM)
        cluster.device_pods.put(plugin_pod("new", "train", PLUGIN))
        await checked

    asyncio.run(begin())
    controller.write()
    cluster.time += 103
    controller.write()
    assert cluster.used() == {
        (TEAM, "ResourceClaim/new"): devices(100, gib=100 * 80),
        (TEAM, "Job/train"): devices(100),
    }


def test_the_newest_generation_of_a_device_counts() -> None:
    cluster = Cluster()
    for generation in range(2, 9):
        published = copy.deepcopy(SLICE)
        published["metadata"]["name"] = f"generation-{generation}"
        published["spec"]["pool"]["generation"] = generation
        for device in published["spec"]["devices"]:
            device["capacity"]["memory"]["value"] = f"{80 + generation}Gi"
        cluster.slices.put(published)
    controller = Controller(cluster)
    cluster.claim("a", "gpu-0")
    controller.write()
    cluster.time += 103
    controller.write()
    assert cluster.used() == {(TEAM, "ResourceClaim/a"): devices(100, gib=100 * 88)}


def publish(
    number: int, node: str, generation: int, memory: str, *, name: str = "gpu-0"
) -> dict[str, Any]:
    """A slice for a node that names the pool of node-1; for all nodes without one."""
    published = copy.deepcopy(SLICE)
    published["metadata"]["name"] = f"{node}-{number}"
    spec = published["spec"]
    spec["pool"]["generation"] = generation
    spec["devices"] = [{"name": name, "capacity": {"memory": {"value": memory}}}]
    if node:
        spec["nodeName"] = node
    else:
        del spec["nodeName"]
        spec["allNodes"] = True
    return published


@every_row(
    ("slices", "removed", "expected"),
    [
        # Of the node itself, the newest generation counts, and what only an older one has.
        ([publish(1, "node-1", 2, "90Gi")], False, ("node-1", 90)),
        ([publish(1, "node-1", 2, "90Gi", name="gpu-7")], False, ("node-1", 80)),
        # Another node says nothing about its devices.
        ([publish(1, "bad", 2**40, "8Ei")], False, ("node-1", 80)),
        ([publish(1, "bad", 2**40, "1"), publish(2, "bad", 1, "2")], False, ("node-1", 80)),
        ([publish(1, "bad", 2**40, "1")], True, ("bad", Fraction(1, GIB))),
        # A pool of all nodes is what its own slices say.
        ([publish(1, "bad", 2**40, "8Ei"), publish(1, "", 1, "70Gi")], True, ("", 70)),
        # A node that publishes too much says nothing at all.
        ([publish(each, "bad", 1, "1") for each in range(MAX_OF_DRIVER + 1)], True, ("", 0)),
    ],
)
def test_a_device_is_what_its_own_node_publishes(
    slices: list[dict[str, Any]],
    expected: tuple[str, int | Fraction],
    *,
    removed: bool,
) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.slices.subscribe(controller.observer.slice_changed)
    for each in slices:
        cluster.slices.put(each)
    if removed:
        cluster.slices.remove(SLICE["metadata"]["name"])  # type: ignore[index]  # a mapping
    cluster.claim("a", "gpu-0")
    controller.write()
    cluster.time += 103
    controller.write()
    node, memory = expected
    assert cluster.used() == {(TEAM, "ResourceClaim/a"): devices(100, gib=100 * memory)}
    device = controller.observer.find_device(CLASS, "node-1", "gpu-0")
    assert (device[0].node_name or "" if device is not None else "") == node


def test_a_claim_of_a_former_pod_is_not_charged_to_the_owner_of_its_successor() -> None:
    cluster = Cluster()
    cluster.pod("train-0", "train")
    cluster.claim("a", "gpu-0", pod="train-0", uid="uid-of-the-former-pod")
    controller = Controller(cluster)
    controller.write()
    cluster.time += 103
    controller.write()
    assert cluster.used() == {(TEAM, UNKNOWN): devices(100, gib=100 * 80)}


@every_row(
    ("share", "expected"),
    [
        ({}, devices(200, gib=200 * 80)),
        ({"memory": "20Gi"}, devices(50, gib=200 * 20)),
    ],
)
def test_a_claim_that_changes_while_nobody_publishes_its_device_holds_what_it_held(
    share: dict[str, str], expected: UsedAmount
) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.slices.subscribe(controller.observer.slice_changed)
    controller.write()
    cluster.claim("a", "gpu-0", allocated=NOW, **share)
    cluster.time += 103
    controller.write()
    cluster.slices.remove(SLICE["metadata"]["name"])  # type: ignore[index]  # a mapping
    cluster.claim("a", "gpu-0", allocated=NOW, reserved="b", **share)
    cluster.time += 100
    controller.write()
    assert cluster.used() == {(TEAM, "ResourceClaim/a"): expected}
