"""Clusters for the tests of targets: machines and drivers by name, as facts and as devices."""

import functools
from collections.abc import Iterator
from typing import Any

from drawbridge.dra.device import Device
from drawbridge.dra.gates import gates_of_version
from drawbridge.dra.nodes import Node
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.facts.gather import FactsInput, GatheredFacts, gather_facts
from drawbridge.facts.model import Facts
from e2e.nodes.family import CLASSES, FAMILIES
from e2e.nodes.layout import Layout
from e2e.nodes.machine import machine
from tests.facts.clusters import device_class


def slices(words: tuple[str, ...]) -> tuple[Slice, ...]:
    """The slices of a world: each word is `shape driver mode`, a node of its own for each shape."""
    return tuple(each for word in words for each in _slices(*word.split()))


def _slices(shape: str, driver: str, mode: str = "") -> tuple[Slice, ...]:
    return slices_of_node(shape, shape, driver, mode)


@functools.cache
def slices_of_node(node: str, shape: str, driver: str, mode: str = "") -> tuple[Slice, ...]:
    """The slices that a driver publishes for a node with the hardware of a shape."""
    host = machine(node, shape)
    return tuple(_read(each) for each in _wire(FAMILIES[driver].publish(host, mode)))


def _read(raw: dict[str, Any]) -> Slice:
    read = read_slice(raw)
    assert isinstance(read, Slice), read
    return read


def _wire(layout: Layout) -> Iterator[dict[str, Any]]:
    for number, sheet in enumerate(layout.sheets):
        spec: dict[str, Any] = {
            "driver": layout.driver,
            "nodeName": layout.node,
            "pool": {
                "name": layout.node,
                "generation": 1,
                "resourceSliceCount": len(layout.sheets),
            },
        }
        if sheet.devices:
            spec["devices"] = [device.published() for device in sheet.devices]
        if sheet.counters:
            spec["sharedCounters"] = list(sheet.counters)
        name = f"{layout.node}-{layout.driver}-{number}"
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": spec,
        }


@functools.cache
def facts(
    words: tuple[str, ...],
    classes: tuple[str, ...] = tuple(CLASSES),
    version: str = "1.36",
    gates: tuple[str, ...] = (),
) -> Facts:
    """The facts of a world, with these feature gates beside the defaults of the version."""
    turned = gates_of_version(version, dict.fromkeys(gates, True))
    assert not isinstance(turned, tuple)
    offered = tuple(device_class(name, cel=CLASSES[name]) for name in classes)
    gathered: GatheredFacts = gather_facts(FactsInput(slices(words), offered, ()), gates=turned)
    return gathered.facts


def devices(words: tuple[str, ...]) -> Iterator[tuple[str, Node, Device]]:
    """Every device of a world, with its driver and node."""
    for slice_ in slices(words):
        for device in slice_.devices:
            yield slice_.driver, Node(slice_.node_name or ""), device
