"""Reproductions: which devices the scheduler allocates."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from .cluster import (
    DefectError,
    Place,
    UnclearError,
    allocated,
    counter_set,
    device,
    happens,
    has_kind,
    kind_of,
)

NODES, DEVICES, ROUNDS, WRITERS = 8, 8, 3, 16


def one_device_twice_under_load(place: Place) -> None:
    """Many pods take all devices at once; no device may be in two claims."""
    for _ in range(NODES):
        place.publish(place.node(), [device(f"d{number}") for number in range(DEVICES)])
    template = place.template(place.wanted())
    for turn in range(ROUNDS):
        names = [f"pod-{turn}-{number}" for number in range(NODES * DEVICES)]
        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(lambda name: place.pod(name, template), names))
        done = happens(lambda names=names: all(map(place.has_node, names)), 60.0)  # type: ignore[misc]
        claims = place.objects("resourceclaims")
        counts = Counter(each for claim in claims for each in allocated(claim))
        twice = [each for each, count in counts.items() if count > 1]
        if twice:
            raise DefectError(f"allocated twice: {', '.join(twice)}")
        if not done:
            raise UnclearError("not all pods are bound")
        for name in names:
            place.end_pod(name)
        if happens(lambda: not place.objects("resourceclaims"), 60.0) is None:
            raise UnclearError("claims of removed pods stay")


def a_refused_device_keeps_its_counters(place: Place) -> None:
    """Two devices need the only unit, and one has a taint: the other must be allocated."""
    taint = {"key": "example.com/broken", "value": "", "effect": "NoSchedule"}
    devices = [device("d0", 1, taints=[taint]), device("d1", 1)]
    place.publish(place.node(), devices, [counter_set(1)])
    place.pod("pod", place.template(place.wanted()))
    place.expect_scheduled("pod")


def counters_of_shared_devices_are_forgotten(place: Place) -> None:
    """A share of the whole device consumes the only unit, so the partition must wait."""
    whole = device("d0", 1, allowMultipleAllocations=True, attributes=has_kind("whole"))
    part = device("d1", 1, attributes=has_kind("part"))
    place.publish(place.node(), [whole, part], [counter_set(1)])
    for name in ("whole", "part"):
        place.template(place.wanted(selector=kind_of(place.driver, name)), name=name)
    place.pod("first", "whole")
    place.prepare_scheduled("first")
    place.pod("second", "part")
    place.expect_waiting("second")


def counters_of_a_share_count_twice(place: Place) -> None:
    """The second share of a device consumes nothing more, so its pod must be bound."""
    place.publish(place.node(), [device("d0", 1, allowMultipleAllocations=True)], [counter_set(1)])
    template = place.template(place.wanted())
    place.pod("first", template)
    place.prepare_scheduled("first")
    place.pod("second", template)
    place.expect_scheduled("second")


def admin_access_needs_counters(place: Place) -> None:
    """A monitoring claim uses a device that a pod has, whose counters are consumed."""
    label = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    namespace = f"/api/v1/namespaces/{place.name}"
    place.api.call("PATCH", namespace, label, "merge-patch+json")
    place.publish(place.node(), [device("d0", 1)], [counter_set(1)])
    place.pod("user", place.template(place.wanted()))
    place.prepare_scheduled("user")
    monitor = place.template(place.wanted(adminAccess=True), name="monitor")
    place.pod("monitor", monitor)
    place.expect_scheduled("monitor")


def counters_of_a_withdrawn_device_are_free(place: Place) -> None:
    """The driver withdraws a device in use; the partition of its hardware must wait."""
    devices = [device(f"d{number}", 1, attributes=has_kind(f"{number}")) for number in range(2)]
    path = place.publish(place.node(), devices, [counter_set(1)])
    for number in range(2):
        selector = kind_of(place.driver, f"{number}")
        place.template(place.wanted(selector=selector), name=f"claim-{number}")
    place.pod("first", "claim-0")
    place.prepare_scheduled("first")
    slice_ = place.api.call("GET", path)
    slice_["spec"]["devices"] = devices[1:]
    place.api.call("PUT", path, slice_)
    place.pod("second", "claim-1")
    place.expect_waiting("second")


def an_incomplete_pool_stops_pods_for_all_devices(place: Place) -> None:
    """One node has an incomplete pool; a pod for all devices of a node must get the other node."""
    place.publish(place.node(), [device("d0")], missing=1)
    place.publish(place.node(), [device("d0")])
    place.pod("pod", place.template(place.wanted(allocationMode="All")))
    place.expect_scheduled("pod")
