"""Reads and writes the objects of one resource on the API server.

All methods raise ApiError. An object to write is JSON without a schema, so that a write keeps the
fields of newer API versions. A fence, if there is one, is checked before every write.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster import protobuf_metadata
from drawbridge.cluster.errors import check_answer, naming_request, unreadable
from drawbridge.cluster.protobuf_metadata import MetadataEdit
from drawbridge.cluster.resources import ApiObject, Resource
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import PAGE_DECODER, ObjectPage, read_header
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder, decode_foreign
from drawbridge.names import FIELD_MANAGER

T = TypeVar("T")
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
READ_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 10.0
# The leader stops writing this long before another process can lead (see drawbridge.cluster.lease),
# so a fenced request that takes longer is abandoned.
FENCED_SECONDS: Final = 5.0
# Tenants can make objects of 1.5 MiB, and a page is kept as a whole.
PAGE_SIZE: Final = 50
# Decoding this much takes some milliseconds.
_BYTES_PER_STEP: Final = 256 << 10
_NONE: Final[Mapping[str, str]] = {}
_OBJECT: Final[ForeignDecoder[ApiObject]] = ForeignDecoder(dict, any_depth=True)


class ObjectVersion(NamedTuple):
    """One version of one object, with its finalizers."""

    namespace: str
    name: str
    uid: str
    version: str
    finalizers: tuple[str, ...] = ()


class _Write(NamedTuple):
    """A request that writes."""

    method: str
    path: str
    body: object
    content_type: str = "application/json"
    query: Mapping[str, str] = _NONE


class Fence(Protocol):
    """Decides whether this process may write."""

    async def check(self) -> None:
        """Raise NotLeadingError unless this process certainly leads."""


def decode_object(raw: bytes) -> ApiObject:
    """Decode an object of any kind; it may lack parts that are nested too deep."""
    return _OBJECT.decode(raw)


def _decode_page(response: bytes) -> ObjectPage:
    try:
        return PAGE_DECODER.decode(response)
    except UNDECODABLE as error:
        raise unreadable(error) from None


class ResourceClient(Generic[T]):
    """Reads and writes objects of one resource as one field manager, optionally behind a fence.

    `decode` decodes a response. `namespace` is the default for calls that pass none.
    """

    def __init__(  # noqa: PLR0913  # all but three by name
        self,
        session: Session,
        resource: Resource,
        decode: Callable[[bytes], T],
        *,
        namespace: str = "",
        manager: str = FIELD_MANAGER,
        fence: Fence | None = None,
    ) -> None:
        self._session = session
        self._resource = resource
        self._decode = decode
        self._namespace = namespace
        self._manager = manager
        self._fence = fence

    # --- reading -------------------------------------------------------------------------------

    async def read(
        self, name: str, namespace: str = "", *, seconds: float = READ_SECONDS
    ) -> T | None:
        """Read an object from the API server; None if it does not exist."""
        path = self._path(namespace, name)
        try:
            response = await self._session.call("GET", path, seconds=seconds)
        except ApiError as error:
            if error.not_found:
                return None
            raise
        with naming_request(f"GET {path}"):
            return self._decode_response(response)

    async def iterate(
        self, namespace: str = "", *, fields: str = "", labels: str = "", page_size: int = PAGE_SIZE
    ) -> AsyncIterator[T]:
        """Yield all objects, as they are at one moment, and keep no more than a page of them.

        An object that `decode` cannot read is left out, as in a cache. Raises the ApiError `gone`
        if a page expires: whoever needs all objects of one moment has to begin anew.
        """
        selectors = {"fieldSelector": fields, "labelSelector": labels, "limit": f"{page_size}"}
        query = {name: text for name, text in selectors.items() if text}
        path, size = self._path(namespace), 0
        while True:
            response = await self._session.call("GET", path, query=query)
            with naming_request(f"GET {path}"):
                page = _decode_page(response)
            await asyncio.sleep(0)  # others run
            for raw in page.items or ():
                size += len(memoryview(raw))
                if size >= _BYTES_PER_STEP:
                    size = 0
                    await asyncio.sleep(0)
                try:
                    typed = bytes(raw) if read_header(raw).kind else self._resource.add_type(raw)
                    yield decode_foreign(self._decode, typed)[1]
                except (ApiError, *UNDECODABLE):
                    continue
            query["continue"] = page.metadata.continue_
            if not page.metadata.continue_:
                return

    # --- writing -------------------------------------------------------------------------------

    async def apply(
        self,
        value: Mapping[str, Any],
        namespace: str = "",
        *,
        force: bool = True,
        dry_run: bool = False,
    ) -> T:
        """Apply the fields of this manager; removes fields that it applied before and not now.

        Without `force`, a field that another manager owns with a different value is a conflict.
        """
        query = {"force": "true"} if force else {}
        path, typed = self._path_of(value, namespace), self._with_type(value)
        return await self._write(_Write("PATCH", path, typed, APPLY, query), dry_run=dry_run)

    async def create(
        self, value: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False
    ) -> T:
        """Create an object and return the stored form; with `dry_run` nothing is stored."""
        path = self._path(namespace or self._namespace or _namespace_of(value))
        request = _Write("POST", path, self._with_type(value))
        return await self._write(request, dry_run=dry_run)

    async def bind(self, name: str, binding: Mapping[str, Any], namespace: str = "") -> T:
        """Bind a pod to the node of a Binding."""
        return await self._write(_Write("POST", self._path(namespace, name, "binding"), binding))

    async def replace(self, value: Mapping[str, Any], namespace: str = "") -> T:
        """Replace an object; a conflict if it has a resourceVersion that is not current."""
        path = self._path_of(value, namespace)
        return await self._write(_Write("PUT", path, self._with_type(value)))

    async def merge(
        self, name: str, value: object, namespace: str = "", *, subresource: str = ""
    ) -> T:
        """Apply a JSON merge patch; null removes a field."""
        path = self._path(namespace, name, subresource)
        return await self._write(_Write("PATCH", path, value, MERGE))

    async def write_conditions(
        self, name: str, uid: str, conditions: Sequence[ApiObject], namespace: str = ""
    ) -> T:
        """Write conditions of an object of Kubernetes; those of other types stay."""
        path = self._path(namespace, name, "status")
        value = {"metadata": {"uid": uid}, "status": {"conditions": conditions}}
        return await self._write(_Write("PATCH", path, value, STRATEGIC))

    async def edit_metadata(self, current: ObjectVersion, edit: MetadataEdit) -> T:
        """Change finalizers and annotations; a conflict if the object has another version."""
        metadata = {
            "uid": current.uid,
            "resourceVersion": current.version,
            "finalizers": list(edit.finalizers(current.finalizers)),
            "annotations": dict(edit.annotations),
        }
        try:
            return await self.merge(current.name, {"metadata": metadata}, current.namespace)
        except ApiError as error:
            # The rest of the object may be immutable, and JSON may not be its stored form.
            if error.code != 422:
                raise
        return await self._edit_metadata_in_protobuf(current, edit)

    async def _edit_metadata_in_protobuf(self, current: ObjectVersion, edit: MetadataEdit) -> T:
        path = self._path(current.namespace, current.name)
        content_type = protobuf_metadata.CONTENT_TYPE
        stored = await self._session.call("GET", path, accept=content_type)
        try:
            version = protobuf_metadata.resource_version(stored)
            changed = protobuf_metadata.edit_metadata(stored, edit)
        except (ValueError, UnicodeError) as error:
            raise ApiError(0, "InvalidData", f"{path} in protobuf: {error}") from None
        if version != current.version:
            raise ApiError(409, "Conflict", f"{path} has version {version}, not {current.version}")
        return await self._write(_Write("PUT", path, changed, content_type))

    async def delete(
        self, name: str, namespace: str = "", *, uid: str = "", version: str = ""
    ) -> bool:
        """Delete an object; `uid` and `version` are optional preconditions.

        Returns False if the object does not exist, or if `uid` is the only precondition and another
        object has the name. Raises ApiError on a conflict with `version`.
        """
        preconditions = {"uid": uid, "resourceVersion": version}
        body: ApiObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body["preconditions"] = {name: text for name, text in preconditions.items() if text}
        try:
            path = self._path(namespace, name)
            check_answer(await self._send(_Write("DELETE", path, body), self._fence))
        except ApiError as error:
            if error.not_found or (error.conflict and uid and not version):
                return False
            raise
        return True

    # --- requests ------------------------------------------------------------------------------

    async def _write(self, request: "_Write", *, dry_run: bool = False) -> T:
        dry = {"dryRun": "All"} if dry_run else {}
        query = {**request.query, "fieldManager": self._manager, **dry}
        # A dry run writes nothing, so a process that does not lead may send it.
        fence = None if dry_run else self._fence
        return self._decode_response(await self._send(request._replace(query=query), fence))

    async def _send(self, request: "_Write", fence: Fence | None) -> bytes:
        body = request.body
        return await self._session.call(
            request.method,
            request.path,
            query=request.query,
            # The server stores the opaque parameters of a claim byte for byte and returns them in
            # compact form. Any other form would change an immutable field.
            body=body if isinstance(body, bytes) else msgspec.json.encode(body),
            content_type=request.content_type,
            seconds=WRITE_SECONDS if fence is None else FENCED_SECONDS,
            check=None if fence is None else fence.check,
        )

    def _decode_response(self, response: bytes) -> T:
        text = check_answer(response)
        try:
            return decode_foreign(self._decode, text)[1]
        except UNDECODABLE as error:
            raise unreadable(error) from None

    def _with_type(self, value: Mapping[str, Any]) -> ApiObject:
        """Add kind and apiVersion, which the items of a list do not have but a write needs."""
        resource = self._resource
        return {"apiVersion": resource.api_version, "kind": resource.kind, **value}

    def _path_of(self, value: Mapping[str, Any], namespace: str) -> str:
        own = namespace or self._namespace or _namespace_of(value)
        return self._resource.path(own, value["metadata"]["name"])

    def _path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        path = self._resource.path(namespace or self._namespace, name)
        return f"{path}/{subresource}" if subresource else path


def _namespace_of(value: Mapping[str, Any]) -> str:
    return str(value["metadata"].get("namespace", ""))
