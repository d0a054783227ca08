"""Slices in a short form, as the tables of the inventory write them."""

from typing import Any

from drawbridge.dra.slices import Slice, read_slice


def device(short: str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(short, str):
        return {"name": short}
    written = dict(short)
    groups = written.pop("groups", [])
    written["consumesCounters"] = [
        {
            "counterSet": name,
            "counters": {counter: {"value": value} for counter, value in amounts.items()},
            "compatibilityGroups": groups,
        }
        for name, amounts in written.pop("consumes", {}).items()
    ]
    return written


def slice_of(short: dict[str, Any]) -> Slice:
    written = dict(short)
    name = written.pop("name")
    pool = {
        "name": written.pop("pool", "p"),
        "generation": written.pop("generation", 1),
        "resourceSliceCount": written.pop("count", 1),
    }
    counters = [
        {"name": counter_set, "counters": {key: {"value": value} for key, value in amounts.items()}}
        for counter_set, amounts in written.pop("counters", {}).items()
    ]
    devices = [device(each) for each in written.pop("devices", [])]
    spec = {"driver": written.pop("driver", "d.example.com"), "pool": pool, "devices": devices}
    forms = {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}
    if not forms & written.keys():
        spec["allNodes"] = True
    spec |= {"sharedCounters": counters} | written
    read = read_slice({"metadata": {"name": name}, "spec": spec})
    assert isinstance(read, Slice), read
    return read
