"""A node is drawn with the holders of its devices, and with devices that are not available."""

from typing import Any

from drawbridge.dra.inventory import Inventory, PoolID, build_inventory
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.report.placement import DeviceHolder, draw_node
from drawbridge.report.tables import ASCII, draw_tree

NODE = Node("n")


def pool(devices: list[Any], count: int = 1, **spec: object) -> Inventory:
    base = {"driver": "d.io", "nodeName": "n"}
    base["pool"] = {"name": "p", "generation": 1, "resourceSliceCount": count}  # type: ignore[assignment]
    plain = [{**base, "devices": devices}]
    if spec:
        plain.append({**base, **spec})
    read = [read_slice({"metadata": {"name": f"s{i}"}, "spec": s}) for i, s in enumerate(plain)]
    return build_inventory([each for each in read if isinstance(each, Slice)])


def drawn(built: Inventory, **held: tuple[DeviceHolder, ...]) -> list[str]:
    return draw_tree(draw_node(built, NODE, {PoolID("d.io", "p"): held}), ASCII)


def test_each_holder_has_a_line_and_adjacent_free_devices_share_one() -> None:
    built = pool([{"name": f"x{i}"} for i in range(4)])
    held = (
        DeviceHolder("default/a", "memory 1Gi"),
        DeviceHolder("default/b", "memory 2Gi", new=True),
    )
    assert drawn(built, x0=held) == [
        "node n",
        "`- pool p of d.io",
        "   |- x0         held  default/a  memory 1Gi",
        "   |-            NEW   default/b  memory 2Gi",
        "   `- x1..3 (3)  free",
    ]


def test_a_device_whose_counters_are_in_use_is_not_free() -> None:
    use = {"counterSet": "c", "counters": {"m": {"value": "2"}}}
    small = {"counterSet": "c", "counters": {"m": {"value": "1"}}}
    devices = [
        {"name": "full", "consumesCounters": [use]},
        {"name": "part-0", "consumesCounters": [small]},
        {"name": "part-1", "consumesCounters": [small]},
    ]
    sets = [{"name": "c", "counters": {"m": {"value": "2"}}}]
    built = pool(devices, 2, sharedCounters=sets)
    assert drawn(built) == [
        "node n",
        "`- pool p of d.io",
        "   |- full           free",
        "   `- part-0..1 (2)  free",
    ]
    assert drawn(built, **{"part-0": (DeviceHolder("default/a"),)})[2:] == [
        "   |- full    counters in use",
        "   |- part-0  held             default/a",
        "   `- part-1  free",
    ]


def test_an_unusable_pool_has_a_reason() -> None:
    assert drawn(pool([{"name": "x"}], 3)) == ["node n", "`- pool p of d.io: incomplete"]
    twice = pool([{"name": "x"}, {"name": "x"}])
    assert drawn(twice)[1] == "`- pool p of d.io: invalid, device x appears twice"


def test_a_node_without_devices_is_drawn_as_such() -> None:
    assert drawn(build_inventory([])) == ["node n", "`- no devices"]
