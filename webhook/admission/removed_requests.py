"""What a translation took out of a pod: the devices asked for by their old names, by container.

Found by comparing the pod before and after, so that it holds whatever a dialect did. Knows no
dialect.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from documents.paths import Path, get
from documents.values import Value
from dra.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from dra.quantity import QuantityError, from_json
from translate.legacy.pod_view import is_device, items, mapping, text

_OURS: Final = frozenset({ORIGINAL_ANNOTATION, FACTS_ANNOTATION})
_PARTS: Final = ("limits", "requests")


class Holder(msgspec.Struct, frozen=True):
    """A container, and what it does not ask for any more."""

    path: Path
    name: str
    init: bool  # ends before the others start
    before: Mapping[str, Value]  # its resources
    left: Mapping[str, Value]  # the same without what was taken out
    taken: tuple[str, ...] = ()

    def amounts(self, part: str, names: tuple[str, ...]) -> dict[str, int]:
        """Give its limits or requests of these names, as they were."""
        held = mapping(self.before.get(part))
        return {name: _whole(held[name]) for name in names if name in held}

    def words(self) -> Iterator[str]:
        """Say what was taken out of it."""
        for name in self.taken:
            parts = (mapping(self.before.get(part)).get(name) for part in _PARTS)
            amount = next((each for each in parts if each is not None), 0)
            yield f"{name}: {text(amount)} of container {self.name}"


class Asked(msgspec.Struct, frozen=True):
    """What was taken out of a pod."""

    names: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()  # every container
    annotations: tuple[str, ...] = ()  # "key: value"


def asked(before: Value, after: Value) -> Asked:
    """Compare a pod with what it became."""
    holders = tuple(
        _holder((*path, number), mapping(one), mapping(other))
        for path in (("spec", "initContainers"), ("spec", "containers"))
        for number, (one, other) in enumerate(
            zip(items(get(before, path)), items(get(after, path)), strict=True)
        )
    )
    names = tuple(dict.fromkeys(name for each in holders for name in each.taken))
    return Asked(names, holders, tuple(_annotations(before, after)))


def _holder(path: Path, one: Mapping[str, Value], other: Mapping[str, Value]) -> Holder:
    held, left = mapping(one.get("resources")), mapping(other.get("resources"))
    name, init = one.get("name"), path[1] == "initContainers"
    return Holder(
        path,
        name if isinstance(name, str) else "",
        init and one.get("restartPolicy") != "Always",
        held,
        left,
        # Edits leave what they do not touch the same object.
        () if held is left else tuple(_gone(held, left)),
    )


def _gone(held: Mapping[str, Value], left: Mapping[str, Value]) -> Iterator[str]:
    before = [mapping(held.get(part)) for part in _PARTS]
    after = [mapping(left.get(part)) for part in _PARTS]
    for name in dict.fromkeys((*before[0], *before[1])):
        if name not in after[0] and name not in after[1] and is_device(name):
            yield name


def _whole(value: Value) -> int:
    """Read an amount; one that is none is not taken out of a pod."""
    try:
        return from_json(value).whole() or 0
    except QuantityError:
        return 0


def _annotations(before: Value, after: Value) -> Iterator[str]:
    held, kept = (mapping(get(pod, ("metadata", "annotations"))) for pod in (before, after))
    for key, value in held.items():
        if key not in kept and key not in _OURS:
            yield f"{key}: {text(value)}"
