"""The leader counts translated pods once, also those that are gone when somebody asks."""

from typing import Any

from drawbridge.usage.changes import read_changes
from tests.controller.test_usage import CLASS, TEAM, Cluster, Controller, plugin_pod, text_of


def translated_pod(cluster: Cluster, name: str, *, with_claim: bool = True) -> None:
    """Put a pod of a Job with a claim of a template of ours."""
    entry = {"name": "drawbridge", "resourceClaimTemplateName": "drawbridge-1a"}
    claim = {"name": "drawbridge", "resourceClaimName": f"{name}-claim"}
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": TEAM,
            "creationTimestamp": text_of(cluster.time),
            "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
        },
        "spec": {"resourceClaims": [entry], "containers": [{"name": "main"}]},
        "status": {"resourceClaimStatuses": [claim]} if with_claim else {},
    }
    cluster.device_pods.put(pod)


def changed(cluster: Cluster) -> list[tuple[str, str, str, int]]:
    """The rows of the book of changes."""
    (stored,) = cluster.config_maps.objects.values()
    read = read_changes(stored)
    assert read is not None
    return [*read.rows]


def test_translated_pods_are_in_the_book_when_they_are_gone() -> None:
    cluster = Cluster()
    template = {
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}
    }
    cluster.templates.put(
        {"metadata": {"name": "drawbridge-1a", "namespace": TEAM}, "spec": template}
    )
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    translated_pod(cluster, "a", with_claim=False)
    translated_pod(cluster, "a")
    translated_pod(cluster, "b")
    cluster.device_pods.remove("a", TEAM)
    cluster.time += 90
    controller.write()
    assert changed(cluster) == [(TEAM, "Job/train", f"1 device of class {CLASS}", 2)]


def test_another_leader_counts_what_the_book_does_not_have() -> None:
    cluster = Cluster()
    first = Controller(cluster)
    first.write()
    cluster.time += 10
    translated_pod(cluster, "a")
    cluster.time += 90
    first.write()
    cluster.time += 10
    second = Controller(cluster)
    translated_pod(cluster, "b")  # seen before it leads
    second.check()
    cluster.time += 90
    second.write()
    cluster.time += 90
    second.write()
    ((_, _, claims, number),) = changed(cluster)
    assert (claims, number) == ("drawbridge-1a", 2)


def test_pods_of_others_are_no_change() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    cluster.device_pods.put(plugin_pod("p", "train", {"nvidia.com/gpu": "1"}))
    cluster.time += 90
    controller.write()
    assert changed(cluster) == []
