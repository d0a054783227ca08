"""Keep a translated pod unchanged when its original manifest is applied again.

Where the translation changed the pod, an update that contains the original value, or omits an added
value, gets the current value of the pod. The original is read from an annotation that any user can
write. Therefore only current values of the pod are restored, only in fields that translations
change, and in its spec only in an update that the API server would refuse. The original manifest is
one, because no update may add requests. What another client may change stays, such as the nodes
that Kueue chooses for a gated pod, although the annotation says that the original had the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drawbridge.agreement.admission_codes import DEVICES_FIXED, HINT_WITHOUT_EFFECT
from drawbridge.config.model import Configuration
from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping, equal_json
from drawbridge.dra.quantity import valid_quantity
from drawbridge.finding import Finding
from drawbridge.names import ORIGINAL_ANNOTATION, POD_ANNOTATIONS
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.changes.undo import CONTAINER_FIELDS, CONTAINER_LISTS, SPEC_FIELDS
from drawbridge.translate.legacy.pod_view import format_value, is_device_resource
from drawbridge.translate.legacy.read import read_pod
from webhook.admission.legal_updates import is_legal_update


class _Absent:
    """The value of a field that does not exist."""


ABSENT: Final = _Absent()
OptionalValue = Value | _Absent

_AMOUNT_PARTS: Final = ("limits", "requests")
_TERM_FIELDS: Final = frozenset({"matchExpressions", "matchFields"})


def is_translated(pod: Value) -> bool:
    """Return whether a pod has the annotation of a translated pod."""
    return isinstance(get_value(pod, ("metadata", "annotations", ORIGINAL_ANNOTATION)), str)


def preserve_translation(
    old: Value, new: Value, configuration: Configuration
) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
    """Return edits of an update that keep the translation, and findings about other changes."""
    restored = restore_original(old)
    # The annotation has the amounts of the manifest.
    old, original, new = (
        _as_stored(each) for each in (old, old if restored is None else restored, new)
    )
    names = _find_read_names(original, configuration)
    edits = [*_edit_metadata(old, original, new, names)]
    if not is_legal_update(old, new):
        edits += [*_edit_spec(old, original, new, names), *_edit_containers(old, original, new)]
    findings = (
        *_check_devices(old, original, new),
        *_check_annotations(old, original, new, names),
    )
    return tuple(edits), findings


def _as_stored(pod: Value) -> Value:
    """Return a pod with amounts as the API server writes them.

    A manifest can have 1 or 3000, and a limit without a request.
    """
    if not isinstance(pod, dict) or not isinstance(spec := pod.get("spec"), dict):
        return pod
    lists = {part: spec[part] for part in CONTAINER_LISTS if isinstance(spec.get(part), list)}
    stored = {part: [_store_amounts(each) for each in as_list(lists[part])] for part in lists}
    return {**pod, "spec": {**spec, **stored}}


def _store_amounts(container: Value) -> Value:
    if not isinstance(container, dict) or not isinstance(container.get("resources"), dict):
        return container
    resources = as_mapping(container["resources"])
    stored: dict[str, Value] = {}
    for part in _AMOUNT_PARTS:
        amounts = resources.get(part)
        if isinstance(amounts, dict):
            read = {name: (amount, valid_quantity(amount)) for name, amount in amounts.items()}
            stored[part] = {k: each if q is None else f"{q}" for k, (each, q) in read.items()}
    requests = resources.get("requests")
    if stored.get("limits") and (requests is None or isinstance(requests, dict)):
        # A limit is a request, too. The annotation of a manifest may have only the limit.
        stored["requests"] = {**as_mapping(stored["limits"]), **as_mapping(stored.get("requests"))}
    return {**container, "resources": {**resources, **stored}}


def _find_read_names(
    original: Value, configuration: Configuration
) -> Mapping[Path, tuple[str, ...]]:
    """Return the annotations, labels and node labels that dialects read in the original pod."""
    fields: dict[Path, list[str]] = {}
    for field in read_pod(original, configuration).source_fields:
        fields.setdefault(field.path, []).append(str(field.name))
    return {path: tuple(names) for path, names in fields.items()}


def merge(old: OptionalValue, original: OptionalValue, new: OptionalValue) -> OptionalValue:
    """Return the value of the update, except where the translation changed the original."""
    if _equal(new, old) or _equal(old, original):
        return new
    if _equal(new, original):
        return old
    if isinstance(new, dict):
        before = _to_mapping(old)
        return _merge_values((*new, *before), before, _to_mapping(original), new)
    if isinstance(new, list):
        return _merge_lists(old, original, new)
    return new


def _equal(value: OptionalValue, other: OptionalValue) -> bool:
    if isinstance(value, _Absent) or isinstance(other, _Absent):
        return value is other
    return equal_json(value, other)


def _to_mapping(value: OptionalValue) -> Mapping[str, Value]:
    return value if isinstance(value, dict) else {}


def _merge_values(
    names: Iterable[str],
    old: Mapping[str, Value],
    original: Mapping[str, Value],
    new: Mapping[str, Value],
) -> dict[str, Value]:
    """Return the merged values of these names, without those that are absent then."""
    result: dict[str, Value] = {}
    for name in dict.fromkeys(names):
        value = merge(old.get(name, ABSENT), original.get(name, ABSENT), new.get(name, ABSENT))
        if not isinstance(value, _Absent):
            result[name] = value
    return result


def _merge_lists(old: OptionalValue, original: OptionalValue, new: list[Value]) -> Value:
    """Merge lists by the names of their items. An item without a name is its own key."""
    lists = [each if isinstance(each, list) else [] for each in (old, original)]
    if len(lists[0]) == len(new) and all(map(_is_term, (*lists[0], *new))):
        return _merge_terms(lists[0], lists[1], new)
    keyed = [{_item_key(item): item for item in each} for each in (*lists, new)]
    if any(len(one) != len(each) for one, each in zip(keyed, (*lists, new), strict=True)):
        return new  # a name is not unique
    old_items, original_items, new_items = keyed
    names = (*old_items, *new_items)
    return [*_merge_values(names, old_items, original_items, new_items).values()]


def _is_term(item: Value) -> bool:
    return isinstance(item, dict) and _TERM_FIELDS.issuperset(item)


def _merge_terms(old: list[Value], original: list[Value], new: list[Value]) -> Value:
    """Merge node selector terms by position: their number is fixed, but each may be narrowed."""
    padded: list[OptionalValue] = [*original, *([ABSENT] * len(old))]
    merged = (merge(*each) for each in zip(old, padded[: len(old)], new, strict=True))
    return [each for each in merged if not isinstance(each, _Absent)]


def _item_key(item: Value) -> str:
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return f"{item['name']}\n{item.get('request', '')}"
    return repr(item)


def _set_value(new: Value, path: Path, value: OptionalValue) -> Iterator[Edit]:
    """Yield the edit that sets `value` at `path` of the update, if it differs."""
    parent = get_value(new, path[:-1])
    if not isinstance(parent, dict):
        return  # not a valid pod; the API server reports that
    current: OptionalValue = parent.get(str(path[-1]), ABSENT)
    if _equal(current, value):
        return
    if isinstance(value, _Absent):
        yield Edit("remove", path)
    else:
        yield Edit("add" if isinstance(current, _Absent) else "replace", path, value)


def _edit_metadata(
    old: Value, original: Value, new: Value, names: Mapping[Path, tuple[str, ...]]
) -> Iterator[Edit]:
    for part in ("annotations", "labels"):
        path: Path = ("metadata", part)
        old_values, original_values, new_values = (
            as_mapping(get_value(pod, path)) for pod in (old, original, new)
        )
        read = dict.fromkeys(names.get(path, ()))
        result = {name: each for name, each in new_values.items() if name not in read}
        result |= _merge_values(read, old_values, original_values, new_values)
        if part == "annotations":
            for name in POD_ANNOTATIONS:
                result.pop(name, None)
                if name in old_values:
                    result[name] = old_values[name]
        if result != new_values:
            yield from _set_value(new, path, {**result})


def _edit_spec(
    old: Value, original: Value, new: Value, names: Mapping[Path, tuple[str, ...]]
) -> Iterator[Edit]:
    specs = [as_mapping(get_value(pod, ("spec",))) for pod in (old, original, new)]
    for name in SPEC_FIELDS:
        parts = (each.get(name, ABSENT) for each in specs)
        # Without a label that a dialect reads, the selector is as the user wrote it.
        if any(path[:2] == ("spec", name) for path in names) or name != "nodeSelector":
            yield from _set_value(new, ("spec", name), merge(*parts))


def _edit_containers(old: Value, original: Value, new: Value) -> Iterator[Edit]:
    for path, *containers in _match_containers(old, original, new):
        for name in CONTAINER_FIELDS:
            parts = (each.get(name, ABSENT) for each in containers)
            yield from _set_value(new, (*path, name), merge(*parts))


_MatchedContainers = tuple[Path, Mapping[str, Value], Mapping[str, Value], Mapping[str, Value]]


def _match_containers(old: Value, original: Value, new: Value) -> Iterator[_MatchedContainers]:
    """Yield the containers that both the pod and the update have, matched by name."""
    for part in CONTAINER_LISTS:
        by_name, original_by_name = (
            {
                str(as_mapping(container).get("name")): as_mapping(container)
                for container in as_list(get_value(pod, ("spec", part)))
            }
            for pod in (old, original)
        )
        for number, container in enumerate(as_list(get_value(new, ("spec", part)))):
            name = as_mapping(container).get("name")
            if isinstance(name, str) and name in by_name:
                path: Path = ("spec", part, number)
                yield path, by_name[name], original_by_name.get(name, {}), as_mapping(container)


def _check_devices(old: Value, original: Value, new: Value) -> Iterator[Finding]:
    """Report changed device amounts, which the API server does not allow."""
    for path, *containers in _match_containers(old, original, new):
        for part in _AMOUNT_PARTS:
            current, before, update = (_read_part(each, part) for each in containers)
            for name in dict.fromkeys((*update, *before)):
                value = update.get(name)
                unchanged = equal_json(value, current.get(name)) or equal_json(
                    value, before.get(name)
                )
                if is_device_resource(name) and not unchanged:
                    change = f"from {_format(before.get(name))} to {_format(value)}"
                    yield DEVICES_FIXED.at(
                        format_path((*path, "resources", part)),
                        f"container {containers[2]['name']}: the update changes {name} {change}",
                    )
                    break


def _read_part(container: Mapping[str, Value], part: str) -> Mapping[str, Value]:
    return as_mapping(as_mapping(container.get("resources")).get(part))


def _format(value: Value) -> str:
    return "none" if value is None else format_value(value)


def _check_annotations(
    old: Value, original: Value, new: Value, names: Mapping[Path, tuple[str, ...]]
) -> Iterator[Finding]:
    """Report annotations that differ from those that were used to choose the devices."""
    path: Path = ("metadata", "annotations")
    old_values, original_values, new_values = (
        as_mapping(get_value(pod, path)) for pod in (old, original, new)
    )
    for name in names.get(path, ()):
        value, before = new_values.get(name), original_values.get(name)
        is_known = equal_json(value, old_values.get(name)) or equal_json(value, before)
        if name in new_values and not is_known:
            yield HINT_WITHOUT_EFFECT.at(
                format_path((*path, name)),
                f"the value was {_format(before)} when the pod was created, "
                f"and the update changes it to {_format(value)}",
            )
