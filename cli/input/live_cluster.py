"""Reads objects of a live cluster, for commands that accept `--context`.

Uses the kubeconfig of the user and sends GET requests only. Raises ClusterReadError with the
finding to print if a request fails. Functions import `cluster` when they run, because that import
takes half of the time of a short command.
"""

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec

from cli.input import codes
from cli.input.refused_lists import RefusedLists
from cli.terminal.command_error import CommandError
from drawbridge.api_error import ApiError
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.read import read_objects
from drawbridge.documents.values import Value
from drawbridge.finding import Finding

if TYPE_CHECKING:
    from drawbridge.cluster.client import ResourceClient
    from drawbridge.cluster.resources import Resource
    from drawbridge.cluster.session import Session

T = TypeVar("T")
SOURCE: Final = "<cluster>"
PAGE_SIZE: Final = 500
_LIST_ATTEMPTS: Final = 4
_FORBIDDEN: Final = 403
_NAMESPACE: Final = "Namespace"


class ClusterReadError(CommandError):
    """Reading the cluster failed; `finding` has the reason."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message, LocatedFinding(finding))
        self.finding = finding

    @property
    def located(self) -> LocatedFinding:
        """The finding in the form that commands print, without a file."""
        return LocatedFinding(self.finding)


def run_with_session(
    chosen: argparse.Namespace, read: Callable[["Session"], Awaitable[T]], *, lasts: bool = False
) -> T:
    """Open a session for the options and run `read` with it; raises ClusterReadError.

    What `lasts` logs an outage as a process does.
    """
    import asyncio  # noqa: PLC0415  # takes longer than a short command
    import logging  # noqa: PLC0415  # same

    logger, silent = logging.getLogger("drawbridge.cluster"), logging.NullHandler()
    if not lasts:
        # The error is printed. Without a handler, Python would print the line of the log as well.
        logger.addHandler(silent)
    try:
        return asyncio.run(_run_with_session(chosen, read))
    finally:
        logger.removeHandler(silent)


async def _run_with_session(
    chosen: argparse.Namespace, read: Callable[["Session"], Awaitable[T]]
) -> T:
    from drawbridge.cluster.errors import AccessError  # noqa: PLC0415  # loaded on demand
    from drawbridge.cluster.session import Session  # noqa: PLC0415  # loaded on demand

    try:
        async with await Session.open(chosen.kubeconfig, chosen.context or None) as session:
            return await read(session)
    except AccessError as error:
        raise ClusterReadError(codes.CLUSTER_UNREADABLE.at("", f"{error}")) from None
    except ApiError as error:
        remedy = codes.ASK_FOR_RIGHT if error.code == _FORBIDDEN else None
        unreadable = codes.CLUSTER_UNREADABLE.at("", error.describe(), remedy=remedy)
        raise ClusterReadError(unreadable) from None


async def read_object(
    session: "Session", resource: "Resource", name: str, namespace: str = ""
) -> dict[str, Value] | None:
    """Read one object; None if it does not exist."""
    return await _open_client(session, resource).read(name, namespace)


async def list_objects(
    session: "Session",
    resource: "Resource",
    namespace: str = "",
    fields: str = "",
    labels: str = "",
) -> list[dict[str, Value]]:
    """List all objects of a kind in pages; each has `apiVersion` and `kind`, as in a file."""
    client = _open_client(session, resource)
    return await list_all(partial(client.iterate, namespace, fields=fields, labels=labels))


async def list_all(iterate: Callable[..., AsyncIterator[T]]) -> list[T]:
    """Return all objects in large pages; begin anew if a page expires."""
    for left in reversed(range(_LIST_ATTEMPTS)):
        try:
            return [each async for each in iterate(page_size=PAGE_SIZE)]
        except ApiError as error:
            if not (error.gone and left):
                raise
    return []


def _open_client(session: "Session", resource: "Resource") -> "ResourceClient[dict[str, Value]]":
    from drawbridge.cluster.client import ResourceClient, decode_object  # noqa: PLC0415  # loaded on demand

    return ResourceClient(session, resource, decode_object)


async def list_kinds(
    session: "Session",
    needed: Iterable["Resource"],
    optional: Iterable["Resource"],
    findings: list[LocatedFinding],
    namespace: str = "",
) -> list[dict[str, Value]]:
    """List all objects of these kinds; add a finding for an optional one that is forbidden.

    Raises ClusterReadError that names all of the others that are.
    """
    values: list[dict[str, Value]] = []
    refused = RefusedLists()
    for kind in needed:
        values += await refused.read(kind, list_objects(session, kind, namespace)) or ()
    if refused:
        own = codes.ASK_FOR_VIEW.format(namespace=namespace)
        raise ClusterReadError(refused.report(remedy=own if namespace else codes.ASK_FOR_READER))
    for kind in optional:
        listing = list_if_served(session, kind, namespace)
        values += await read_if_allowed(listing, findings) or ()
    return values


class Listed(NamedTuple):
    """The objects of a kind that the user may read, and whether these are all."""

    values: tuple[dict[str, Value], ...]
    is_whole: bool = True


async def list_readable(
    session: "Session",
    resource: "Resource",
    findings: list[LocatedFinding],
    *,
    namespace: str,
    fields: str = "",
) -> Listed:
    """List the objects in all namespaces, or else in this one, and say so."""
    try:
        return Listed((*await list_if_served(session, resource, fields=fields),))
    except ApiError as error:
        if not error.forbidden:
            raise
        refused = error.describe()
    reading = _read_namespace(session, resource, namespace, fields)
    values = await read_if_allowed(reading, [])
    instead = "" if values is None else f"; only namespace {namespace} is read"
    findings.append(LocatedFinding(codes.PART_UNREADABLE.at("", f"{refused}{instead}")))
    return Listed(tuple(values or ()), is_whole=False)


async def _read_namespace(
    session: "Session", resource: "Resource", namespace: str, fields: str
) -> list[dict[str, Value]] | None:
    """Read the objects of a kind in a namespace, or itself; None if it has none of that kind."""
    if resource.namespaced:
        return await list_objects(session, resource, namespace, fields)
    if resource.kind != _NAMESPACE:
        return None
    value = await read_object(session, resource, namespace)
    return [] if value is None else [value]


async def list_if_served(
    session: "Session", resource: "Resource", namespace: str = "", fields: str = ""
) -> list[dict[str, Value]]:
    """List all objects of a kind; none if the API server does not have the kind.

    The API server looks at rights first, and forbids a kind that it does not have.
    """
    try:
        return await list_objects(session, resource, namespace, fields)
    except ApiError as error:
        if error.not_found or (error.forbidden and not await _is_served(session, resource)):
            return []
        raise


async def _is_served(session: "Session", resource: "Resource") -> bool:
    from drawbridge.cluster.discovery import find_served  # noqa: PLC0415  # loaded on demand

    return await find_served(session, resource, (resource.version,)) is not None


async def list_taint_rules(
    session: "Session", findings: list[LocatedFinding]
) -> list[dict[str, Value]] | None:
    """List the DeviceTaintRules that the user may read; None if the API server serves none."""
    from drawbridge.cluster.discovery import find_taint_rules  # noqa: PLC0415  # loaded on demand

    served = await find_taint_rules(session)
    return None if served is None else await list_kinds(session, (), (served,), findings)


async def read_if_allowed(reading: Awaitable[T], findings: list[LocatedFinding]) -> T | None:
    """Read an optional part; add a finding if access is forbidden, once."""
    try:
        return await reading
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        unread = LocatedFinding(codes.PART_UNREADABLE.at("", error.describe()))
        findings += [] if unread in findings else [unread]
        return None


def as_documents(values: Iterable[Mapping[str, Value]]) -> list[Document]:
    """Convert objects to the documents that commands read from files."""
    document = {"apiVersion": "v1", "kind": "List", "items": [*values]}
    return list(read_objects(Source(SOURCE, msgspec.json.encode(document))))
