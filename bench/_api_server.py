"""An API server in memory for benchmarks: lists from prepared bytes, watches, patches and bindings.

It listens on loopback without TLS. It checks only the versions of what it patches, so that it needs
less CPU time than the process that is measured.
"""

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import msgspec
from aiohttp import web

Json = dict[str, Any]
Key = tuple[str, str]
_PATH: Final = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>status|binding))?"
)


class ApiServer:
    """Objects by plural and by namespace and name, as JSON."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, bytes]] = {}
        self._watches: dict[str, set[asyncio.Queue[bytes]]] = {}
        self._versions = itertools.count(1000)
        self._version = 1000
        self.lease: Json = {}
        self.requests = 0

    def load(self, plural: str, objects: Iterable[Json]) -> None:
        """Store objects with the versions that they have."""
        stored = self._objects.setdefault(plural, {})
        for obj in objects:
            stored[_key(obj)] = msgspec.json.encode(obj)

    def put(self, plural: str, value: Json) -> Json:
        """Store an object at a new version, and tell the watches."""
        self._version = next(self._versions)
        value["metadata"] |= {"resourceVersion": f"{self._version}"}
        encoded = msgspec.json.encode(value)
        stored = self._objects.setdefault(plural, {})
        kind = "MODIFIED" if _key(value) in stored else "ADDED"
        stored[_key(value)] = encoded
        line = b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)
        for queue in self._watches.get(plural, ()):
            queue.put_nowait(line)
        return value

    def get(self, plural: str, namespace: str, name: str) -> Json:
        """Return an object; raises KeyError."""
        found: Json = msgspec.json.decode(self._objects[plural][namespace, name])
        return found

    # --- requests ---

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        self.requests += 1
        path = _PATH.fullmatch(request.path)
        if path is None:
            return _respond({"kind": "APIResourceList", "resources": []})
        plural, key = path["plural"], (path["namespace"] or "", path["name"] or "")
        if "watch" in request.query:
            return await self._watch(plural, request)
        if plural == "leases":
            return _respond(self._renewed_lease())
        if not path["name"]:
            return _respond(self._list(plural))
        if request.method == "GET":
            return web.Response(body=self._objects[plural][key], content_type="application/json")
        body = msgspec.json.decode(await request.read())
        return self._bind(key, body) if path["sub"] == "binding" else self._patch(plural, key, body)

    def _renewed_lease(self) -> Json:
        spec = self.lease | {"renewTime": f"2026-01-01T00:00:00.{self.requests:06}Z"}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}

    def _list(self, plural: str) -> Json:
        items = [msgspec.Raw(each) for each in self._objects.get(plural, {}).values()]
        return {"metadata": {"resourceVersion": f"{self._version}"}, "items": items}

    def _patch(self, plural: str, key: Key, patch: Json) -> web.Response:
        current = self.get(plural, *key)
        version = patch.get("metadata", {}).get("resourceVersion")
        if version not in {None, current["metadata"]["resourceVersion"]}:
            return _respond({"kind": "Status", "code": 409, "reason": "Conflict"}, 409)
        return _respond(self.put(plural, _merge(current, patch)))

    def _bind(self, key: Key, binding: Json) -> web.Response:
        pod = self.get("pods", *key)
        pod["spec"]["nodeName"] = binding["target"]["name"]
        self.put("pods", pod)
        return _respond({"kind": "Status", "status": "Success"}, 201)

    async def _watch(self, plural: str, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches.setdefault(plural, set()).add(queue)
        if "sendInitialEvents" in request.query:
            await response.write(self._initial_events(plural))
        with contextlib.suppress(ConnectionError):
            while True:
                lines = [await queue.get()]
                while not queue.empty():
                    lines.append(queue.get_nowait())
                await response.write(b"".join(lines))
        return response

    def _initial_events(self, plural: str) -> bytes:
        stored = self._objects.get(plural, {}).values()
        annotations = {"k8s.io/initial-events-end": "true"}
        metadata = {"resourceVersion": f"{self._version}", "annotations": annotations}
        end = json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode()
        return b"\n".join((*(b'{"type":"ADDED","object":%b}' % each for each in stored), end, b""))


@contextlib.asynccontextmanager
async def serve_api(server: ApiServer) -> AsyncIterator[str]:
    """Serve until the context exits; yields a kubeconfig."""
    runner = web.ServerRunner(
        web.Server(server.answer, access_log=None),
        shutdown_timeout=0.1,
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "bench",
                "clusters": [{"name": "bench", "cluster": {"server": address}}],
                "users": [{"name": "bench", "user": {}}],
                "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
            }
        )
    finally:
        await runner.cleanup()


def _key(value: Json) -> Key:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _respond(value: Json, status: int = 200) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json")


def _merge(value: object, patch: object) -> Any:  # noqa: ANN401  # JSON
    """Apply a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for name, each in patch.items():
        merged[name] = _merge(merged.get(name), each)
        if each is None:
            del merged[name]
    return merged
