"""Gives the objects of manifests the namespace that `kubectl apply` would give them."""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from drawbridge.cluster import resources
from drawbridge.documents.document import Document, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.workloads import find_places, group_kind

_DEFAULT: Final = "default"
_KINDS: Final = frozenset(
    each.kind
    for each in vars(resources).values()
    if isinstance(each, resources.Resource) and each.namespaced
)
_CLUSTER_SCOPED: Final = frozenset(
    {
        ("trainer.kubeflow.org", "ClusterTrainingRuntime"),
        ("argoproj.io", "ClusterWorkflowTemplate"),
    }
)


def put_in_namespace(
    documents: Iterable[Document | LocatedFinding], namespace: str
) -> Iterator[Document | LocatedFinding]:
    """Yield the documents; objects that name no namespace are in this one, the context's."""
    for document in documents:
        if namespace in ("", _DEFAULT) or isinstance(document, LocatedFinding):
            yield document
        else:
            yield _put(document, namespace)


def _put(document: Document, namespace: str) -> Document:
    value, metadata = document.value, get_value(document.value, ("metadata",))
    if not (isinstance(value, dict) and isinstance(metadata, dict)) or metadata.get("namespace"):
        return document
    if not _is_namespaced(value):
        return document
    return replace(document, value={**value, "metadata": {**metadata, "namespace": namespace}})


def _is_namespaced(value: dict[str, Value]) -> bool:
    """Whether an object whose namespace decides something is in one."""
    kind = group_kind(value)
    if kind in _CLUSTER_SCOPED:
        return False
    return kind[1] in _KINDS or kind in argo.SPECS or bool(find_places(value))
