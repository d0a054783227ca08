"""Builds and writes the ResourceSlices of a layout as a driver's helper does.

It writes a new generation slice by slice before it deletes the old one. `whole=False` stops in
between and leaves an incomplete pool.
"""

from typing import Any

from e2e.controlplane.client import ApiError, Client
from e2e.nodes.layout import Layout

PATH = "/apis/resource.k8s.io/v1/resourceslices"


def name(layout: Layout, generation: int, number: int) -> str:
    """Name a slice; names sort in the order of the sheets."""
    return f"{number:05x}-{layout.driver}-{layout.node}-{generation}"


def objects(layout: Layout, generation: int = 1, owner: str = "") -> list[dict[str, Any]]:
    """Return the slices of a layout; `owner` is the UID of the Node, whose end is theirs."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "name": name(layout, generation, number),
                "ownerReferences": _owner(layout.node, owner) if owner else [],
            },
            "spec": {
                "driver": layout.driver,
                "nodeName": layout.node,
                "pool": {
                    "name": layout.node,
                    "generation": generation,
                    "resourceSliceCount": len(layout.sheets),
                },
                **({"sharedCounters": list(sheet.counters)} if sheet.counters else {}),
                **(
                    {"devices": [device.published() for device in sheet.devices]}
                    if sheet.devices
                    else {}
                ),
            },
        }
        for number, sheet in enumerate(layout.sheets)
    ]


def _owner(node: str, uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}]


def publish(
    client: Client, layout: Layout, generation: int, owner: str = "", *, whole: bool = True
) -> None:
    """Write one generation of a pool and take the one before it away."""
    wanted = objects(layout, generation, owner)
    if not whole:
        # Announced as larger than what is there: also a pool of one slice can be half.
        wanted = wanted[: max(1, len(wanted) // 2)]
        for slice_ in wanted:
            slice_["spec"]["pool"]["resourceSliceCount"] = len(layout.sheets) + 1
    for slice_ in wanted:
        client.create(PATH, slice_)
    if whole:
        withdraw(client, layout, generation - 1)


def withdraw(client: Client, layout: Layout, generation: int) -> None:
    """Delete what there is of one generation, whatever its number of slices was."""
    number = 0
    while generation > 0:
        try:
            client.delete(f"{PATH}/{name(layout, generation, number)}")
        except ApiError as problem:
            # A kubelet's account is told 403 of a slice that is not there.
            if problem.code not in (403, 404):
                raise
            return
        number += 1
