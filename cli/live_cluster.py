"""Objects of a live cluster as the documents that files give, for commands about live objects.

Reads with the user's own kubeconfig and writes nothing. What cannot be read is an exception with
the finding to show. Imported only by commands that talk to a cluster, and imports what that needs
only when it is needed: half of the time of a short command.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from cli import codes
from documents.document import Document, Located, Source
from documents.read import objects
from documents.values import Value
from dra.finding import Finding

if TYPE_CHECKING:
    from cluster.resources import Resource
    from cluster.session import Session

T = TypeVar("T")
# Above this a list comes in pages, so that no answer holds the server up.
PAGE = 500
CURRENT = ""
_SOURCE = "<cluster>"


class UnreadableError(Exception):
    """The cluster could not be read; `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding

    @property
    def located(self) -> Located:
        """The finding as commands print it; no line of a file is to blame."""
        return Located(self.finding, "", 0, 0)


class _PageMetadata(msgspec.Struct, rename={"next": "continue"}):
    next: str = ""


class _Page(msgspec.Struct):
    # What JSON has, which msgspec cannot say of a type that contains itself.
    items: list[dict[str, Any]] | None = None
    metadata: _PageMetadata = msgspec.field(default_factory=_PageMetadata)


def options(parser: argparse.ArgumentParser) -> None:
    """Declare which cluster."""
    parser.add_argument(
        "--context",
        metavar="NAME",
        nargs="?",
        const=CURRENT,
        help="a live cluster, by a context of the kubeconfig (without a name: the current one)",
    )
    parser.add_argument("--kubeconfig", metavar="FILE", help="instead of the usual kubeconfig")


def reading(chosen: argparse.Namespace, read: Callable[["Session"], Awaitable[T]]) -> T:
    """Open a session as the options say and let `read` use it; UnreadableError where it fails."""
    return asyncio.run(_reading(chosen, read))


async def _reading(chosen: argparse.Namespace, read: Callable[["Session"], Awaitable[T]]) -> T:
    from cluster.session import AccessError, ApiError, Session  # noqa: PLC0415  # see above

    try:
        async with await Session.open(chosen.kubeconfig, chosen.context or None) as session:
            return await read(session)
    except AccessError as error:
        raise UnreadableError(codes.CLUSTER_UNREADABLE.at("", f"{error}")) from None
    except ApiError as error:
        raise UnreadableError(codes.CLUSTER_UNREADABLE.at("", error.message)) from None


async def one(
    session: "Session", resource: "Resource", name: str, namespace: str = ""
) -> dict[str, Value] | None:
    """Read one object; None when it is not there."""
    from cluster.session import ApiError  # noqa: PLC0415  # see above

    try:
        answer = await session.call("GET", resource.path(namespace, name))
    except ApiError as error:
        if error.missing:
            return None
        raise
    found: dict[str, Value] = msgspec.json.decode(answer, type=dict[str, Any])
    return found


async def every(
    session: "Session", resource: "Resource", namespace: str = "", fields: str = ""
) -> list[dict[str, Value]]:
    """Read all objects of a kind, page by page; each says its kind, as in a file."""
    query = {"limit": f"{PAGE}"} | ({"fieldSelector": fields} if fields else {})
    found: list[dict[str, Value]] = []
    while True:
        answer = await session.call("GET", resource.path(namespace), query=query)
        page = msgspec.json.decode(answer, type=_Page)
        kind: Mapping[str, Value] = {"apiVersion": resource.api_version, "kind": resource.kind}
        found += [{**kind, **each} for each in page.items or ()]
        if not page.metadata.next:
            return found
        query = {**query, "continue": page.metadata.next}


def documents(values: Iterable[Mapping[str, Value]]) -> list[Document]:
    """Give objects the form in which every command reads those of files."""
    whole = {"apiVersion": "v1", "kind": "List", "items": [*values]}
    return list(objects(Source(_SOURCE, msgspec.json.encode(whole))))
