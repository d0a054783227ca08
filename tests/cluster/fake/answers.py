"""What the fake API server answers at once: discovery, reads, writes and the start of a watch."""

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.cluster.fake import fields, kinds, status
from tests.cluster.fake.kinds import JSON, Kind, copied
from tests.cluster.fake.selectors import selects
from tests.cluster.fake.status import RefusedError
from tests.cluster.fake.store import Watcher, encoded
from tests.cluster.fake.trouble import Seen

if TYPE_CHECKING:
    from tests.cluster.fake.server import Server

_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/.))?(?:/(?P<plural>[^/]+))?"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>status|binding))?"
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.:]*[a-z0-9])?")
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
PATCHES = {
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
}


class Answer(NamedTuple):
    """A code and a body."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"


class Target:
    """The kind and the object that a request addresses."""

    def __init__(self, seen: Seen) -> None:
        match = _PATH.fullmatch(seen.path)
        if match is None:
            raise RefusedError(404, "the server could not find the requested resource")
        self.group, self.version = match["group"] or "", match["core"] or match["version"]
        self.namespace, self.plural = match["namespace"] or "", match["plural"] or ""
        self.name, self.sub = match["name"] or "", match["sub"] or ""
        self.query = seen.query

    def kind(self) -> Kind:
        """Return the kind; raises a 404 if it does not exist."""
        kind = kinds.of_path(self.group, self.version, self.plural)
        if kind is None or (self.sub and not kind.status):
            raise RefusedError(404, "the server could not find the requested resource")
        return kind

    @property
    def dry(self) -> bool:
        """Whether the request is a dry run."""
        return self.query.get("dryRun") == "All"


def answer(api: "Server", seen: Seen) -> Answer:
    """Handle a request that is no watch; raises RefusedError to reject it."""
    if seen.path == "/version":
        major, minor = api.version.split(".")
        return _shown({"major": major, "minor": minor, "gitVersion": f"v{api.version}.0"})
    if seen.path in ("/healthz", "/readyz", "/livez"):
        return Answer(b"ok", content_type="text/plain")
    if seen.path == _ACCESS_REVIEWS:
        return _shown(_review_access(api, _body(seen)), 201)
    target = Target(seen)
    if not target.plural:
        return _discovery(target)
    kind = target.kind()
    if seen.method == "GET" and not target.name:
        return _list(api, kind, target)
    return _one(api, kind, target, seen)


def _review_access(api: "Server", review: JSON) -> JSON:
    resource = review["spec"]["resourceAttributes"]["resource"]
    return {**review, "status": {"allowed": resource not in api.denied}}


def _one(api: "Server", kind: Kind, target: Target, seen: Seen) -> Answer:
    match seen.method, bool(target.name):
        case "GET", True:
            return _shown(_live(api, kind, target))
        case "POST", True if target.sub == "binding":
            return _bind(api, kind, target, _body(seen))
        case "POST", False:
            return _shown(_create(api, kind, target, _body(seen)), 201)
        case "PUT", True:
            return _shown(_replace(api, kind, target, _body(seen)))
        case "PATCH", True:
            return _patch(api, kind, target, seen)
        case "DELETE", True:
            return _delete(api, kind, target, seen)
    raise RefusedError(405, "the server does not allow this method on the requested resource")


def _bind(api: "Server", kind: Kind, target: Target, binding: JSON) -> Answer:
    """Set the node of a pod that has none."""
    before = _live(api, kind, target)
    if binding["metadata"].get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
        raise status.conflict(kind, target.name, "uid mismatch")
    version = before["metadata"]["resourceVersion"]
    if binding["metadata"].get("resourceVersion", version) != version:
        raise status.conflict(kind, target.name, "the object has been modified")
    if node := before["spec"].get("nodeName"):
        raise status.conflict(kind, target.name, f"pod is already assigned to node {node}")
    if before["spec"].get("schedulingGates"):
        raise status.conflict(kind, target.name, "the pod has scheduling gates")
    after = copied(before)
    after["spec"]["nodeName"] = binding["target"]["name"]
    api.store.update(kind, before, after, _manager(target))
    return _shown({"kind": "Status", "apiVersion": "v1", "status": "Success"}, 201)


def _shown(value: JSON, code: int = 200) -> Answer:
    return Answer(encoded(value), code)


def _discovery(target: Target) -> Answer:
    group = [k for k in kinds.KINDS if (k.group, k.version) == (target.group, target.version)]
    if not group:
        raise RefusedError(404, "the server could not find the requested resource")
    listed = [{"name": k.plural, "kind": k.kind, "namespaced": k.namespaced} for k in group]
    return _shown(
        {"kind": "APIResourceList", "groupVersion": group[0].api_version, "resources": listed}
    )


def _body(seen: Seen) -> Any:  # noqa: ANN401  # JSON
    try:
        return json.loads(seen.body)
    except ValueError:
        if "yaml" in seen.headers.get("Content-Type", ""):
            from tests.tables import read_yaml  # noqa: PLC0415  # rarely needed, slow to import

            return read_yaml(seen.body)
        raise RefusedError(400, "the object provided is unrecognized") from None


def _live(api: "Server", kind: Kind, target: Target) -> JSON:
    value = api.store.find(kind, target.namespace, target.name)
    if value is None:
        raise status.missing(kind, target.name)
    return value


def _checked(api: "Server", kind: Kind, target: Target, value: JSON) -> JSON:
    if value.get("kind", kind.kind) != kind.kind:
        raise RefusedError(400, f"{value['kind']} in version {kind.version} cannot be handled")
    value = {"kind": kind.kind, "apiVersion": kind.api_version, **value}
    metadata = value.setdefault("metadata", {})
    if kind.namespaced:
        if metadata.setdefault("namespace", target.namespace) != target.namespace:
            raise RefusedError(400, "the namespace of the provided object does not match")
    else:
        metadata.pop("namespace", None)
    if target.name and metadata.setdefault("name", target.name) != target.name:
        why = f"the name of the object ({metadata['name']}) does not match the name on the URL"
        raise RefusedError(400, f"{why} ({target.name})")
    return api.on_write(kind.plural, value) if api.on_write else value


def _create(api: "Server", kind: Kind, target: Target, value: JSON) -> JSON:
    value = _checked(api, kind, target, value)
    metadata = value["metadata"]
    if kind.namespaced and not api.store.find(kinds.named("namespaces"), "", target.namespace):
        raise status.missing(kinds.named("namespaces"), target.namespace)
    if metadata.get("resourceVersion"):
        raise RefusedError(400, "resourceVersion should not be set on objects to be created")
    if prefix := metadata.get("generateName"):
        suffix = "".join(api.store.drawn.choice(_LETTERS) for _ in range(5))
        metadata.setdefault("name", prefix + suffix)
    name = metadata.get("name", "")
    if not _NAME.fullmatch(name):
        why = "Required value: name or generateName is required" if not name else "Invalid value"
        raise status.invalid(kind, name, "metadata.name", why)
    if kind.status and kind.kind != "Node":
        value.pop("status", None)
    return api.store.create(kind, value, _manager(target), dry=target.dry)


def _manager(target: Target) -> str:
    return target.query.get("fieldManager", "unknown")


def _replace(api: "Server", kind: Kind, target: Target, value: JSON) -> JSON:
    before = _live(api, kind, target)
    value = _parts(kind, target, before, _checked(api, kind, target, value))
    return api.store.update(kind, before, value, _manager(target), dry=target.dry)


def _parts(kind: Kind, target: Target, before: JSON, after: JSON) -> JSON:
    """Return the object with the fields that the path may change: status or all others."""
    if not kind.status:
        return after
    if target.sub:
        asked = {key: after["metadata"].get(key) for key in ("uid", "resourceVersion")}
        metadata = {**before["metadata"], **asked}
        return {**before, "metadata": metadata, "status": after.get("status", {})}
    kept = {k: v for k, v in after.items() if k != "status"}
    return {**kept, "status": before["status"]} if "status" in before else kept


def _patch(api: "Server", kind: Kind, target: Target, seen: Seen) -> Answer:
    content = seen.headers.get("Content-Type", "")
    if content not in PATCHES:
        raise RefusedError(415, f"the body of the request was in an unknown format: {content}")
    patch = _body(seen)
    if content == "application/apply-patch+yaml":
        return _apply(api, kind, target, patch)
    before = _live(api, kind, target)
    if content == "application/json-patch+json":
        import jsonpatch  # noqa: PLC0415  # rarely needed, slow to import

        after = jsonpatch.apply_patch(copied(before), patch)
    elif content == "application/strategic-merge-patch+json":
        after = fields.merged(before, patch)
    else:
        after = merged(before, patch)
    after["metadata"].setdefault("resourceVersion", before["metadata"]["resourceVersion"])
    _check_uid(kind, before["metadata"], after["metadata"])
    after = _parts(kind, target, before, _checked(api, kind, target, after))
    return _shown(api.store.update(kind, before, after, _manager(target), dry=target.dry))


def _check_uid(kind: Kind, before: JSON, after: JSON) -> None:
    """Refuse the patch of another object with the name; a conflict of versions comes first."""
    is_current = after["resourceVersion"] == before["resourceVersion"]
    if is_current and after.get("uid", before["uid"]) != before["uid"]:
        why = f'Invalid value: "{after["uid"]}": field is immutable'
        raise status.invalid(kind, before["name"], "metadata.uid", why)


def merged(value: Any, patch: Any) -> Any:  # noqa: ANN401  # JSON
    """Apply a merge patch."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(value) if isinstance(value, dict) else {}
    for name, item in patch.items():
        if item is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), item)
    return result


