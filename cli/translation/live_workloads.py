"""Reads the workloads of a namespace as manifests, for `translate` and `undo` with `--context`."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from cli.input import live_cluster
from cli.input.codes import MANAGED_ELSEWHERE
from cli.translation.edited_manifests import EditResult
from cli.translation.manifest_text import join_documents, print_each
from drawbridge.audit.managed import find_manager
from drawbridge.cluster import resources
from drawbridge.documents.document import LocatedFinding, Source, name_object
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
    """Yield the workloads that no other object controls, and what a person should know of them.

    That is which kinds are forbidden, and who applies a workload again.

    Raises ClusterReadError.
    """
    problems: list[LocatedFinding] = []
    values = live_cluster.run_with_session(
        options, lambda session: _list_workloads(session, options.namespace or "", wanted, problems)
    )
    yield from problems
    yield Source(live_cluster.SOURCE, join_documents(print_each(values)))


def drop_managers_of_unchanged(result: EditResult) -> None:
    """Drop who applies an object again if the object stays as it is, so that nothing can differ."""
    changed = {each.document.name for each in result.objects if each.changed}
    result.findings = [
        each
        for each in result.findings
        if each.finding.code != MANAGED_ELSEWHERE.name or each.finding.object in changed
    ]


async def _list_workloads(
    session: "Session", namespace: str, wanted: Wanted, problems: list[LocatedFinding]
) -> list[dict[str, Value]]:
    # Those of Kubernetes exist in every cluster; the kinds of others have domains as groups.
    own = [each for each in _WORKLOADS if "." not in each.group]
    others = [each for each in _WORKLOADS if "." in each.group]
    where = namespace or session.namespace
    listed = await live_cluster.list_kinds(session, (*own, resources.PODS), others, problems, where)
    chosen = [each for each in listed if not _is_owned(each) and wanted(each)]
    problems += filter(None, map(_find_manager, chosen))
    return [_manifest(each) for each in chosen]


def _find_manager(value: dict[str, Value]) -> LocatedFinding | None:
    """Report an object that somebody else applies again; only the cluster shows who does."""
    if not (manager := find_manager(value)).text:
        return None
    message = f"{manager.text} applies this object again"
    finding = MANAGED_ELSEWHERE.at("", message, object=name_object(value, 1))
    return LocatedFinding(finding, live_cluster.SOURCE)


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
