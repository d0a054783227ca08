"""Reads what `drawbridge audit` sums up: the pods and events of namespaces that are opted in.

Reads one namespace after the other, so that memory depends on the largest one.
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cli.input import live_cluster
from cli.input.files import read_documents
from cli.terminal.streams import Streams
from drawbridge.agreement.scope import Mode, decide_namespace_scope
from drawbridge.config.model import Scope
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.translate.legacy.pod_view import as_mapping

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

FAILED_CREATE = "FailedCreate"  # the reason of the events of owners whose pods are refused


class AuditedNamespace(NamedTuple):
    """A namespace in mode enforce or report, and its objects."""

    name: str
    mode: Mode
    labels: Mapping[str, str]
    pods: Sequence[Value]
    events: Sequence[Value]


Consumer = Callable[[AuditedNamespace], None]


def read_namespaces(
    options: argparse.Namespace,
    streams: Streams,
    scope: Scope,
    findings: list[LocatedFinding],
    consume: Consumer,
) -> None:
    """Call `consume` with each namespace that is opted in; raises ClusterReadError."""
    if options.cluster:
        documents = [*read_documents(options.cluster, streams.stdin)]
        findings += [each for each in documents if isinstance(each, LocatedFinding)]
        values = [each.value for each in documents if isinstance(each, Document)]
        for opted_in in _select(_of_kind(values, "Namespace"), options.only, scope):
            pods, events = (
                [*_in_namespace(_of_kind(values, kind), opted_in.name)] for kind in ("Pod", "Event")
            )
            consume(opted_in._replace(pods=pods, events=events))
        return

    async def read(session: "Session") -> None:
        await _read_live(session, options.only, scope, findings, consume)

    live_cluster.run_with_session(options, read)


async def _read_live(
    session: "Session",
    only: str | None,
    scope: Scope,
    findings: list[LocatedFinding],
    consume: Consumer,
) -> None:
    from drawbridge.cluster import resources  # noqa: PLC0415  # loaded on demand

    if only:
        named = await live_cluster.read_object(session, resources.NAMESPACES, only)
        namespaces = [] if named is None else [named]
    else:
        namespaces = await live_cluster.list_objects(session, resources.NAMESPACES)
    for opted_in in _select(namespaces, only, scope):
        name = opted_in.name
        pods = live_cluster.list_objects(session, resources.PODS, name)
        refusals = live_cluster.list_objects(
            session, resources.EVENTS, name, f"reason={FAILED_CREATE}"
        )
        consume(
            opted_in._replace(
                pods=await live_cluster.read_if_allowed(pods, findings) or (),
                events=await live_cluster.read_if_allowed(refusals, findings) or (),
            )
        )


def _select(
    namespaces: Iterable[Value], only: str | None, scope: Scope
) -> Iterator[AuditedNamespace]:
    for namespace in namespaces:
        metadata = as_mapping(get_value(namespace, ("metadata",)))
        name, labels = f"{metadata.get('name')}", as_mapping(metadata.get("labels"))
        texts = {key: text for key, text in labels.items() if isinstance(text, str)}
        mode = decide_namespace_scope(name, texts, scope).mode
        if mode is not Mode.OFF and only in (None, "", name):
            yield AuditedNamespace(name, mode, texts, (), ())


def _of_kind(values: Iterable[Value], kind: str) -> Iterator[Value]:
    return (each for each in values if get_value(each, ("kind",)) == kind)


def _in_namespace(values: Iterable[Value], name: str) -> Iterator[Value]:
    return (
        each for each in values if (get_value(each, ("metadata", "namespace")) or "default") == name
    )
