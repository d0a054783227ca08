"""An update of a translated pod: who applies the old manifest again changes nothing by it.

Where a translation changed the pod, an update that asks for what was asked before, or merely lacks
what was added, gets what stands there now. What was asked is read from an annotation that anybody
may have written; so only values of the pod as it is are ever put back, and only at places that
translations change.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from config.model import Legacy
from documents.patch import Edit
from documents.paths import Path, get, show
from documents.values import Value, same
from dra.finding import Finding
from dra.names import FACTS_ANNOTATION, ORIGINAL_ANNOTATION
from registration.admission_codes import DEVICES_FIXED, HINT_FIXED
from translate.changes.patch import restored
from translate.legacy.pod_view import is_device, items, mapping, text
from translate.legacy.read import read


class _Nothing:
    """What stands at a place where nothing does."""


NOTHING: Final = _Nothing()
Held = Value | _Nothing

_CONTAINERS: Final = ("initContainers", "containers")
_OF_CONTAINER: Final = ("resources", "env")
# Not node selectors and affinity: others may narrow these while a pod is gated.
_OF_SPEC: Final = ("resourceClaims", "tolerations", "schedulerName", "runtimeClassName")
_NARROWING: Final = ("nodeSelector", "affinity")
_OF_TERM: Final = frozenset({"matchExpressions", "matchFields"})


def marked(pod: Value) -> bool:
    """Tell whether a pod says that it was translated."""
    return isinstance(get(pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)), str)


def healed(old: Value, new: Value, legacy: Legacy) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
    """Give the edits that keep a translated pod as it is, and what cannot be kept."""
    before = restored(old)
    asked: Value = old if before is None else before
    touched = _touched(asked, legacy)
    edits = [
        *_metadata(old, asked, new, touched),
        *_spec(old, asked, new, touched),
        *_containers(old, asked, new),
    ]
    return tuple(edits), (*_changed(old, asked, new), *_hints(old, asked, new, touched))


def _touched(asked: Value, legacy: Legacy) -> Mapping[Path, tuple[str, ...]]:
    """Say which annotations, labels and node labels a dialect reads in the pod as it was."""
    found: dict[Path, tuple[str, ...]] = {}
    for trace in read(asked, legacy).traces:
        found[trace.path] = (*found.get(trace.path, ()), str(trace.name))
    return found


def merged(old: Held, asked: Held, new: Held) -> Held:
    """Give what has to stand at a place: the update's, but for what the translation changed."""
    if _same(new, old) or _same(old, asked):
        return new
    if _same(new, asked):
        return old
    if isinstance(new, dict):
        return _objects(_mapping(old), _mapping(asked), new)
    if isinstance(new, list):
        return _lists(old, asked, new)
    return new


def _same(one: Held, other: Held) -> bool:
    if isinstance(one, _Nothing) or isinstance(other, _Nothing):
        return one is other
    return same(one, other)


def _mapping(value: Held) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {}


def _objects(
    old: Mapping[str, Value], asked: Mapping[str, Value], new: Mapping[str, Value]
) -> dict[str, Value]:
    result: dict[str, Value] = {}
    for name in dict.fromkeys((*new, *old)):
        value = merged(old.get(name, NOTHING), asked.get(name, NOTHING), new.get(name, NOTHING))
        if not isinstance(value, _Nothing):
            result[name] = value
    return result


def _lists(old: Held, asked: Held, new: list[Value]) -> Value:
    """Merge lists by what their items are called; what has no name is its own."""
    lists = [each if isinstance(each, list) else [] for each in (old, asked)]
    if len(lists[0]) == len(new) and all(map(_is_term, (*lists[0], *new))):
        return _terms(lists[0], lists[1], new)
    named = [{_called(item): item for item in each} for each in (*lists, new)]
    if any(len(one) != len(each) for one, each in zip(named, (*lists, new), strict=True)):
        return new  # a name twice
    stands, was, wanted = named
    result = []
    for name in dict.fromkeys((*stands, *wanted)):
        value = merged(stands.get(name, NOTHING), was.get(name, NOTHING), wanted.get(name, NOTHING))
        if not isinstance(value, _Nothing):
            result.append(value)
    return result


def _is_term(item: Value) -> bool:
    return isinstance(item, dict) and _OF_TERM.issuperset(item)


def _terms(old: list[Value], asked: list[Value], new: list[Value]) -> Value:
    """Merge terms of node selectors by their order: none comes or goes, and any may be narrowed."""
    was: list[Held] = [*asked, *([NOTHING] * len(old))]
    several = (merged(*each) for each in zip(old, was[: len(old)], new, strict=True))
    return [each for each in several if not isinstance(each, _Nothing)]


