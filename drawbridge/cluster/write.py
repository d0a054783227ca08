"""Writes objects: server-side apply, create, replace, change, patch and delete.

Objects are decoded JSON without a schema, so that a write keeps the fields of newer API versions.
A fence, if there is one, is checked before every write.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from drawbridge.cluster import protobuf_metadata
from drawbridge.cluster.errors import ApiError, NotLeadingError
from drawbridge.cluster.nesting import DeepDecoder
from drawbridge.cluster.protobuf_metadata import MetadataEdit
from drawbridge.cluster.resources import ApiObject, Resource
from drawbridge.cluster.session import Session
from drawbridge.names import FIELD_MANAGER

__all__ = ["ApiObject", "Fence", "NotLeadingError", "Writer"]

ApiObjects = list[ApiObject]
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
WRITE_SECONDS: Final = 10.0
# The leader stops writing this long before another process can lead (see drawbridge.cluster.lease),
# so a fenced request that takes longer is abandoned.
FENCED_SECONDS: Final = 5.0
MAX_CHANGE_ATTEMPTS: Final = 6
PAGE_SIZE: Final = 500


class ObjectVersion(NamedTuple):
    """One version of one object, with its finalizers."""

    namespace: str
    name: str
    uid: str
    version: str
    finalizers: tuple[str, ...] = ()


class Fence(Protocol):
    """Decides whether this process may write."""

    async def check(self) -> None:
        """Raise NotLeadingError unless this process certainly leads."""


class Writer:
    """Writes objects as one field manager, optionally behind a fence."""

    def __init__(
        self,
        session: Session,
        *,
        manager: str = FIELD_MANAGER,
        fence: Fence | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._manager = manager
        self._fence = fence
        self._pause = pause

    # --- reading -------------------------------------------------------------------------------

    async def read(self, resource: Resource, name: str, *, namespace: str = "") -> ApiObject | None:
        """Read an object from the API server; None if it does not exist."""
        raw = await self._read(resource, name, namespace)
        return None if raw is None else _with_type(resource, _decode(raw))

    async def list(
        self, resource: Resource, *, namespace: str = "", fields: str = "", labels: str = ""
    ) -> ApiObjects:
        """List all objects page by page; without pages if a page expires."""
        try:
            return await self._list_pages(resource, namespace, fields, labels, PAGE_SIZE)
        except ApiError as error:
            if not error.gone:
                raise
        return await self._list_pages(resource, namespace, fields, labels, 0)

    async def _list_pages(
        self, resource: Resource, namespace: str, fields: str, labels: str, size: int
    ) -> ApiObjects:
        parameters = {"fieldSelector": fields, "labelSelector": labels, "limit": f"{size or ''}"}
        query = {name: text for name, text in parameters.items() if text}
        found: ApiObjects = []
        while True:
            page = _decode(await self._session.call("GET", resource.path(namespace), query=query))
            found += (_with_type(resource, item) for item in page.get("items") or ())
            if not (following := page["metadata"].get("continue")):
                return found
            query["continue"] = following

    # --- writing -------------------------------------------------------------------------------

    async def apply(
        self,
        resource: Resource,
        value: Mapping[str, Any],
        *,
        namespace: str = "",
        force: bool = True,
        dry_run: bool = False,
    ) -> ApiObject:
        """Apply the fields of this manager; removes fields that it applied before and not now.

        Without `force`, a field that another manager owns with a different value is a conflict.
        """
        typed = _with_type(resource, value)
        query = {"force": "true"} if force else {}
        path = _object_path(resource, typed, namespace)
        return await self._write(
            "PATCH", path, typed, dry_run=dry_run, query=query, content_type=APPLY
        )

    async def create(
        self,
        resource: Resource,
        value: Mapping[str, Any],
        *,
        namespace: str = "",
        dry_run: bool = False,
    ) -> ApiObject:
        """Create an object and return the stored form; raises ApiError if it exists."""
        typed = _with_type(resource, value)
        path = resource.path(namespace or _namespace_of(typed))
        return await self._write("POST", path, typed, dry_run=dry_run)

    async def create_subresource(
        self, resource: Resource, name: str, value: Mapping[str, Any], subresource: str
    ) -> ApiObject:
        """Create a subresource that is an action, such as the binding of a pod."""
        path = _with_subresource(resource.path(_namespace_of(value), name), subresource)
        return await self._write("POST", path, value)

    async def replace(
        self,
        resource: Resource,
        value: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> ApiObject:
        """Replace an object; a conflict if it has a resourceVersion that is not current.

        `subresource` selects a subresource, such as `status`.
        """
        typed = _with_type(resource, value)
        path = _object_path(resource, typed, namespace, subresource)
        return await self._write("PUT", path, typed, dry_run=dry_run)

    async def change(
        self,
        resource: Resource,
        name: str,
        change: Callable[[ApiObject], ApiObject | None],
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> ApiObject | None:
        """Read an object, apply `change` and replace the object; retries on conflicts.

        `change` may modify its argument. It returns the new object, or None to change nothing.
        Returns the current object, or None if it does not exist.
        """
        for attempt in range(1, MAX_CHANGE_ATTEMPTS + 1):
            raw = await self._read(resource, name, namespace)
            if raw is None:
                return None
            before = _with_type(resource, _decode_whole(raw))
            changed = change(_with_type(resource, _decode_whole(raw)))
            if changed is None or changed == before:
                return before
            try:
                return await self.replace(
                    resource, changed, namespace=namespace, subresource=subresource
                )
            except ApiError as error:
                if not error.conflict or attempt == MAX_CHANGE_ATTEMPTS:
                    raise
            # Without jitter two writers of the same object could conflict repeatedly.
            await self._pause(0.02 * 2**attempt * random.random())  # noqa: S311  # jitter
        raise AssertionError  # the last attempt raised

    async def patch(  # noqa: PLR0913  # all but three by name
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        namespace: str = "",
        content_type: str = MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> ApiObject:
        """Patch an object, regardless of its current version."""
        path = _with_subresource(resource.path(namespace, name), subresource)
        return await self._write("PATCH", path, body, dry_run=dry_run, content_type=content_type)

    async def edit_metadata(
        self, resource: Resource, current: ObjectVersion, edit: MetadataEdit
    ) -> ApiObject:
        """Change finalizers and annotations; a conflict if the object has another version."""
        metadata = {
            "uid": current.uid,
            "resourceVersion": current.version,
            "finalizers": list(edit.finalizers(current.finalizers)),
            "annotations": dict(edit.annotations),
        }
        try:
            return await self.patch(
                resource, current.name, {"metadata": metadata}, namespace=current.namespace
            )
        except ApiError as error:
            # The rest of the object may be immutable, and JSON may not be its stored form.
            if error.code != 422:
                raise
        return await self._edit_metadata_in_protobuf(resource, current, edit)

    async def _edit_metadata_in_protobuf(
        self, resource: Resource, current: ObjectVersion, edit: MetadataEdit
    ) -> ApiObject:
        path = resource.path(current.namespace, current.name)
        content_type = protobuf_metadata.CONTENT_TYPE
        stored = await self._session.call("GET", path, accept=content_type)
        try:
            version = protobuf_metadata.resource_version(stored)
            changed = protobuf_metadata.edit_metadata(stored, edit)
        except (ValueError, UnicodeError) as error:
            raise ApiError(0, "InvalidData", f"{path} in protobuf: {error}") from None
        if version != current.version:
            raise ApiError(409, "Conflict", f"{path} has version {version}, not {current.version}")
        return await self._write("PUT", path, changed, content_type=content_type)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        version: str = "",
    ) -> bool:
        """Delete an object; `uid` and `version` are optional preconditions.

        Returns False if the object does not exist, or if `uid` is the only precondition and another
        object has the name. Raises ApiError on a conflict with `version`.
        """
        preconditions = {"uid": uid, "resourceVersion": version}
        body: ApiObject = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body["preconditions"] = {name: text for name, text in preconditions.items() if text}
        try:
            await self._write("DELETE", resource.path(namespace, name), body, has_manager=False)
        except ApiError as error:
            if error.not_found or (error.conflict and uid and not version):
                return False
            raise
        return True

    async def _read(self, resource: Resource, name: str, namespace: str) -> bytes | None:
        try:
            return await self._session.call("GET", resource.path(namespace, name))
        except ApiError as error:
            if not error.not_found:
                raise
            return None

    async def _write(  # noqa: PLR0913  # one place for every write
        self,
        method: str,
        path: str,
        body: object,
        *,
        dry_run: bool = False,
        has_manager: bool = True,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> ApiObject:
        query = {**(query or {}), **({"fieldManager": self._manager} if has_manager else {})}
        if dry_run:
            query["dryRun"] = "All"
        # A dry run writes nothing, so a process that does not lead may send it.
        fence = None if dry_run else self._fence
        response = await self._session.call(
            method,
            path,
            query=query,
            # The server stores the opaque parameters of a claim byte for byte and returns them in
            # compact form. Any other form would change an immutable field.
            body=body if isinstance(body, bytes) else msgspec.json.encode(body),
            content_type=content_type,
            seconds=WRITE_SECONDS if fence is None else FENCED_SECONDS,
            check=None if fence is None else fence.check,
        )
        return _decode(response)


_OBJECT: Final[DeepDecoder[ApiObject]] = DeepDecoder(dict)


def _decode(raw: bytes) -> ApiObject:
    """Decode an object or a list to read it; it may lack parts that are nested too deep."""
    return _OBJECT.decode(raw)


def _decode_whole(raw: bytes) -> ApiObject:
    """Decode an object to write it back; raises ApiError if parts would be missing."""
    try:
        value: ApiObject = msgspec.json.decode(raw)
    except RecursionError as error:
        raise ApiError(0, "InvalidData", f"the object cannot be changed: {error}") from None
    return value


def _with_type(resource: Resource, value: Mapping[str, Any]) -> ApiObject:
    """Add kind and apiVersion, which the items of a list do not have but a write needs."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def _namespace_of(value: Mapping[str, Any]) -> str:
    return str(value["metadata"].get("namespace", ""))


def _object_path(
    resource: Resource, value: Mapping[str, Any], namespace: str, subresource: str = ""
) -> str:
    name = value["metadata"]["name"]
    return _with_subresource(resource.path(namespace or _namespace_of(value), name), subresource)


def _with_subresource(path: str, subresource: str) -> str:
    return f"{path}/{subresource}" if subresource else path
