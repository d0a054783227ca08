"""What is published of machines, quantities, a pod's claims, plugins and the record: no cluster."""

import json
import random
import re
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from e2e.nodes import podclaims, slices
from e2e.nodes.amounts import amount
from e2e.nodes.family import FAMILIES
from e2e.nodes.layout import Layout
from e2e.nodes.machine import machine, shapes
from e2e.nodes.node import node
from e2e.nodes.plugin import Plugin, replicas
from e2e.nodes.record import Record, Violation
from tests.tables import every_row

GPU = "gpu.nvidia.com"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
IDENTIFIER = re.compile(r"([a-z0-9.-]+/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
MODES: dict[str, tuple[str | None, ...]] = {
    "gpu.nvidia.com": (
        "full",
        "static-mig",
        "dynamic-mig",
        "groups",
        "vfio",
        "shares-memory",
        "shares-unlimited",
        "shares-4",
    ),
    "gpu.amd.com": ("full", "cpx_nps1", "cpx_nps4"),
    "gpu.intel.com": ("i915", "xe"),
    "dra.net": (None, "numa+reversed"),
}
NETWORK = ("dra.net", "sriovnetwork.k8snetworkplumbingwg.io")
PUBLISHED = [
    (driver, mode, shape)
    for driver in FAMILIES
    for mode in MODES.get(driver, (None,))
    for shape in shapes()
    if machine("n", shape).product.get("vendor", "") == FAMILIES[driver].vendor
    and (machine("n", shape).nics or driver not in NETWORK)
    and not (mode and "mig" in mode and not machine("n", shape).product["mig"])
    and not (mode == "static-mig" and len(machine("n", shape).product["mig"]) < 5)
]


@every_row(("driver", "mode", "shape"), PUBLISHED)
def test_slices_are_within_the_limits_of_the_api(driver: str, mode: str | None, shape: str) -> None:
    layout = FAMILIES[driver].publish(machine("n", shape), mode)
    assert len(layout.devices) == sum(len(sheet.devices) for sheet in layout.sheets)
    for body in slices.objects(layout):
        spec = body["spec"]
        assert ("devices" in spec) != ("sharedCounters" in spec)
        assert len(spec.get("sharedCounters", ())) <= 8
        devices = spec.get("devices", ())
        drawing = any("consumesCounters" in device for device in devices)
        assert len(devices) <= (64 if drawing else 128)
        for device in devices:
            assert LABEL.fullmatch(device["name"])
            names = [*device.get("attributes", {}), *device.get("capacity", {})]
            assert len(names) <= 32
            assert all(IDENTIFIER.fullmatch(name) for name in names), names


@every_row(("driver", "mode", "shape"), PUBLISHED)
def test_counters_that_are_drawn_on_exist_and_suffice_for_each_device_alone(
    driver: str, mode: str | None, shape: str
) -> None:
    layout = FAMILIES[driver].publish(machine("n", shape), mode)
    for device in layout.devices.values():
        for draw in device.wire.get("consumesCounters", ()):
            limits = layout.counters[draw["counterSet"]]
            for name, counter in draw["counters"].items():
                assert amount(counter["value"]) <= amount(limits[name]["value"])


@every_row("shape", shapes())
def test_a_node_has_labels_that_the_api_accepts(shape: str) -> None:
    labels = node(machine("n", shape))["metadata"]["labels"]
    assert all(LABEL_VALUE.fullmatch(value) for value in labels.values()), labels


def test_no_address_and_no_uuid_is_used_twice() -> None:
    for shape in shapes():
        host = machine("n", shape)
        seen = Counter([gpu.bus for gpu in host.gpus] + [nic.bus for nic in host.nics])
        assert set(seen.values()) <= {1}, seen
    uuids = [gpu.uuid for name in ("a", "b") for gpu in machine(name, "dgx-a100").gpus]
    assert len(set(uuids)) == 16


@pytest.mark.parametrize(
    ("shape", "related"),
    [
        ("dgx-a100", 8),
        ("aws-p4d", 8),
        ("azure-nd-a100-v4", 0),
        ("oci-gb200", 0),
        ("dell-xe8640", 1),
    ],
)
def test_pcie_roots_relate_gpus_and_nics_only_where_the_platform_does(
    shape: str, related: int
) -> None:
    host = machine("n", shape)
    roots = {nic.root for nic in host.nics if not nic.storage}
    assert sum(gpu.root in roots for gpu in host.gpus) == related


def published(layout: Layout, generation: int = 1) -> list[dict[str, Any]]:
    """Return the slices as the API server has them."""
    decoded = json.loads(json.dumps(slices.objects(layout, generation)))
    for number, one in enumerate(decoded):
        one["metadata"]["resourceVersion"] = str(number)
    return list(decoded)


def names(bodies: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"].partition("-")[0] for each in bodies]


def pools(changes: slices.Changes) -> set[tuple[int, int]]:
    bodies = [*changes.replaced, *changes.created]
    return {
        (each["spec"]["pool"]["generation"], each["spec"]["pool"]["resourceSliceCount"])
        for each in bodies
    }


def test_a_pool_of_one_slice_changes_in_place_under_its_generation() -> None:
    layout = FAMILIES[GPU].publish(machine("n", "lab-2g2n"))
    assert slices.changes(published(layout), layout) == ([], [], [])
    changed = slices.changes(published(layout, 7), layout.without(["gpu-0"]))
    assert (changed.deleted, names(changed.replaced), changed.created) == ([], ["00000"], [])
    assert pools(changed) == {(7, 1)}
    assert changed.replaced[0]["metadata"]["resourceVersion"] == "0"
    again = layout.shuffled(random.Random(0))
    assert list(again.devices) != list(layout.devices)
    assert names(slices.changes(published(layout), again).replaced) == ["00000"]


def test_a_pool_of_several_slices_gets_a_new_generation_if_more_than_one_changes() -> None:
    layout = FAMILIES[GPU].publish(machine("n", "lab-2g2n"), "dynamic-mig")
    assert names(slices.changes([], layout).created) == ["00000", "00001", "00002"]
    assert pools(slices.changes([], layout)) == {(1, 3)}
    change = slices.changes(published(layout), layout.without(["gpu-0"]))
    assert (names(change.replaced), pools(change)) == (["00001"], {(1, 3)})
    both = slices.changes(published(layout), layout.without(["gpu-0", "gpu-1"]))
    assert (both.deleted, names(both.replaced)) == ([], ["00000", "00001", "00002"])
    assert pools(both) == {(2, 3)}
    # Devices that consume counters are sorted.
    assert layout.shuffled(random.Random(0)) == layout


def test_slices_of_old_generations_and_superfluous_ones_are_deleted_first() -> None:
    layout = FAMILIES[GPU].publish(machine("n", "lab-2g2n"), "dynamic-mig")
    old, new = published(layout), published(layout, 2)
    changed = slices.changes([*old[1:], new[0]], layout)
    assert [each.partition("-")[0] for each in changed.deleted] == ["00001", "00002"]
    assert (names(changed.replaced), names(changed.created)) == (["00000"], ["00001", "00002"])
    assert pools(changed) == {(3, 3)}
    whole = FAMILIES[GPU].publish(machine("n", "lab-2g2n"))
    fewer = slices.changes(published(layout), whole)
    assert [each.partition("-")[0] for each in fewer.deleted] == ["00001", "00002"]
    assert (names(fewer.replaced), pools(fewer)) == (["00000"], {(1, 1)})


def test_the_time_that_the_api_server_adds_to_a_taint_is_no_change() -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    layout = FAMILIES[GPU].publish(machine("n", "lab-2g2n")).tainted("gpu-0", taint)
    current = published(layout)
    current[0]["spec"]["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z"
    assert slices.changes(current, layout) == ([], [], [])


@every_row(
    ("text", "value"),
    [
        ("1", 1),
        ("1500m", Fraction(3, 2)),
        ("1.5Gi", 3 * 2**29),
        ("2e3", 2000),
        ("1E", 10**18),
        ("-1", -1),
        (".5", Fraction(1, 2)),
        ("1.", 1),
    ],
)
def test_quantities_are_exact(text: str, value: Fraction) -> None:
    assert amount(text) == value


@every_row("text", ["", "1gi", "x", "1 Gi", "--1", "1KiB", "1e"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no quantity|no known unit"):
        amount(text)


def pod(**status: object) -> dict[str, Any]:
    claims = [
        {"name": "own", "resourceClaimName": "mine"},
        {"name": "made", "resourceClaimTemplateName": "template"},
    ]
    spec = {"resourceClaims": claims, "containers": [{"name": "main"}]}
    return {"metadata": {"uid": "u"}, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], [("mine", False), ("", True)]),
        ([{"name": "made", "resourceClaimName": "x"}], [("mine", False), ("x", True)]),
        ([{"name": "made"}], [("mine", False)]),
    ],
)
def test_a_pods_claims_are_named_once_they_exist(
    statuses: list[dict[str, str]], expected: list[tuple[str, bool]]
) -> None:
    assert list(podclaims.names(pod(resourceClaimStatuses=statuses))) == expected


def test_the_schedulers_own_claim_is_one_of_the_pods() -> None:
    special = {"resourceClaimName": "extended"}
    assert ("extended", True) in podclaims.names(pod(extendedResourceClaimStatus=special))


GROUP = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "g", "uid": "x"}
CONSUMER = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "x"}


