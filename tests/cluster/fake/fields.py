"""Server-side apply: field owners, changes and conflicts.

Maps are merged; lists are merged by key where the API says so for the kinds used here, else they
are one value. A field is a path of names; an item of a keyed list is its key: `k:{"name":"x"}`.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.cluster.fake.kinds import JSON, copied

Path = tuple[str, ...]
Owned = dict[str, frozenset[Path]]

# The key fields of keyed lists, by the name of the list.
KEYED = {
    "webhooks": ("name",),
    "matchConditions": ("name",),
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "resourceClaims": ("name",),
    "claims": ("name",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "reservedFor": ("uid",),
}
SETS = frozenset({"finalizers"})
_UNOWNED = frozenset(
    {"apiVersion", "kind"}
    | {f"metadata.{name}" for name in ("name", "namespace", "uid", "resourceVersion")}
    | {f"metadata.{name}" for name in ("generation", "creationTimestamp", "managedFields")}
    | {f"metadata.{name}" for name in ("deletionTimestamp", "generateName")}
)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:  # noqa: ANN401  # JSON
    """Yield the paths of all fields that a manager can own, with their values."""
    if ".".join(path) in _UNOWNED:
        return
    if isinstance(value, dict) and (value or not path):
        for name, item in value.items():
            yield from leaves(item, (*path, name))
    elif isinstance(value, list) and path[-1] in SETS:
        for item in value:
            yield (*path, f"v:{json.dumps(item)}"), item
    elif isinstance(value, list) and _is_keyed(path[-1], value):
        for item in value:
            at = (*path, _key(path[-1], item))
            yield at, None
            yield from leaves(item, at)
    else:
        yield path, value


def fields(value: JSON) -> frozenset[Path]:
    return frozenset(path for path, _ in leaves(value))


def fight(live: JSON, wanted: JSON, manager: str, owners: Owned) -> dict[Path, str]:
    """Return the fields that an apply would change although another manager owns them."""
    now = dict(leaves(live))
    by_path = {}
    for path, value in leaves(wanted):
        if path in now and now[path] == value:
            continue
        for other, owned in owners.items():
            if other != manager and path in owned:
                by_path[path] = other.removesuffix("/Apply")
    return by_path


def applied(live: JSON, wanted: JSON, manager: str, owners: Owned) -> JSON:
    """Return the object after a forced apply and update `owners`."""
    result: JSON = merged(live, wanted)
    before, now = owners.get(manager, frozenset()), fields(wanted)
    others = frozenset[Path]().union(*(o for name, o in owners.items() if name != manager))
    values, old = dict(leaves(wanted)), dict(leaves(live))
    # Shorter paths come first: a list item is removed with all its fields, its key last.
    kept = {path[:size] for path in others | now for size in range(1, len(path))}
    for path in sorted(before - now - others - kept, key=len):
        _remove(result, path)
    for name in list(owners):
        if name != manager:
            lost = {p for p in owners[name] & now if old.get(p) != values[p]}
            owners[name] -= lost
            if not owners[name]:
                del owners[name]
    owners[manager] = now
    return result


def written(before: JSON | None, after: JSON, manager: str, owners: Owned) -> None:
    """Update the owners after a create, a PUT or a patch, by the changed fields."""
    old = dict(leaves(before)) if before else {}
    new = dict(leaves(after))
    changed = frozenset(path for path in new if path not in old or old[path] != new[path])
    for name in list(owners):
        owners[name] = frozenset(p for p in owners[name] if p in new and p not in changed)
        if not owners[name]:
            del owners[name]
    if changed:
        owners[manager] = owners.get(manager, frozenset()) | changed


def keep_listed(before: JSON, after: JSON, owners: Owned) -> None:
    """Drop the owners that a client leaves out of `metadata.managedFields`, if it says others."""
    listed = after["metadata"].get("managedFields")
    if listed and listed != before["metadata"].get("managedFields"):
        kept = {f"{each.get('manager')}/{each.get('operation')}" for each in listed}
        for name in owners.keys() - kept:
            del owners[name]


def managed(owners: Owned, api_version: str) -> list[JSON]:
    """Write the owners as `metadata.managedFields`."""
    shown = []
    for name, owned in owners.items():
        manager, _, operation = name.rpartition("/")
        tree: JSON = {}
        for path in sorted(owned):
            place = tree
            for part in path:
                place = place.setdefault(part if part[:2] in ("k:", "v:") else f"f:{part}", {})
        entry = {"manager": manager, "operation": operation, "apiVersion": api_version}
        shown.append({**entry, "fieldsType": "FieldsV1", "fieldsV1": tree})
    return shown


def _is_keyed(name: str, items: list[Any]) -> bool:
    return name in KEYED and all(isinstance(item, dict) for item in items)


def _key(name: str, item: JSON) -> str:
    return "k:" + json.dumps({key: item.get(key) for key in KEYED[name]}, separators=(",", ":"))


def merged(live: Any, wanted: Any, name: str = "") -> Any:  # noqa: ANN401  # JSON
    """Merge maps, and lists by key; null removes a field."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        both = dict(live)
        for key, item in wanted.items():
            both[key] = merged(live.get(key), item, key)
        return {key: item for key, item in both.items() if wanted.get(key, item) is not None}
    if isinstance(live, list) and isinstance(wanted, list):
        if name in SETS:
            return live + [item for item in wanted if item not in live]
        if _is_keyed(name, live + wanted):
            new = {_key(name, item): item for item in wanted}
            kept = [merged(item, new.pop(_key(name, item), {})) for item in live]
            return kept + [copied(item) for item in new.values()]
    return copied(wanted)


def _remove(place: Any, path: Path) -> None:  # noqa: ANN401  # JSON
    head, rest = path[0], path[1:]
    if isinstance(place, list):
        for index, item in enumerate(place):
            wanted = json.loads(head[2:])
            if item == wanted or (head[0] == "k" and wanted.items() <= item.items()):
                if rest:
                    _remove(item, rest)
                else:
                    del place[index]
                return
    elif head in place:
        if rest:
            _remove(place[head], rest)
            if place[head] in ({}, []):
                del place[head]
        else:
            del place[head]
