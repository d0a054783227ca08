"""The series of usage: tenants choose their number of claims and namespaces, not that of labels."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from controller import usage_series
from controller.device_users import DeviceUsers, read_device_pod
from controller.usage_books import MAX_GROUPS, OTHERS
from controller.usage_series import MAX_ACCOUNTS, UsageSeries
from drawbridge.process.named_series import IDLE_SECONDS, OTHER
from drawbridge.process.usage_metrics import DEVICE_LABELS, Usage
from drawbridge.report.stuck.objects import HangingPod
from tests.cluster.memory_store import MemoryStore
from tests.controller.test_usage import CLASS, TEAM, Cluster, Controller
from tests.tables import every_row

MAX_DEVICES = 50


def series_of(
    controller: Controller,
    *,
    leads: bool = True,
    pods: MemoryStore[HangingPod] | None = None,
) -> UsageSeries:
    return UsageSeries(
        controller.observer,
        lambda: controller.books.totals if leads else None,
        MemoryStore(None, decode=read_device_pod) if pods is None else pods,
        max_devices=MAX_DEVICES,
    )


def observe(cluster: Cluster) -> Controller:
    """A controller whose book has ten seconds of what the cluster holds."""
    controller = Controller(cluster)
    controller.check()
    controller.write()
    cluster.time += 13
    controller.write()
    return controller


def read(series: UsageSeries) -> Usage:
    return asyncio.run(series.read())


def test_many_namespaces_share_one_series_beyond_the_bound() -> None:
    cluster = Cluster()
    total = MAX_GROUPS + 100
    for number in range(total):
        cluster.claim("a", "gpu-0", namespace=f"team-{number}")
    usage = read(series_of(observe(cluster)))
    for uses, seconds in ((usage.held, 1), (usage.used, 10)):
        groups = {(use.namespace, use.class_name) for use in uses}
        assert len(groups) == MAX_GROUPS + 1
        assert (OTHER, OTHER) in groups
        assert sum(use.devices for use in uses) == total * seconds


def test_the_owners_that_hold_most_have_series_and_the_others_are_summed_up() -> None:
    cluster = Cluster()
    for number in range(MAX_ACCOUNTS + 100):
        cluster.claim(f"claim-{number}", "gpu-0")
    cluster.claim("large", "gpu-1", "gpu-2")
    held = {use.owner: use.devices for use in read(series_of(observe(cluster))).held}
    assert len(held) == MAX_ACCOUNTS + 1
    assert held["ResourceClaim/large"] == 2
    assert held[OTHER] == 101


def test_the_devices_beyond_the_bound_are_counted() -> None:
    cluster = Cluster()
    for number in range(MAX_DEVICES):
        cluster.claim(f"claim-{number}", "gpu-0", "gpu-1")
    usage = read(series_of(observe(cluster)))
    assert len(usage.devices) == usage.left_out == MAX_DEVICES


def test_a_namespace_has_a_series_whatever_namespaces_have_come_and_gone() -> None:
    cluster = Cluster()
    controller = observe(cluster)
    series = series_of(controller)
    before: dict[tuple[str, str], float] = {}
    for round_ in range(3):
        for number in range(MAX_GROUPS // 2 + 1):
            cluster.claim(f"a-{number}", "gpu-0", namespace=f"{round_}-{number}")
        cluster.time += 60
        controller.write()
        used = {(use.namespace, use.class_name): use.devices for use in read(series).used}
        # Counters: none goes, none decreases, and they are as many as the bound allows.
        assert all(used[group] >= seconds for group, seconds in before.items())
        assert (len(used) <= MAX_GROUPS + 1, OTHERS in used) == (True, round_ > 0)
        assert used.keys() == controller.books.totals.keys()
        before = used
        for number in range(MAX_GROUPS // 2 + 1):
            cluster.claims.remove(f"a-{number}", f"{round_}-{number}")
    cluster.claim("a", "gpu-0")
    (held,) = read(series).held
    assert (held.namespace, held.class_name, held.devices) == (TEAM, CLASS, 1)


def test_a_namespace_without_usage_for_an_hour_makes_way_for_a_new_one() -> None:
    cluster = Cluster()
    for number in range(MAX_GROUPS):
        cluster.claim("a", "gpu-0", namespace=f"ci-{number}")
    controller = observe(cluster)
    cluster.claims.remove("a", "ci-7")
    cluster.time += 60
    controller.write()
    cluster.claim("a", "gpu-0")
    used = []
    for seconds in (60, IDLE_SECONDS, 60):
        cluster.time += int(seconds)
        controller.write()
        used.append({use.namespace: use.devices for use in read(series_of(controller)).used})
    assert [(TEAM in each, "ci-7" in each, len(each)) for each in used] == [
        (False, True, MAX_GROUPS + 1),
        (True, False, MAX_GROUPS + 1),
        (True, False, MAX_GROUPS + 1),
    ]
    # What went was not added to another series, where it would have been used now.
    assert used[0][OTHER] == used[2][OTHER] > 0
    assert used[2][TEAM] == IDLE_SECONDS + 60


def test_who_comes_after_an_outage_takes_no_place_of_those_that_hold_devices() -> None:
    cluster = Cluster()
    for number in range(MAX_GROUPS):
        cluster.claim("a", "gpu-0", namespace=f"ci-{number}")
    controller = observe(cluster)
    cluster.claim("a", "gpu-0")
    cluster.time += 2 * int(IDLE_SECONDS)
    controller.write()
    groups = {use.namespace for use in read(series_of(controller)).used}
    assert groups == {*(f"ci-{number}" for number in range(MAX_GROUPS)), OTHER}


def test_a_replica_that_does_not_lead_shows_nothing() -> None:
    cluster = Cluster()
    cluster.claim("a", "gpu-0")
    usage = read(series_of(observe(cluster), leads=False))
    assert (usage.held, usage.used, usage.devices, usage.left_out) == ([], [], [], 0)


def device_pod(**containers: list[dict[str, str]]) -> dict[str, Any]:
    """A pod whose containers use the claim `gpu` so."""
    return {
        "metadata": {"name": "p", "namespace": TEAM},
        "spec": {
            "containers": [
                {"name": name, "resources": {"claims": uses}} for name, uses in containers.items()
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        },
        "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "c"}]},
    }


@every_row(
    ("containers", "expected"),
    [
        ({"main": [{"name": "gpu"}], "side": []}, "main"),
        ({"main": [{"name": "gpu", "request": "gpu"}]}, "main"),
        ({"main": [{"name": "gpu", "request": "nic"}], "side": [{"name": "gpu"}]}, "side"),
        ({"main": [{"name": "gpu"}], "side": [{"name": "gpu"}]}, ""),
        ({"main": [{"name": "gpu", "request": "gpu"}], "side": [{"name": "gpu"}]}, ""),
        ({"main": [{"name": "gpu", "request": "gpu"}, {"name": "gpu"}]}, "main"),
        ({"main": [{"name": "other"}]}, ""),
    ],
)
def test_the_only_container_that_uses_a_request_is_found(
    containers: dict[str, list[dict[str, str]]], expected: str
) -> None:
    pods = MemoryStore(HangingPod)
    users = DeviceUsers(pods.put(device_pod(**containers)).value)
    assert users.find("c", "gpu") == expected


def test_containers_of_extended_resources_are_those_of_the_mapping() -> None:
    pod = device_pod(main=[])
    mapping = {"containerName": "main", "requestName": "r-0", "resourceName": "nvidia.com/gpu"}
    claim = {"resourceClaimName": "x", "requestMappings": [mapping]}
    pod["status"]["extendedResourceClaimStatus"] = claim
    pods = MemoryStore(HangingPod)
    users = DeviceUsers(pods.put(pod).value)
    assert (users.find("x", "r-0"), users.find("x", "r-1")) == ("main", "")


def test_a_device_has_the_container_that_uses_it_and_its_share() -> None:
    cluster = Cluster()
    cluster.claim("c", "gpu-0", reserved="p", memory="5Gi")
    pods: MemoryStore[HangingPod] = MemoryStore(None, decode=read_device_pod)
    pods.put(device_pod(main=[{"name": "gpu"}]))
    ((labels, _),) = read(series_of(observe(cluster), pods=pods)).devices
    named = dict(zip(DEVICE_LABELS, labels, strict=True))
    assert (named["pod"], named["container"]) == ("p", "main")
    assert (named["shared"], named["share"]) == ("true", "a")


def test_a_scrape_reads_a_pod_once_and_describes_one_claim_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, cluster = [f"c{number}" for number in range(6)], Cluster()
    for number, name in enumerate(names):
        cluster.claim(name, "gpu-0", "gpu-0", reserved=f"p{number % 2}")
    read_pods, described, turns = list[HangingPod](), list[str](), list[int]()

    class Users(DeviceUsers):
        def __init__(self, pod: HangingPod) -> None:
            read_pods.append(pod)
            super().__init__(pod)

        def find(self, claim: str, request: str) -> str:
            described.append(claim)
            return super().find(claim, request)

    monkeypatch.setattr(usage_series, "DeviceUsers", Users)
    pods: MemoryStore[HangingPod] = MemoryStore(None, decode=read_device_pod)
    for name in ("p0", "p1"):
        pods.put({**device_pod(), "metadata": {"name": name, "namespace": TEAM}})
    series = series_of(observe(cluster), pods=pods)

    async def scrape() -> Usage:
        reading = asyncio.ensure_future(series.read())
        while not reading.done():
            turns.append(len(described))
            await asyncio.sleep(0)
        return await reading

    assert len(asyncio.run(scrape()).devices) == len(described) == 12
    assert len(read_pods) == 2
    assert max(after - before for before, after in pairwise(turns)) == 2


def test_a_device_that_nobody_publishes_has_a_series_without_node_and_uuid() -> None:
    cluster = Cluster()
    cluster.claim("c", "gone")
    ((labels, _),) = read(series_of(observe(cluster))).devices
    named = dict(zip(DEVICE_LABELS, labels, strict=True))
    assert (named["device"], named["node"], named["uuid"]) == ("gone", "", "")
    assert (named["shared"], named["share"]) == ("false", "")