@pytest.mark.parametrize(("name", "holds"), [("g", True), ("other", False), (None, False)])
def test_the_kubelet_accepts_the_claims_of_the_group_of_a_pod(
    name: str | None, *, holds: bool
) -> None:
    member = pod()
    if name:
        member["spec"]["schedulingGroup"] = {"podGroupName": name}
    claim = {
        "metadata": {"ownerReferences": [{**GROUP, "controller": True}]},
        "status": {"reservedFor": [CONSUMER]},
    }
    assert (podclaims.not_owned(member, claim) == "") == holds
    assert (podclaims.not_reserved(member, claim) == "") == holds


@every_row(
    ("check", "claim", "holds"),
    [
        ("not_owned", {"metadata": {"ownerReferences": [{"controller": True, "uid": "u"}]}}, True),
        ("not_owned", {"metadata": {"ownerReferences": [{"controller": True, "uid": "v"}]}}, False),
        ("not_owned", {"metadata": {"ownerReferences": [{"uid": "u"}]}}, False),
        ("not_owned", {"metadata": {}}, False),
        ("not_reserved", {"status": {"reservedFor": [{"uid": "u"}]}}, True),
        ("not_reserved", {"status": {"reservedFor": [{"uid": "v"}]}}, False),
        ("not_reserved", {}, False),
        ("not_allocated", {"status": {"allocation": {"devices": {}}}}, True),
        ("not_allocated", {"status": {}}, False),
        ("not_allocated", {}, False),
    ],
)
def test_the_kubelet_wants_owner_reservation_and_allocation(
    check: str, claim: dict[str, Any], *, holds: bool
) -> None:
    assert (getattr(podclaims, check)(pod(), claim) == "") == holds


