"""The extended resources that device plugins serve on one node."""

from collections.abc import Iterable, Iterator
from typing import Final

from drawbridge.config.model import Legacy
from drawbridge.config.string_formats import ResourceName
from drawbridge.dra.families import COMPANIONS
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import to_int64

_NATIVE: Final = "kubernetes.io"


def advertised_resources(node: Node) -> dict[str, int]:
    """Return the extended resources that device plugins advertise on a node."""
    return {
        name: to_int64(quantity.value())
        for name, quantity in node.allocatable.items()
        if "/" in name and not _native(name.partition("/")[0]) and quantity.sign() > 0
    }


def registered_resources(node: Node) -> set[str]:
    """Return the extended resources of plugins that serve on a node or can return there."""
    return named_resources(node) & {*advertised_resources(node), *node.stopped}


def named_resources(node: Node) -> set[str]:
    """Return the extended resources of plugins that serve on a node or did so before."""
    return {name for name in node.named if "/" in name and not _native(name.partition("/")[0])}


def _native(domain: str) -> bool:
    return domain == _NATIVE or domain.endswith(f".{_NATIVE}")


def served_resources(node: Node, legacy: Legacy) -> tuple[str, ...]:
    """Return the extended resources that device plugins serve on a node, sorted.

    Some schedulers read names that no node advertises, such as the memory of a share. The plugin
    shows by an annotation of the node, or by another name, that they apply there.
    """
    advertised = advertised_resources(node)
    resources = {f"{legacy.renames.get(ResourceName(name), name)}" for name in advertised}
    companions = set(_companions({*resources, *node.registrations}))
    renamed = {f"{name}" for name, known in legacy.renames.items() if known in companions}
    return tuple(sorted({*advertised, *companions, *renamed}))


def _companions(marks: Iterable[str]) -> Iterator[str]:
    for mark in marks:
        yield from COMPANIONS.get(mark, ())
