"""The judged cluster follows its objects, and remembers which devices were withdrawn."""

from typing import Any

from msgspec.structs import replace

from drawbridge.config.model import Configuration, LabelSelector, Placement, Quota
from drawbridge.config.string_formats import (
    AttributeName,
    DNSLabel,
    LabelKey,
    LabelValue,
    ObjectName,
)
from drawbridge.dra.gates import Gates
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.quantity import parse
from drawbridge.dra.slices import Slice
from tests.webhook.judging.harness import change, read
from webhook.judging.judged_cluster import (
    JudgedCluster,
    JudgeSettings,
    NamespaceLabels,
    ObjectChange,
    PendingChanges,
)
from webhook.judging.withdrawn_devices import MAX_SLICES, WithdrawnDevices

Json = dict[str, Any]
SETTLE = 300.0


class Clock:
    """A clock that a test advances."""

    now = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def make(
    name: str, *devices: Json, generation: int = 1, driver: str = "d.io", pool: str = "p"
) -> Json:
    published = {"name": pool, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": published, "nodeName": "n", "devices": list(devices)}
    return {"kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def device(name: str = "gpu-0", **fields: Json | list[Json]) -> Json:
    return {"name": name, **fields}


def claim(name: str, devices: int = 0) -> Json:
    results = [
        {"request": "r", "driver": "d.io", "pool": "p", "device": f"gpu-{i}"}
        for i in range(devices)
    ]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    metadata = {"name": name, "namespace": "team"}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {}, "status": status}


CLASS = {
    "kind": "DeviceClass",
    "metadata": {"name": "d"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "d.io"'}}]},
}
# Another slice, so that the class always has a device.
OTHER = make("other", device("gpu-9"), pool="other")
OTHER_SLICE = read(OTHER)
assert isinstance(OTHER_SLICE, Slice)


def find_doubt(*changes: ObjectChange, seconds: float = 0) -> str:
    """Return why the fleet of the class is not closed after changes, or an empty string."""
    clock = Clock()
    cluster = JudgedCluster(settle_seconds=SETTLE, now=clock)
    cluster.apply([change(None, CLASS), change(None, OTHER)])
    for applied in changes:
        cluster.apply([applied])
    clock.now += seconds
    return cluster.context().fleet["d"].reason


def test_a_fleet_is_open_for_a_while_after_devices_were_withdrawn() -> None:
    before = make("a", device("gpu-0"), device("gpu-1"))
    published = change(None, before)
    losses = {
        "a deleted slice": change(before, None),
        "a removed device": change(before, make("a", device("gpu-0"))),
        "a changed device": change(
            before, make("a", device("gpu-0"), device("gpu-1", attributes={"m": {"int": 1}}))
        ),
        "a new generation of the pool": change(None, make("b", device("gpu-0"), generation=2)),
    }
    assert find_doubt(published) == ""
    for name, loss in losses.items():
        doubt = find_doubt(published, loss, seconds=SETTLE - 1)
        assert doubt == "d.io withdrew or changed devices of pool p a short time ago", name
        assert find_doubt(published, loss, seconds=SETTLE) == "", name


def test_devices_of_a_driver_that_stays_away_are_remembered_for_an_hour() -> None:
    node, before = {"kind": "Node", "metadata": {"name": "n"}}, make("a", device("gpu-0"))
    clock = Clock()
    cluster = JudgedCluster(settle_seconds=SETTLE, now=clock)
    other = {**OTHER, "spec": {**OTHER["spec"], "nodeName": "m"}}
    cluster.apply([change(None, each) for each in (CLASS, other, node, before)])
    cluster.apply([change(before, None)])
    reasons = []
    for _ in range(13):
        clock.now += SETTLE
        reasons.append(bool(cluster.context().fleet["d"].reason))
    assert reasons == [True] * 11 + [False] * 2


def test_devices_of_a_driver_that_publishes_again_are_forgotten() -> None:
    node, before = {"kind": "Node", "metadata": {"name": "n"}}, make("a", device("gpu-0"))
    changes = [change(None, node), change(None, before), change(before, None)]
    again = change(None, make("b", device("gpu-1"), pool="new"))
    assert find_doubt(*changes, again, seconds=SETTLE) == ""


def test_what_adds_devices_or_taints_them_is_no_withdrawal() -> None:
    before = make("a", device("gpu-0"))
    taint = {"key": "k", "effect": "NoSchedule"}
    kept = [
        change(before, make("a", device("gpu-0"), device("gpu-1"))),
        change(before, make("a", device("gpu-0", taints=[taint]))),
        change(before, make("a", device("gpu-0"), generation=2)),
        change(None, make("new", device("gpu-0"), pool="q")),
    ]
    for member in kept:
        assert find_doubt(change(None, before), member) == ""


def test_a_class_of_another_driver_stays_closed() -> None:
    kept = make("kept", device("nic-0"), driver="e.io", pool="kept")
    gone = make("gone", device("nic-0"), driver="e.io", pool="gone")
    published = [change(None, kept), change(None, gone)]
    assert find_doubt(*published, change(gone, None)) == ""


def test_withdrawn_slices_are_forgotten_beyond_a_limit_but_not_that_there_were_more() -> None:
    clock = Clock()
    withdrawn = WithdrawnDevices(SETTLE, clock)
    slices = [replace(OTHER_SLICE, name=f"s-{i}") for i in range(MAX_SLICES + 1)]
    for slice_ in slices[:-1]:
        withdrawn.observe_change(slice_, None)
    assert withdrawn.recent() == (tuple(slices[:-1]), ())
    withdrawn.observe_change(slices[-1], None)
    withdrawn_slices, (doubt,) = withdrawn.recent()
    assert (len(withdrawn_slices), "more than" in doubt) == (MAX_SLICES, True)
    clock.now += SETTLE
    assert withdrawn.recent() == ((), ())


def test_the_first_state_of_a_pool_that_changes_in_steps_is_kept() -> None:
    withdrawn = WithdrawnDevices(SETTLE, Clock())
    first, second = replace(OTHER_SLICE, pool="1"), replace(OTHER_SLICE, pool="2")
    withdrawn.observe_change(first, second)
    withdrawn.observe_change(second, None)
    assert withdrawn.recent().slices == (first,)


def test_the_view_follows_the_claims() -> None:
    cluster = JudgedCluster(settle_seconds=0)
    cluster.apply([change(None, make("a", device("gpu-0"))), change(None, claim("c"), 5)])
    assert not cluster.context().view.use(PoolID("d.io", "p")).holds("gpu-0")
    cluster.apply([change(claim("c"), claim("c", 1), 6)])
    assert cluster.context().view.use(PoolID("d.io", "p")).holds("gpu-0")
    assert cluster.context().lookups.find_claim("team", "c") is not None
    cluster.apply([change(claim("c", 1), None, 6)])
    assert not cluster.context().view.use(PoolID("d.io", "p")).holds("gpu-0")
    assert cluster.context().lookups.find_claim("team", "c") is None


def test_a_listed_claim_counts_whatever_its_version() -> None:
    """The items of a list are ordered by name, so a deletion before them may be newer."""
    cluster = JudgedCluster(settle_seconds=0)
    cluster.apply([change(None, claim("z"), 90)])
    cluster.apply(
        [
            change(claim("z"), None, 90),
            change(None, claim("b", 1), 95),
            change(None, claim("a", 2), 91),
        ]
    )
    assert cluster.context().view.use(PoolID("d.io", "p")).holds("gpu-1")


def test_other_settings_keep_the_objects() -> None:
    cluster = JudgedCluster(settle_seconds=0)
    cluster.apply([change(None, make("a", device("gpu-0"))), change(None, claim("c", 1), 5)])
    before = cluster.context()
    cluster.configure(JudgeSettings(Configuration(placement=Placement.BRIDGE), Gates("1.35")))
    after = cluster.context()
    assert (after.gates.version, before.gates.version) == ("1.35", "1.37")
    assert after.world.deviations != before.world.deviations
    assert after.world.inventory.slices == before.world.inventory.slices
    assert after.view.use(PoolID("d.io", "p")).holds("gpu-0")


def test_the_world_stays_the_same_object_until_a_change() -> None:
    """The caches of the solver compare it by identity."""
    cluster = JudgedCluster(settle_seconds=0)
    cluster.apply([change(None, make("a", device("gpu-0")))])
    first = cluster.context()
    cluster.apply([])
    cluster.configure(JudgeSettings())
    assert cluster.context().world is first.world
    assert cluster.context().caches is first.caches


def test_changes_of_one_object_are_merged_within_a_batch() -> None:
    pending = PendingChanges()
    first, second = make("a", device("gpu-0")), make("a", device("gpu-1"))
    pending.put("resourceslices", change(None, first))
    pending.put("resourceclaims", change(None, claim("c")))
    pending.put("resourceslices", change(first, second))
    batch = pending.take()
    assert [(each.name, each.before) for each in batch] == [("c", None), ("a", None)]
    assert batch[1].after == change(None, second).after
    pending.put("resourceslices", change(second, None))
    assert (len(pending), len(pending.take()), pending.take()) == (1, 1, ())


def test_device_quotas_count_claims_and_follow_labels_and_capacities() -> None:
    selector = LabelSelector(match_labels={LabelKey("team"): LabelValue("a")})
    amounts = {AttributeName("memory"): parse("100Gi")}
    quota = Quota(DNSLabel("q"), (), selector, total={ObjectName("d"): amounts})
    cluster = JudgedCluster(JudgeSettings(Configuration(quotas=(quota,))), settle_seconds=0)
    exactly = {"deviceClassName": "d"}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    cluster.apply([change(None, {**claim("c", devices=1), "spec": spec})])

    def used() -> list[str]:
        lines = cluster.context().lookups.device_quotas
        return [f"{each.used}" for each in lines.lines("team")] if lines else []

    assert used() == []
    labels = NamespaceLabels({"team": "a"})
    cluster.apply([ObjectChange("", "team", "u", "2", None, labels)])
    assert used() == ["0"]
    capacity = {"memory": {"value": "80Gi"}}
    cluster.apply([change(None, make("a", device("gpu-0", capacity=capacity)))])
    assert used() == ["80Gi"]
    # Everything is derived again.
    cluster.configure(JudgeSettings(Configuration(quotas=(replace(quota, name=DNSLabel("r")),))))
    assert used() == ["80Gi"]
    cluster.apply([ObjectChange("", "team", "u", "3", labels, None)])
    assert used() == []