def _apply(api: "Server", kind: Kind, target: Target, value: JSON) -> Answer:
    if "fieldManager" not in target.query:
        raise status.invalid(kind, target.name, "fieldManager", "Required value")
    if "apiVersion" not in value or "kind" not in value:
        raise RefusedError(400, "invalid object type: apiVersion and kind are required")
    if value.get("metadata", {}).get("managedFields"):
        raise RefusedError(400, "metadata.managedFields must be nil")
    value = _checked(api, kind, target, value)
    if kind.namespaced and not api.store.find(kinds.named("namespaces"), "", target.namespace):
        raise status.missing(kinds.named("namespaces"), target.namespace)
    there = api.store.find(kind, target.namespace, target.name) is not None
    if not there and value["metadata"].get("uid"):
        raise status.conflict(kind, target.name, "uid mismatch")
    made = api.store.apply(
        kind,
        (target.namespace, target.name),
        value,
        _manager(target),
        force=target.query.get("force") == "true",
        dry=target.dry,
    )
    return _shown(made, 200 if there else 201)


def _delete(api: "Server", kind: Kind, target: Target, seen: Seen) -> Answer:
    value = _live(api, kind, target)
    metadata = value["metadata"]
    wanted = (_body(seen) if seen.body else {}).get("preconditions") or {}
    for name, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(name, metadata[name]) != metadata[name]:
            why = f"Precondition failed: {words} in precondition: {wanted[name]}, "
            why += f"{words} in object meta: {metadata[name]}"
            raise status.conflict(kind, target.name, why)
    grace = _grace_seconds(api, kind, value, seen)
    left = None if target.dry else api.store.delete(kind, value, grace)
    if left is not None:
        return _shown(left)
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return _shown({**done, "details": {**status.about(kind, target.name), "uid": metadata["uid"]}})


