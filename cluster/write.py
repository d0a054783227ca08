"""Writing objects: server-side apply, create, replace, change, patch, delete.

Objects are plain JSON, so that no field of a newer server is lost on the way through. Every write
asks the fence first, where there is one. Knows nothing of what is written, or why.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from cluster.errors import ApiError, NotLeadingError
from cluster.resources import Resource
from cluster.session import Session

__all__ = ["JSON", "Fence", "NotLeadingError", "Writer"]

JSON = dict[str, Any]
Listed = list[JSON]
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
WRITE_SECONDS: Final = 10.0
# A fence opens for a write up to this long before somebody else may lead (see cluster.lease), so
# what has not arrived by then is given up.
FENCED_SECONDS: Final = 5.0
CHANGES: Final = 6
PAGE: Final = 500


class Fence(Protocol):
    """Knows whether this process may write."""

    async def check(self) -> None:
        """Raise NotLeadingError unless it certainly may."""


class Writer:
    """Writes as one field manager, behind a fence or without."""

    def __init__(
        self,
        session: Session,
        *,
        manager: str = "drawbridge",
        fence: Fence | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._session = session
        self._manager = manager
        self._fence = fence
        self._pause = pause

    # --- reading, because only what is there can be changed -------------------------------------

    async def read(self, resource: Resource, name: str, *, namespace: str = "") -> JSON | None:
        """Read an object from the server; None where there is none."""
        raw = await self._read(resource, name, namespace)
        return None if raw is None else _whole(resource, _decode(raw))

    async def list(
        self, resource: Resource, *, namespace: str = "", fields: str = "", labels: str = ""
    ) -> Listed:
        """Read all objects, page by page; at once where the pages expire."""
        try:
            return await self._pages(resource, namespace, fields, labels, PAGE)
        except ApiError as error:
            if not error.gone:
                raise
        return await self._pages(resource, namespace, fields, labels, 0)

    async def _pages(
        self, resource: Resource, namespace: str, fields: str, labels: str, size: int
    ) -> Listed:
        wanted = {"fieldSelector": fields, "labelSelector": labels, "limit": f"{size or ''}"}
        query = {name: text for name, text in wanted.items() if text}
        found: Listed = []
        while True:
            page = _decode(await self._session.call("GET", resource.path(namespace), query=query))
            found += (_whole(resource, item) for item in page.get("items") or ())
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
    ) -> JSON:
        """Apply what we want of an object; fields that we applied before and not now are removed.

        Without `force`, a field that another manager owns and sees otherwise is a conflict.
        """
        whole = _whole(resource, value)
        query = {"force": "true"} if force else {}
        path = _path_of(resource, whole, namespace)
        return await self._write("PATCH", path, whole, dry_run=dry_run, query=query, content=APPLY)

    async def create(
        self,
        resource: Resource,
        value: Mapping[str, Any],
        *,
        namespace: str = "",
        dry_run: bool = False,
    ) -> JSON:
        """Create an object, and give it as the server has it; an ApiError where it exists."""
        whole = _whole(resource, value)
        path = resource.path(namespace or _namespace_of(whole))
        return await self._write("POST", path, whole, dry_run=dry_run)

    async def replace(
        self,
        resource: Resource,
        value: Mapping[str, Any],
        *,
        namespace: str = "",
        part: str = "",
        dry_run: bool = False,
    ) -> JSON:
        """Write a whole object; its resourceVersion says what it is based on.

        `part` is the subresource to write, as `status`.
        """
        whole = _whole(resource, value)
        path = _path_of(resource, whole, namespace, part)
        return await self._write("PUT", path, whole, dry_run=dry_run)

    async def change(
        self,
        resource: Resource,
        name: str,
        change: Callable[[JSON], JSON | None],
        *,
        namespace: str = "",
        part: str = "",
    ) -> JSON | None:
        """Read an object, let `change` make of it what it should be, and write that.

        Again from the reading when somebody else was faster, a bounded number of times. `change`
        may alter what it is given, and gives None where nothing is to be done. The answer is the
        object as it is now, or None where there is none.
        """
        for attempt in range(1, CHANGES + 1):
            raw = await self._read(resource, name, namespace)
            if raw is None:
                return None
            before = _whole(resource, _decode(raw))
            wanted = change(_whole(resource, _decode(raw)))
            if wanted is None or wanted == before:
                return before
            try:
                return await self.replace(resource, wanted, namespace=namespace, part=part)
            except ApiError as error:
                if not error.conflict or attempt == CHANGES:
                    raise
            # Two that change the same object would else meet again and again.
            await self._pause(0.02 * 2**attempt * random.random())  # noqa: S311  # jitter
        raise AssertionError  # the last attempt raised

    async def patch(  # noqa: PLR0913  # all but three by name
        self,
        resource: Resource,
        name: str,
        body: object,
        *,
        namespace: str = "",
        content: str = MERGE,
        part: str = "",
        dry_run: bool = False,
    ) -> JSON:
        """Change an object by a patch, whatever else it has become."""
        path = _with(resource.path(namespace, name), part)
        return await self._write("PATCH", path, body, dry_run=dry_run, content=content)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        version: str = "",
    ) -> bool:
        """Delete an object, only if it is still this one, or this version of it, where said.

        False where there is none, or, asked by `uid` alone, another of that name. A conflict is an
        ApiError: somebody used the object since `version`.
        """
        required = {"uid": uid, "resourceVersion": version}
        body: JSON = {"apiVersion": "v1", "kind": "DeleteOptions"}
        body["preconditions"] = {name: text for name, text in required.items() if text}
        try:
            await self._write("DELETE", resource.path(namespace, name), body, managed=False)
        except ApiError as error:
            if error.missing or (error.conflict and uid and not version):
                return False
            raise
        return True

    async def _read(self, resource: Resource, name: str, namespace: str) -> bytes | None:
        try:
            return await self._session.call("GET", resource.path(namespace, name))
        except ApiError as error:
            if not error.missing:
                raise
            return None

    async def _write(  # noqa: PLR0913  # one place for every write
        self,
        method: str,
        path: str,
        body: object,
        *,
        dry_run: bool = False,
        managed: bool = True,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> JSON:
        query = {**(query or {}), **({"fieldManager": self._manager} if managed else {})}
        if dry_run:
            query["dryRun"] = "All"
        # A dry run writes nothing: whoever does not lead may ask, too.
        fence = None if dry_run else self._fence
        answer = await self._session.call(
            method,
            path,
            query=query,
            # Compact, because the server keeps a claim's opaque parameters byte for byte and gives
            # them back compact: written otherwise they would be a change of what is immutable.
            body=msgspec.json.encode(body),
            content=content,
            seconds=WRITE_SECONDS if fence is None else FENCED_SECONDS,
            guard=None if fence is None else fence.check,
        )
        return _decode(answer)


def _decode(raw: bytes) -> JSON:
    value: JSON = msgspec.json.decode(raw)
    return value


def _whole(resource: Resource, value: Mapping[str, Any]) -> JSON:
    """Add what the items of a list leave out and the server wants back."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, **value}


def _namespace_of(value: Mapping[str, Any]) -> str:
    return str(value["metadata"].get("namespace", ""))


def _path_of(resource: Resource, value: Mapping[str, Any], namespace: str, part: str = "") -> str:
    name = value["metadata"]["name"]
    return _with(resource.path(namespace or _namespace_of(value), name), part)


def _with(path: str, part: str) -> str:
    return f"{path}/{part}" if part else path
