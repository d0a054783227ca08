"""Builds and writes the ResourceSlices of a layout as the library for drivers does.

A slice keeps its name. If at most one slice of a pool changes, it is updated in place, and the pool
keeps its generation. Otherwise the pool gets the next generation: slices that are not needed are
deleted first, then the others are updated one by one. `whole=False` stops in between and leaves an
incomplete pool.
"""

from typing import Any, NamedTuple

from e2e.controlplane.client import ApiError, Client
from e2e.nodes.layout import Layout

PATH = "/apis/resource.k8s.io/v1/resourceslices"
Slice = dict[str, Any]


def name(layout: Layout, number: int) -> str:
    """Name a slice; names sort in the order of the sheets."""
    return f"{number:05x}-{layout.driver}-{layout.node}"


def objects(layout: Layout, generation: int = 1, owner: str = "") -> list[Slice]:
    """Return the slices of a layout; `owner` is the UID of the Node, whose end is theirs."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {
                "name": name(layout, number),
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


class Changes(NamedTuple):
    """What has to be written, in this order: names to delete, slices to replace and to create."""

    deleted: list[str]
    replaced: list[Slice]
    created: list[Slice]


def changes(current: list[Slice], layout: Layout, owner: str = "") -> Changes:
    """Return the changes from the slices of a pool to those of a layout. Pure."""
    newest = max((_generation(each) for each in current), default=0)
    kept = {each["metadata"]["name"]: each for each in current if _generation(each) == newest}
    wanted = objects(layout, newest, owner)
    names = [each["metadata"]["name"] for each in wanted]
    changed = [
        each
        for each in wanted
        if (old := kept.get(each["metadata"]["name"])) and _content(old) != _content(each)
    ]
    if len(changed) > 1 or not kept.keys() >= set(names):
        wanted = changed = objects(layout, newest + 1, owner)
    return Changes(
        [
            each["metadata"]["name"]
            for each in current
            if _generation(each) < newest or each["metadata"]["name"] not in names
        ],
        [
            _replacement(kept[each["metadata"]["name"]], each)
            for each in changed
            if each["metadata"]["name"] in kept
        ],
        [each for each in wanted if each["metadata"]["name"] not in kept],
    )


def _generation(published: Slice) -> int:
    return int(published["spec"]["pool"]["generation"])


def _content(published: Slice) -> Slice:
    """Return what a driver compares: the spec, without the times that the API server adds."""
    spec = dict(published["spec"])
    if "devices" in spec:
        spec["devices"] = [
            {**device, "taints": [{**taint, "timeAdded": None} for taint in device["taints"]]}
            if "taints" in device
            else device
            for device in spec["devices"]
        ]
    return spec


def _replacement(old: Slice, new: Slice) -> Slice:
    return {**old, "spec": new["spec"]}


def read(client: Client, layout: Layout) -> list[Slice]:
    """Return the slices of a pool."""
    selector = f"spec.driver={layout.driver},spec.nodeName={layout.node}"
    items = client.get(PATH, fieldSelector=selector)["items"]
    return [each for each in items if each["spec"]["pool"]["name"] == layout.node]


def publish(client: Client, layout: Layout, owner: str = "", *, whole: bool = True) -> None:
    """Write the slices of a pool."""
    current = read(client, layout)
    deleted, replaced, created = changes(current, layout, owner)
    if not whole:
        deleted, replaced, created = _half(current, layout, owner)
    _delete(client, deleted)
    for body in replaced:
        client.replace(f"{PATH}/{body['metadata']['name']}", body)
    for body in created:
        client.create(PATH, body)


def _half(current: list[Slice], layout: Layout, owner: str) -> Changes:
    """Return the first half of the next generation."""
    generation = max((_generation(each) for each in current), default=0) + 1
    wanted = objects(layout, generation, owner)
    wanted = wanted[: max(1, len(wanted) // 2)]
    for each in wanted:
        # Announced as larger than what is there: also a pool of one slice can be half.
        each["spec"]["pool"]["resourceSliceCount"] = len(layout.sheets) + 1
    old = {each["metadata"]["name"]: each for each in current}
    return Changes(
        [],
        [
            _replacement(old[each["metadata"]["name"]], each)
            for each in wanted
            if each["metadata"]["name"] in old
        ],
        [each for each in wanted if each["metadata"]["name"] not in old],
    )


def withdraw(client: Client, layout: Layout) -> None:
    """Delete the slices of a pool."""
    _delete(client, [each["metadata"]["name"] for each in read(client, layout)])


def _delete(client: Client, names: list[str]) -> None:
    """Delete slices; a kubelet or the garbage collector may have done so."""
    for name in names:
        try:
            client.delete(f"{PATH}/{name}")
        except ApiError as problem:
            # A kubelet's account is told 403 of a slice that is not there.
            if problem.code not in (403, 404):
                raise
