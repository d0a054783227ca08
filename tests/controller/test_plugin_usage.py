"""The books of usage have what pods hold of device plugins."""

import pytest

from controller.plugin_usage import MOST_OF_POD
from drawbridge.usage.accounts import OTHER
from tests.controller.test_usage import CLASS, TEAM, Cluster, Controller, devices, plugin_pod


def test_hours_on_plugins_and_on_claims_are_in_one_sum() -> None:
    cluster = Cluster()
    cluster.device_pods.put(plugin_pod("before", "train", {"nvidia.com/gpu": "2"}))
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", pod="after", uid=cluster.pod("after", "train"))
    cluster.time += 100
    cluster.device_pods.remove("before", TEAM)
    cluster.time += 50
    controller.write()
    by_class = {
        account.class_name: amount.devices
        for book in cluster.books()
        for account, amount in book.used().items()
        if account.owner == "Job/train"
    }
    assert by_class == {"nvidia.com/gpu": 200, CLASS: 147}


def test_a_pod_holds_its_units_until_it_has_ended() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "cpu": "8"}
    cluster.device_pods.put(plugin_pod("p", "train", limits))
    cluster.time += 60
    cluster.device_pods.put(plugin_pod("p", "train", limits, phase="Succeeded"))
    cluster.time += 60
    controller.write()
    assert cluster.used() == {(TEAM, "Job/train"): devices(60)}
    (account,) = cluster.books()[0].used()
    assert account.class_name == "nvidia.com/gpu"


def test_a_pod_that_a_class_serves_counts_by_its_claim_only() -> None:
    cluster = Cluster()
    pod = plugin_pod("p", "train", {"nvidia.com/gpu": "1"})
    pod["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "x"}
    cluster.device_pods.put(pod)
    controller = Controller(cluster)
    controller.write()
    cluster.time += 60
    controller.write()
    assert cluster.used() == {}


def used_by_class(cluster: Cluster, controller: Controller) -> dict[str, int]:
    """What accounts used until now, in devices times seconds, by class."""
    controller.write()
    (book,) = cluster.books()
    return {account.class_name: int(used.devices) for account, used in book.used().items()}


def test_names_that_no_node_has_count_nothing() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    invented = {f"nvidia.com/mig-{number}": "1" for number in range(1_000)}
    cluster.device_pods.put(plugin_pod("p", "train", {**invented, "nvidia.com/gpu": "1"}))
    cluster.time += 63
    assert used_by_class(cluster, controller) == {"nvidia.com/gpu": 60}


def test_a_name_of_a_node_counts_also_when_the_node_is_gone() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.node("n2", "amd.com/gpu")
    cluster.nodes.remove("n2")
    cluster.device_pods.put(plugin_pod("p", "train", {"amd.com/gpu": "1"}))
    cluster.time += 63
    assert used_by_class(cluster, controller) == {"amd.com/gpu": 60}


@pytest.mark.parametrize("name", ["amd.com/gpu", "vpc.amazonaws.com/efa", "openshift.io/sriov_a"])
def test_the_units_of_each_family_count(name: str) -> None:
    cluster = Cluster()
    cluster.node("n2", name)
    controller = Controller(cluster)
    controller.write()
    cluster.device_pods.put(plugin_pod("p", "train", {name: "4"}))
    cluster.time += 63
    assert used_by_class(cluster, controller) == {name: 240}


def test_the_last_of_many_names_of_a_pod_count_together() -> None:
    cluster = Cluster()
    names = [f"nvidia.com/mig-{number:02}" for number in range(MOST_OF_POD + 4)]
    cluster.node("n2", *names)
    controller = Controller(cluster)
    controller.write()
    cluster.device_pods.put(plugin_pod("p", "train", dict.fromkeys(names, "2")))
    cluster.time += 63
    assert used_by_class(cluster, controller) == {
        OTHER: 8 * 60,
        **dict.fromkeys(names[:MOST_OF_POD], 120),
    }


def test_a_pod_that_no_kubelet_has_admitted_holds_nothing() -> None:
    cluster = Cluster()
    pod = plugin_pod("p", "train", {"nvidia.com/gpu": "1"}, phase="Pending")
    del pod["status"]["startTime"]
    cluster.device_pods.put(pod)
    controller = Controller(cluster)
    controller.write()
    cluster.device_pods.put(pod)
    cluster.time += 63
    assert used_by_class(cluster, controller) == {}