def _grace_seconds(api: "Server", kind: Kind, value: JSON, seen: Seen) -> int:
    """Return how long a kubelet has to end a pod before it goes."""
    spec = value.get("spec") or {}
    if not api.graceful or kind.plural != "pods":
        return 0
    asked = (_body(seen) if seen.body else {}).get("gracePeriodSeconds")
    return int(spec.get("terminationGracePeriodSeconds", 30) if asked is None else asked)


# --- lists and watches -------------------------------------------------------------------------


def _list(api: "Server", kind: Kind, target: Target) -> Answer:
    query = target.query
    start = query.get("continue", "")
    if start:
        if start not in api.pages:
            raise status.expired("The provided continue parameter is too old to display a list")
        version, items = start.split(".")[0], api.pages.pop(start)
    else:
        chosen = query.get("labelSelector", ""), query.get("fieldSelector", "")
        version = f"{api.store.version}"
        items = [*api.store.among(kind, target.namespace, *chosen)]
    metadata: JSON = {"resourceVersion": version}
    limit = int(query.get("limit", 0)) or len(items)
    if len(items) > limit:
        metadata["continue"] = f"{version}.{api.store.drawn.getrandbits(32):08x}"
        metadata["remainingItemCount"] = len(items) - limit
        api.pages[metadata["continue"]] = items[limit:]
    shown = {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata}
    bare = [{k: v for k, v in i.items() if k not in ("kind", "apiVersion")} for i in items[:limit]]
    return _shown({**shown, "items": bare})


def watch(api: "Server", seen: Seen, deliver: Callable[[bytes | None], None]) -> Watcher:
    """Make a watcher and send it the earlier events; it is not among those of the store yet."""
    target = Target(seen)
    kind = target.kind()
    query = target.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")

    def chosen(value: JSON) -> bool:
        here = target.namespace in ("", value["metadata"].get("namespace", ""))
        return here and selects(labels, fields, value)

    watcher = Watcher(kind, chosen, query.get("allowWatchBookmarks") == "true", deliver)
    initial = query.get("sendInitialEvents") == "true"
    if initial and (not api.watch_list or query.get("resourceVersionMatch") != "NotOlderThan"):
        why = (
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        )
        raise status.invalid(kind, "", "sendInitialEvents", why)
    version = query.get("resourceVersion", "")
    if initial or version in ("", "0"):
        for value in api.store.among(kind, target.namespace, labels, fields):
            watcher.send("ADDED", value)
        if initial and watcher.bookmarks:
            watcher.bookmark(api.store.version, initial_events_end="true")
        return watcher
    watcher.after = int(version)
    try:
        for change in api.store.since(kind, int(version)):
            watcher.tell(change, {})
    except RefusedError as refused:
        watcher.send("ERROR", refused.body)
        watcher.deliver(None)
    return watcher
