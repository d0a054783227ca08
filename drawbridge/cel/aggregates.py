"""Plans list, map and message literals, and the collections that comprehensions build.

A literal is charged once: after its last element, or when an element fails.
"""

from collections.abc import Callable, Sequence

from drawbridge.cel.comprehension_plans import pairs
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import LIST_COST, MAP_COST, MESSAGE_COST, Frame, Run, charge, with_offset
from drawbridge.cel.values import Optional, grow, make_map, no_such_overload
from drawbridge.cel.wellknown import construct


def plan_list(elements: Sequence[Run], optional: frozenset[int], offset: int) -> Run:
    """Return the closure of a list literal such as `[a, ?b]`."""
    places = list(enumerate(elements))

    def run(frame: Frame) -> object:
        values: list[object] = []
        try:
            for place, element in places:
                value = element(frame)
                if place in optional:
                    if type(value) is not Optional:
                        raise no_such_overload("an optional element is no optional")
                    if not value.present:
                        continue
                    value = value.value
                values.append(value)
        except EvaluationError as error:
            charge(frame, LIST_COST)
            raise with_offset(error, offset) from None
        charge(frame, LIST_COST)
        return values

    return run


def plan_map(
    entries: Sequence[tuple[Run, Run]],
    optional: Sequence[bool],
    offset: int,
) -> Run:
    """Return the closure of a map literal such as `{k: v, ?k: v}`."""
    places = [(key, value, flag) for (key, value), flag in zip(entries, optional, strict=True)]

    def run(frame: Frame) -> object:
        filled: list[tuple[object, object]] = []
        try:
            for key, value, flag in places:
                name, content = key(frame), value(frame)
                if flag:
                    if type(content) is not Optional:
                        raise no_such_overload("an optional entry is no optional")
                    if not content.present:
                        filled = [pair for pair in filled if pair[0] != name]
                        continue
                    content = content.value
                filled.append((name, content))
            made = make_map(filled)
        except EvaluationError as error:
            charge(frame, MAP_COST)
            raise with_offset(error, offset) from None
        charge(frame, MAP_COST)
        return made

    return run


def plan_message(name: str, fields: Sequence[tuple[str, Run, bool]], offset: int) -> Run:
    """Return the closure of a message literal such as `Name{field: value, ?field: value}`."""

    def run(frame: Frame) -> object:
        contents: dict[str, object] = {}
        try:
            for field, value, flag in fields:
                content = value(frame)
                if flag:
                    if type(content) is not Optional:
                        raise no_such_overload("an optional field is no optional")
                    if not content.present:
                        contents.pop(field, None)
                        continue
                    content = content.value
                contents[field] = content
            made = construct(name, contents)
        except EvaluationError as error:
            charge(frame, MESSAGE_COST)
            raise with_offset(error, offset) from None
        charge(frame, MESSAGE_COST)
        return made

    return run


def plan_append(made: object, more: object) -> object:
    """Return the closure of `+` on the list that a comprehension builds; it appends in place."""
    if not isinstance(made, list) or not isinstance(more, list | tuple):
        raise no_such_overload("_+_")
    made.extend(more)
    return made


def plan_insert(made: object, *entry: object) -> object:
    """Return the closure of `cel.@mapInsert` on the map that a comprehension builds.

    The second argument is a map, or the second and third are a key and a value.
    """
    if len(entry) == 2:
        return grow(made, entry[0], entry[1])
    for key, value in pairs(entry[0]):
        made = grow(made, key, value)
    return made


def plan_empty_copy(initial: object) -> Run:
    """Return a closure that creates an empty collection for each run of a comprehension."""
    make: Callable[[], object] = dict if isinstance(initial, dict) else list
    return lambda frame: make()  # noqa: ARG005  # every step takes the frame
