"""Finds fields of claims that the API server drops from a custom resource, or refuses in it.

Follows the structural schema in the CustomResourceDefinition as the API server does when it prunes,
but only along the paths that a translation writes and those of claims, whatever else it contains.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from drawbridge.documents.patch import Edit, apply_edits
from drawbridge.documents.paths import Path, format_path, get_value, resolve_path
from drawbridge.documents.values import Value, as_mapping
from drawbridge.finding import Finding, Severity
from drawbridge.names import POD_ANNOTATIONS
from drawbridge.translate.changes.codes import CLAIM_NAMED_TWICE
from drawbridge.translate.definitions import DEFINITION, Definition, Definitions
from drawbridge.translate.legacy.pod_view import list_containers
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.codes import CLAIMS_DROPPED, ORIGINAL_MISSING
from drawbridge.translate.manifests.workloads import (
    SPECS,
    SPECS_BELOW,
    TEMPLATES,
    find_places,
    group_kind,
    map_path,
)

# An API server of OpenShift serves these, and no CustomResourceDefinition describes them.
_AGGREGATED: Final = ("apps.openshift.io", "DeploymentConfig")
_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_MAP_KEYS: Final = "x-kubernetes-list-map-keys"
_OPERATOR: Final = "Install a version of the operator that is built with Kubernetes 1.31 or newer"
_UNDO: Final = f"{_OPERATOR}, or apply what `drawbridge undo` prints of a translated object."
_IN_ONE: Final = (
    "Let the webhook translate the pods when they are created, or request these devices in one"
    " container."
)
_KEEP: Final = "keep the original manifest for the way back."


class _At(NamedTuple):
    """A position in a schema: what it says there, None if nothing, and of unknown fields."""

    schema: Mapping[str, Value] | None
    keeps_unknown: bool


def is_custom(kind: tuple[str, str]) -> bool:
    """Whether a group and kind can have a CustomResourceDefinition.

    The groups of Kubernetes' own workloads have no domain.
    """
    return "." in kind[0] and kind != _AGGREGATED


# The kinds with pod templates that can have a CustomResourceDefinition.
CUSTOM_KINDS: Final = tuple(filter(is_custom, (*TEMPLATES, *SPECS, *SPECS_BELOW, *argo.SPECS)))


def name_definition(kind: tuple[str, str]) -> str:
    """Return the name of the CustomResourceDefinition of one of these kinds."""
    return f"{kind[1].lower()}s.{kind[0]}"


def is_checked(value: Value, definitions: Definitions) -> bool:
    """Whether the schemas that an object passes are known."""
    return any(schemas is not None for _, schemas in _find_schemas(value, definitions))


def _find_schemas(
    value: Value, definitions: Definitions
) -> Iterator[tuple[Definition, Mapping[str, Value] | None]]:
    fields = as_mapping(value)
    version = f"{fields.get('apiVersion')}".rpartition("/")[2]
    for each in definitions.get(group_kind(fields), ()):
        yield each, each.find_schemas(version)


def report_dropped(
    value: Value, edits: Iterable[Edit], definitions: Definitions
) -> Iterator[Finding]:
    """Report the fields that the API server drops of an object after edits.

    These are the fields that the edits write, and the claims that the object has already. A pod
    that only loses the annotations of the translation has its devices.
    """
    passed = [(each, schemas) for each, schemas in _find_schemas(value, definitions) if schemas]
    if not passed:
        return
    edits = list(edits)
    written = [(each.path, each.value) for each in edits if each.op != "remove"]
    written += _find_claims(apply_edits(value, edits))
    paths = [path for at, content in written for path in _leaves(at, content)]
    fields = [path for path in paths if path[-1] not in POD_ANNOTATIONS]
    for followed in (fields, paths):
        for definition, schemas in passed:
            for version, schema in schemas.items():
                dropped = [at for path in followed if (at := _find_dropped(path, schema))]
                if not dropped:
                    continue
                names = ", ".join(dict.fromkeys(f"{at[-1]}" for at in dropped))
                by = f"{DEFINITION} {definition.name}"
                message = f"the API server drops {names}, which {by} lacks in {version}"
                path = format_path(dropped[0])
                if followed is fields:
                    yield CLAIMS_DROPPED.at(path, message, remedy=None if edits else _UNDO)
                else:
                    remedy = f"Pass --no-original, and {_KEEP}" if edits else _KEEP.capitalize()
                    yield ORIGINAL_MISSING.at(path, message, remedy=remedy)
                return


def raise_refused(
    value: Value, findings: Iterable[Finding], definitions: Definitions
) -> Iterator[Finding]:
    """Make errors of the claims that containers name twice where the API server refuses these."""
    for finding in findings:
        if finding.code == CLAIM_NAMED_TWICE.name:
            path = (*resolve_path(value, finding.path), "resources", "claims")
            refusing = (
                definition.name
                for definition, schemas in _find_schemas(value, definitions)
                if any(_has_unique_names(path, each) for each in (schemas or {}).values())
            )
            if name := next(refusing, ""):
                message = f"{finding.message}; {DEFINITION} {name} allows one"
                yield replace(finding, severity=Severity.ERROR, message=message, remedy=_IN_ONE)
                continue
        yield finding


def _find_claims(value: Value) -> Iterator[tuple[Path, Value]]:
    """Yield what the pods of an object have of claims, and the annotations of a translation."""
    for place in (*find_places(value), *argo.find_translated_places(value)):
        containers = list_containers(as_mapping(get_value(place.pod, ("spec",))))
        paths: list[Path] = [("spec", "resourceClaims"), ("spec", argo.PATCH)]
        paths += [(*path, "resources", "claims") for path, _, _ in containers]
        paths += [("metadata", "annotations", name) for name in POD_ANNOTATIONS]
        for path in paths:
            at = map_path(path, place)
            content = get_value(value, at)
            if content is not None:
                yield at, content


def _leaves(at: Path, content: Value) -> Iterator[Path]:
    """Yield the paths of the scalars in a value at a path."""
    left: list[tuple[Path, Value]] = [(at, content)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += (((*path, key), each) for key, each in reversed(value.items()))
        elif isinstance(value, list):
            left += reversed([((*path, number), each) for number, each in enumerate(value)])
        else:
            yield path


def _has_unique_names(path: Path, schema: Value) -> bool:
    """Whether the items of a list in an object differ by their names."""
    at: _At | None = _start(schema)
    for token in path:
        at = at and _descend(at, token)
    return at is not None and (at.schema or {}).get(_MAP_KEYS) == ["name"]


def _find_dropped(path: Path, schema: Value) -> Path:
    """Return the path of the first field on a path that is dropped; empty if none is."""
    at = _start(schema)
    for depth, token in enumerate(path, 1):
        below = _descend(at, token)
        if below is None:
            return path[:depth]
        at = below
    return ()


def _start(schema: Value) -> _At:
    """Return the position of an object, which has the fields of every object."""
    return _position({**as_mapping(schema), _EMBEDDED: True})


def _descend(at: _At, token: str | int) -> _At | None:
    """Return the position of a field or an item; None if the field is dropped."""
    schema = at.schema
    if schema is None:
        return at if at.keeps_unknown or isinstance(token, int) else None
    if isinstance(token, int):
        return _position(schema.get("items"), keeps_unknown=at.keeps_unknown)
    if token in _OF_EVERY_OBJECT and schema.get(_EMBEDDED) is True:
        return _At(None, keeps_unknown=True)
    properties = as_mapping(schema.get("properties"))
    if token in properties:
        return _position(properties[token])
    if "additionalProperties" in schema:
        return _position(schema["additionalProperties"])
    return _At(None, keeps_unknown=True) if at.keeps_unknown else None


def _position(schema: Value, *, keeps_unknown: bool = False) -> _At:
    if not isinstance(schema, dict):
        return _At(None, keeps_unknown)
    return _At(schema, keeps_unknown or schema.get(_PRESERVES) is True)
