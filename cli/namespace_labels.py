"""Finds the namespaces among manifests whose labels allow admin access."""

from collections.abc import Iterable

from documents.document import LocatedFinding, Source
from documents.paths import get_value
from documents.read import read_objects
from documents.values import Value
from dra.names import ADMIN_ACCESS_LABEL

_KIND = "Namespace"


def find_admin_access(sources: Iterable[Source | LocatedFinding]) -> dict[str, bool]:
    """Return whether each namespace that the manifests define allows admin access."""
    found: dict[str, bool] = {}
    for source in sources:
        if not isinstance(source, Source) or _KIND.encode() not in source.data:
            continue
        for document in read_objects(source):
            name = get_value(document.value, ("metadata", "name"))
            if _is_namespace(document.value) and isinstance(name, str):
                label = get_value(document.value, ("metadata", "labels", ADMIN_ACCESS_LABEL))
                found[name] = label == "true"
    return found


def _is_namespace(value: Value) -> bool:
    return isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == ("v1", _KIND)