def _called(item: Value) -> str:
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return f"{item['name']}\n{item.get('request', '')}"
    return repr(item)


def _edit(new: Value, path: Path, value: Held) -> Iterator[Edit]:
    """Let `value` stand at `path` of the update."""
    held = get(new, path[:-1])
    if not isinstance(held, dict):
        return  # no pod, which is for the API server to say
    stands: Held = held.get(str(path[-1]), NOTHING)
    if _same(stands, value):
        return
    if isinstance(value, _Nothing):
        yield Edit("remove", path)
    else:
        yield Edit("add" if isinstance(stands, _Nothing) else "replace", path, value)


def _metadata(
    old: Value, asked: Value, new: Value, touched: Mapping[Path, tuple[str, ...]]
) -> Iterator[Edit]:
    for part in ("annotations", "labels"):
        above: Path = ("metadata", part)
        stands, was, wanted = (mapping(get(pod, above)) for pod in (old, asked, new))
        result = dict(wanted)
        for name in touched.get(above, ()):
            value = merged(
                stands.get(name, NOTHING), was.get(name, NOTHING), wanted.get(name, NOTHING)
            )
            result.pop(name, None)
            if not isinstance(value, _Nothing):
                result[name] = value
        if part == "annotations":
            for name in (ORIGINAL_ANNOTATION, FACTS_ANNOTATION):
                result.pop(name, None)
                if name in stands:
                    result[name] = stands[name]
        if result != wanted:
            yield from _edit(new, above, {**result})


def _spec(
    old: Value, asked: Value, new: Value, touched: Mapping[Path, tuple[str, ...]]
) -> Iterator[Edit]:
    stands, was, wanted = (mapping(get(pod, ("spec",))) for pod in (old, asked, new))
    for name in _OF_SPEC:
        parts = (each.get(name, NOTHING) for each in (stands, was, wanted))
        yield from _edit(new, ("spec", name), merged(*parts))
    for name in _NARROWING:
        parts = (each.get(name, NOTHING) for each in (stands, was, wanted))
        if any(path[:2] == ("spec", name) for path in touched) or name == "affinity":
            yield from _edit(new, ("spec", name), merged(*parts))


def _containers(old: Value, asked: Value, new: Value) -> Iterator[Edit]:
    for path, stands, was, wanted in _alike(old, asked, new):
        for name in _OF_CONTAINER:
            parts = (each.get(name, NOTHING) for each in (stands, was, wanted))
            yield from _edit(new, (*path, name), merged(*parts))


_Alike = tuple[Path, Mapping[str, Value], Mapping[str, Value], Mapping[str, Value]]


def _alike(old: Value, asked: Value, new: Value) -> Iterator[_Alike]:
    """Give the containers that the update and the pod both have, by their names."""
    for part in _CONTAINERS:
        stands, was = (
            {str(mapping(one).get("name")): mapping(one) for one in items(get(pod, ("spec", part)))}
            for pod in (old, asked)
        )
        for number, one in enumerate(items(get(new, ("spec", part)))):
            name = mapping(one).get("name")
            if isinstance(name, str) and name in stands:
                yield ("spec", part, number), stands[name], was.get(name, {}), mapping(one)


def _changed(old: Value, asked: Value, new: Value) -> Iterator[Finding]:
    """Tell of device amounts that an update would change: the API server lets nobody."""
    for path, stands, was, wanted in _alike(old, asked, new):
        for part in ("limits", "requests"):
            held, meant, said = (_part(each, part) for each in (stands, was, wanted))
            for name in dict.fromkeys((*said, *meant)):
                value = said.get(name)
                fine = same(value, held.get(name)) or same(value, meant.get(name))
                if is_device(name) and not fine:
                    words = f"{name} was {_words(meant.get(name))} and is {_words(value)} now"
                    where = show((*path, "resources", part))
                    yield DEVICES_FIXED.at(where, f"container {wanted['name']}: {words}")
                    break


def _part(container: Mapping[str, Value], part: str) -> Mapping[str, Value]:
    return mapping(mapping(container.get("resources")).get(part))


def _words(value: Value) -> str:
    return "none" if value is None else text(value)


def _hints(
    old: Value, asked: Value, new: Value, touched: Mapping[Path, tuple[str, ...]]
) -> Iterator[Finding]:
    """Tell of annotations that say something else than when the devices were chosen."""
    above: Path = ("metadata", "annotations")
    stands, was, wanted = (mapping(get(pod, above)) for pod in (old, asked, new))
    for name in touched.get(above, ()):
        value = wanted.get(name)
        if name in wanted and not same(value, stands.get(name)) and not same(value, was.get(name)):
            yield HINT_FIXED.at(
                show((*above, name)),
                f"it was {_words(was.get(name))} when the pod was created, and is {_words(value)}",
            )
