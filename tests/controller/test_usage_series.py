"""The series of usage: tenants choose their number of claims and namespaces, not that of labels."""

import asyncio

from controller.usage_series import MAX_ACCOUNTS, MAX_GROUPS, OTHER, UsageSeries
from drawbridge.process.usage_metrics import Usage
from tests.controller.test_usage import CLASS, TEAM, Cluster, Controller

MAX_DEVICES = 50


def series_of(controller: Controller, *, leads: bool = True) -> UsageSeries:
    return UsageSeries(
        controller.observer,
        lambda: controller.books.totals,
        max_devices=MAX_DEVICES,
        is_leading=lambda: leads,
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


def test_a_namespace_keeps_its_series_when_others_come() -> None:
    cluster = Cluster()
    cluster.claim("a", "gpu-0")
    controller = observe(cluster)
    series = series_of(controller)
    read(series)
    for number in range(MAX_GROUPS + 10):
        cluster.claim("a", "gpu-0", namespace=f"a-{number}")
    later = [use for use in read(series).held if use.namespace == TEAM]
    assert [(use.class_name, use.devices) for use in later] == [(CLASS, 1)]


def test_a_replica_that_does_not_lead_shows_nothing_held() -> None:
    cluster = Cluster()
    cluster.claim("a", "gpu-0")
    usage = read(series_of(observe(cluster), leads=False))
    assert (usage.held, usage.devices, usage.left_out) == ([], [], 0)
