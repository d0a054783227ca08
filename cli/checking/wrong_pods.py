"""Finds the fields of pods and pod templates that the API server does not accept.

`check` and `translate` both report them, so that neither counts such a pod as one without devices.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from drawbridge.documents.document import Document
from drawbridge.documents.manifest import describe_placeholder
from drawbridge.documents.paths import format_path, get_value, parse_path
from drawbridge.documents.values import Value
from drawbridge.dra.codes import WRONG_TYPE
from drawbridge.dra.decode_errors import describe_value
from drawbridge.finding import Finding
from drawbridge.ledger.pods import Pod, pod_reader
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.workloads import (
    TEMPLATES,
    Place,
    find_places,
    follow_path,
    group_kind,
    map_finding_path,
)

_DEFAULT = "default"


def find_wrong_fields(document: Document) -> Iterator[Finding]:
    """Yield an error for each wrong field of the pods of a document."""
    yield from report_wrong_specs(document)
    for place in (*find_places(document.value), *argo.find_places(document.value)):
        read = read_pod_of(document, place.pod)
        if isinstance(read, tuple):
            yield from move_errors(read, document, place)


def move_errors(errors: Iterable[Finding], document: Document, place: Place) -> Iterator[Finding]:
    """Yield the errors about a pod as errors about the object that contains it.

    A placeholder in the object is none, such as a parameter of a workflow: it is filled in later.
    """
    for finding in errors:
        value = get_value(place.pod, parse_path(finding.path))
        if not (isinstance(value, str) and describe_placeholder(value)):
            yield move_to_object(finding, document.name, place)


def report_wrong_specs(document: Document) -> Iterator[Finding]:
    """Yield an error for each pod spec of a document that is no object, and so has no place."""
    value = document.value
    for pattern in TEMPLATES.get(group_kind(value), ()) if isinstance(value, dict) else ():
        for path, template in follow_path(value, pattern):
            spec = get_value(template, ("spec",))
            if spec is not None and not isinstance(spec, dict):
                message = f"spec must be an object, not {describe_value(spec)}"
                yield WRONG_TYPE.at(format_path((*path, "spec")), message, object=document.name)


def read_pod_of(document: Document, value: Value, default: str = "") -> Pod | tuple[Finding, ...]:
    """Read a pod of a document, before or after a translation."""
    metadata = get_value(value, ("metadata",))
    written = metadata if isinstance(metadata, dict) else {}
    name = get_value(document.value, ("metadata", "name"))
    named = {"name": name, **written, "namespace": namespace_of(document, default)}
    return pod_reader().read({"metadata": named, "spec": get_value(value, ("spec",))})


def namespace_of(document: Document, default: str = "") -> str:
    """Return the namespace of an object; if a file omits it, this one, or else `default`."""
    namespace = get_value(document.value, ("metadata", "namespace"))
    return namespace if isinstance(namespace, str) and namespace else default or _DEFAULT


def move_to_object(finding: Finding, about: str, place: Place) -> Finding:
    """Return a finding about a pod as one about the object that contains the pod."""
    return replace(finding, object=about, path=map_finding_path(finding.path, place))
