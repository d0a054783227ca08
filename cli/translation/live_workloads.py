"""Reads the workloads of a namespace as manifests, for `translate` and `undo` with `--context`."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from cli.input import live_cluster
from cli.translation.manifest_text import join_documents, print_each
from drawbridge.cluster import resources
from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.report.workloads import KINDS

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_WORKLOADS: Final = tuple(
    resources.Resource(each.group, each.version, each.plural, each.kind) for each in KINDS
)
# Fields that the API server sets; a manifest does not have them.
_SET_BY_SERVER: Final = ("creationTimestamp", "generation", "managedFields", "resourceVersion")

Wanted = Callable[[dict[str, Value]], bool]


def read_live_workloads(
    options: argparse.Namespace, wanted: Wanted
) -> Iterator[Source | LocatedFinding]:
    """Yield the workloads that no other object controls, and the kinds that are forbidden.

    Raises ClusterReadError.
    """
    unread: list[LocatedFinding] = []
    values = live_cluster.run_with_session(
        options, lambda session: _list_workloads(session, options.namespace or "", wanted, unread)
    )
    yield from unread
    yield Source(live_cluster.SOURCE, join_documents(print_each(values)))


async def _list_workloads(
    session: "Session", namespace: str, wanted: Wanted, unread: list[LocatedFinding]
) -> list[dict[str, Value]]:
    # Those of Kubernetes exist in every cluster; the kinds of others have domains as groups.
    own = [each for each in _WORKLOADS if "." not in each.group]
    others = [each for each in _WORKLOADS if "." in each.group]
    where = namespace or session.namespace
    listed = await live_cluster.list_kinds(session, (*own, resources.PODS), others, unread, where)
    return [_manifest(each) for each in listed if not _is_owned(each) and wanted(each)]


def _is_owned(value: Mapping[str, Value]) -> bool:
    return bool(get_value(dict(value), ("metadata", "ownerReferences")))


def _manifest(value: Mapping[str, Value]) -> dict[str, Value]:
    """Return an object as a manifest, without what the API server sets."""
    metadata = get_value(dict(value), ("metadata",))
    kept = {
        key: entry
        for key, entry in (metadata if isinstance(metadata, dict) else {}).items()
        if key not in _SET_BY_SERVER and key != "uid"
    }
    return {**{key: each for key, each in value.items() if key != "status"}, "metadata": kept}