def limits(**count: str) -> dict[str, Any]:
    return {"resources": {"limits": {f"example.com/{name}": text for name, text in count.items()}}}


def test_a_plugin_is_asked_for_the_larger_of_all_containers_and_any_init_one() -> None:
    spec = {
        "containers": [limits(gpu="1"), limits(gpu="2")],
        "initContainers": [limits(gpu="2"), limits(nic="4")],
    }
    advertised: dict[str, object] = {"example.com/gpu": None, "example.com/nic": None}
    asked = podclaims.extended({"spec": spec}, advertised)
    assert asked == {"example.com/gpu": 3, "example.com/nic": 4}


def test_what_the_scheduler_made_a_claim_of_is_not_asked_of_a_plugin() -> None:
    special = {"requestMappings": [{"resourceName": "example.com/gpu"}]}
    status = {"extendedResourceClaimStatus": special}
    made = {"spec": {"containers": [limits(gpu="1")]}, "status": status}
    assert podclaims.extended(made, {"example.com/gpu": None}) == {}


def test_a_plugin_gives_each_unit_once_and_takes_it_back() -> None:
    plugin = Plugin("n", "example.com/gpu", ("A", "B"), Record())
    assert plugin.allocate("one", "pod one", 1) == ("A",)
    assert plugin.allocate("one", "pod one", 1) == ("A",)
    assert plugin.allocate("two", "pod two", 2) is None
    assert [one.code for one in plugin.record.violations()] == ["PluginExhausted"]
    plugin.free("one")
    assert plugin.allocate("two", "pod two", 2) == ("A", "B")


def test_replicas_of_one_gpu_are_one_piece_of_hardware() -> None:
    record = Record()
    plugin = Plugin("n", "example.com/gpu", replicas(("A",), 2), record)
    plugin.allocate("one", "pod one", 1)
    plugin.allocate("two", "pod two", 1)
    assert set(record.elsewhere("gpu.nvidia.com")) == {"A"}
    plugin.free("one")
    assert set(record.elsewhere("gpu.nvidia.com")) == {"A"}
    plugin.free("two")
    assert record.elsewhere("gpu.nvidia.com") == {}


def test_a_plugin_cannot_know_and_the_record_does() -> None:
    record = Record()
    record.hold("gpu.nvidia.com", "claim", ["A"])
    plugin = Plugin("n", "example.com/gpu", ("A",), record)
    assert plugin.allocate("one", "pod one", 1) == ("A",)
    assert [one.code for one in record.violations()] == ["HandedOutTwice"]
    assert record.elsewhere("device-plugin") == {"A": "gpu.nvidia.com for claim"}


def test_a_violation_that_is_seen_again_is_recorded_once() -> None:
    record = Record()
    record.add([Violation("Code", "by", "n", "pod a/b", "d", "why")] * 2)
    assert [str(one) for one in record.take()] == ["Code (by) n: pod a/b: d: why"]
    assert record.violations() == []
