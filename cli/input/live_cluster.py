"""Reads objects of a live cluster, for commands that accept `--context`.

Uses the kubeconfig of the user and sends GET requests only. Raises ClusterReadError with the
finding to print if a request fails. Functions import `cluster` when they run, because that import
takes half of the time of a short command.
"""

import argparse
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cli.input import codes
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.read import read_objects
from drawbridge.documents.values import Value
from drawbridge.finding import Finding

if TYPE_CHECKING:
    from drawbridge.cluster.resources import Resource
    from drawbridge.cluster.session import Session

T = TypeVar("T")
# The page size of list requests, which bounds the work of the API server per request.
PAGE = 500
_SOURCE = "<cluster>"


class ClusterReadError(Exception):
    """Reading the cluster failed; `finding` has the reason."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding

    @property
    def located(self) -> LocatedFinding:
        """The finding in the form that commands print, without a file."""
        return LocatedFinding(self.finding, "", 0, 0)


class _PageMetadata(msgspec.Struct, rename={"next": "continue"}):
    next: str = ""


class _Page(msgspec.Struct):
    # JSON objects. msgspec does not decode into the recursive type `Value`.
    items: list[dict[str, Any]] | None = None
    metadata: _PageMetadata = msgspec.field(default_factory=_PageMetadata)


def run_with_session(chosen: argparse.Namespace, read: Callable[["Session"], Awaitable[T]]) -> T:
    """Open a session for the options and run `read` with it; raises ClusterReadError."""
    import asyncio  # noqa: PLC0415  # takes longer than a short command

    return asyncio.run(_run_with_session(chosen, read))


async def _run_with_session(
    chosen: argparse.Namespace, read: Callable[["Session"], Awaitable[T]]
) -> T:
    from drawbridge.cluster.session import AccessError, ApiError, Session  # noqa: PLC0415  # loaded on demand

    try:
        async with await Session.open(chosen.kubeconfig, chosen.context or None) as session:
            return await read(session)
    except AccessError as error:
        raise ClusterReadError(codes.CLUSTER_UNREADABLE.at("", f"{error}")) from None
    except ApiError as error:
        raise ClusterReadError(codes.CLUSTER_UNREADABLE.at("", error.message)) from None


async def read_object(
    session: "Session", resource: "Resource", name: str, namespace: str = ""
) -> dict[str, Value] | None:
    """Read one object; None if it does not exist."""
    from drawbridge.cluster.session import ApiError  # noqa: PLC0415  # loaded on demand

    try:
        response = await session.call("GET", resource.path(namespace, name))
    except ApiError as error:
        if error.not_found:
            return None
        raise
    found: dict[str, Value] = msgspec.json.decode(response, type=dict[str, Any])
    return found


async def list_objects(
    session: "Session",
    resource: "Resource",
    namespace: str = "",
    fields: str = "",
    labels: str = "",
) -> list[dict[str, Value]]:
    """List all objects of a kind in pages; each has `apiVersion` and `kind`, as in a file."""
    selectors = {"fieldSelector": fields, "labelSelector": labels}
    query = {"limit": f"{PAGE}"} | {name: text for name, text in selectors.items() if text}
    found: list[dict[str, Value]] = []
    while True:
        response = await session.call("GET", resource.path(namespace), query=query)
        page = msgspec.json.decode(response, type=_Page)
        kind: Mapping[str, Value] = {"apiVersion": resource.api_version, "kind": resource.kind}
        found += [{**kind, **each} for each in page.items or ()]
        if not page.metadata.next:
            return found
        query = {**query, "continue": page.metadata.next}


async def list_if_served(session: "Session", resource: "Resource") -> list[dict[str, Value]]:
    """List all objects of a kind; none if the cluster does not have the kind."""
    from drawbridge.cluster.session import ApiError  # noqa: PLC0415  # loaded on demand

    try:
        return await list_objects(session, resource)
    except ApiError as error:
        if error.not_found or error.code == 403:
            return []
        raise


def as_documents(values: Iterable[Mapping[str, Value]]) -> list[Document]:
    """Convert objects to the documents that commands read from files."""
    document = {"apiVersion": "v1", "kind": "List", "items": [*values]}
    return list(read_objects(Source(_SOURCE, msgspec.json.encode(document))))
