"""What an observer reads of caches that change, and of objects that have one name."""

import asyncio
import copy

from drawbridge.usage.accounts import UNKNOWN
from tests.controller.test_usage import (
    NOW,
    SLICE,
    TEAM,
    Cluster,
    Controller,
    devices,
    plugin_pod,
)

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


def test_a_claim_of_a_former_pod_is_not_charged_to_the_owner_of_its_successor() -> None:
    cluster = Cluster()
    cluster.pod("train-0", "train")
    cluster.claim("a", "gpu-0", pod="train-0", uid="uid-of-the-former-pod")
    controller = Controller(cluster)
    controller.write()
    cluster.time += 103
    controller.write()
    assert cluster.used() == {(TEAM, UNKNOWN): devices(100, gib=100 * 80)}
