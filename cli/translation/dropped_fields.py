"""Reports fields of translated claims that a version of Kubernetes drops, if only that is known.

With facts, the translation itself decides without these fields.
"""

from collections.abc import Iterator
from typing import Final

from cli.translation.edited_manifests import EditResult
from drawbridge.agreement.admission_codes import CLAIM_FIELD_DROPPED
from drawbridge.documents.document import LayoutCache, LocatedFinding
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.gates import Gates

_DEVICES: Final = ("spec", "spec", "devices")
_NAME: Final = ("metadata", "name")
_EXACTLY: Final = "exactly"
_ALTERNATIVES: Final = "firstAvailable"


def report_dropped_fields(result: EditResult, gates: Gates) -> Iterator[LocatedFinding]:
    """Yield an error for each translated object whose claims need a field that is dropped."""
    # This import loads the CEL engine, which takes longer than a translation.
    from drawbridge.facts.gather import describe_cluster, versioned_fields  # noqa: PLC0415

    dropped = versioned_fields() - {*describe_cluster(gates).keeps}
    layouts = LayoutCache()
    for edited in result.objects:
        for template in edited.result.templates if edited.changed else ():
            name = get_value(dict(template), _NAME)
            used = {*_used_fields(get_value(dict(template), _DEVICES))}
            for field in sorted(used & dropped):
                message = f"Kubernetes {gates.version} drops {field} from claim template {name}"
                finding = CLAIM_FIELD_DROPPED.at("", message, object=edited.document.name)
                yield edited.document.locate_finding(finding, layouts)


def _used_fields(devices: Value) -> Iterator[str]:
    for request in map(as_mapping, as_list(as_mapping(devices).get("requests"))):
        yield from (each for each in request if each == _ALTERNATIVES)
        choices = [request.get(_EXACTLY), *as_list(request.get(_ALTERNATIVES))]
        yield from (f"{_EXACTLY}.{each}" for choice in choices for each in as_mapping(choice))
    for constraint in map(as_mapping, as_list(as_mapping(devices).get("constraints"))):
        yield from (f"constraints.{each}" for each in constraint)
