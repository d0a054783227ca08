"""Finds fields of a translation that the API server drops from a custom resource.

Follows the structural schema in the CustomResourceDefinition as the API server does when it prunes,
but only along the paths that the translation writes, whatever else the schema contains.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from drawbridge.documents.patch import Edit
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.names import POD_ANNOTATIONS
from drawbridge.translate.manifests import argo
from drawbridge.translate.manifests.codes import CLAIMS_DROPPED, ORIGINAL_MISSING
from drawbridge.translate.manifests.workloads import SPECS, SPECS_BELOW, TEMPLATES, group_kind

DEFINITION: Final = "CustomResourceDefinition"
# Earlier versions of the API are in no supported version of Kubernetes.
_API: Final = "apiextensions.k8s.io/v1"
_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_NO_WAY_BACK: Final = "Pass --no-original, and keep the original manifest for the way back."


class _At(NamedTuple):
    """A position in a schema: what it says there, None if nothing, and of unknown fields."""

    schema: Mapping[str, Value] | None
    keeps_unknown: bool


def is_custom(kind: tuple[str, str]) -> bool:
    """Whether a group and kind are not Kubernetes' own: those of workloads have no domain."""
    return "." in kind[0]


# The kinds with pod templates that can have a CustomResourceDefinition.
CUSTOM_KINDS: Final = tuple(filter(is_custom, (*TEMPLATES, *SPECS, *SPECS_BELOW, *argo.SPECS)))


def name_definition(kind: tuple[str, str]) -> str:
    """Return the name of the CustomResourceDefinition of one of these kinds."""
    return f"{kind[1].lower()}s.{kind[0]}"


def find_definitions(values: Iterable[Value]) -> dict[tuple[str, str], Value]:
    """Return the CustomResourceDefinitions among objects, by the group and kind they define."""
    definitions: dict[tuple[str, str], Value] = {}
    for value in values:
        if get_value(value, ("apiVersion",)) == _API and get_value(value, ("kind",)) == DEFINITION:
            paths = (("spec", "group"), ("spec", "names", "kind"))
            group, kind = (f"{get_value(value, path)}" for path in paths)
            definitions[group, kind] = value
    return definitions


def find_schemas(
    value: Value, definitions: Mapping[tuple[str, str], Value]
) -> Mapping[str, Value] | None:
    """Return the schemas that an object passes, by version; None if they are not known.

    The API server prunes by the version of the object and by the one that it stores. Between the
    two, a webhook can convert an object to any other.
    """
    fields = as_mapping(value)
    definition = as_mapping(definitions.get(group_kind(fields)))
    spec = as_mapping(definition.get("spec"))
    if spec.get("preserveUnknownFields") is True:
        return {}
    listed = [as_mapping(each) for each in as_list(spec.get("versions"))]
    schemas = {
        f"{each.get('name')}": get_value(dict(each), ("schema", "openAPIV3Schema"))
        for each in listed
    }
    own = f"{fields.get('apiVersion')}".rpartition("/")[2]
    stored = next((f"{each.get('name')}" for each in listed if each.get("storage") is True), own)
    if as_mapping(spec.get("conversion")).get("strategy") == "Webhook":
        stored = own
    passed = {version: schemas.get(version) for version in (own, stored)}
    return passed if all(isinstance(each, dict) for each in passed.values()) else None


def report_dropped(
    value: Value, edits: Iterable[Edit], definitions: Mapping[tuple[str, str], Value]
) -> Iterator[Finding]:
    """Report the fields that edits write and that the API server drops.

    A pod that only loses the annotations of the translation has its devices.
    """
    schemas = find_schemas(value, definitions) or {}
    paths = [path for each in edits if each.op != "remove" for path in _leaves(each)]
    fields = [path for path in paths if path[-1] not in POD_ANNOTATIONS]
    for written in (fields, paths):
        for version, schema in schemas.items():
            if dropped := [at for path in written if (at := _find_dropped(path, schema))]:
                definition = definitions[group_kind(as_mapping(value))]
                names = ", ".join(dict.fromkeys(f"{at[-1]}" for at in dropped))
                by = f"{DEFINITION} {get_value(definition, ('metadata', 'name'))}"
                message = f"the API server drops {names}, which {by} lacks in {version}"
                if written is fields:
                    yield CLAIMS_DROPPED.at(format_path(dropped[0]), message)
                else:
                    yield ORIGINAL_MISSING.at(format_path(dropped[0]), message, remedy=_NO_WAY_BACK)
                return


def _leaves(edit: Edit) -> Iterator[Path]:
    """Yield the paths of the scalars that an edit writes."""
    left: list[tuple[Path, Value]] = [(edit.path, edit.value)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += (((*path, key), each) for key, each in reversed(value.items()))
        elif isinstance(value, list):
            left += reversed([((*path, number), each) for number, each in enumerate(value)])
        else:
            yield path


def _find_dropped(path: Path, schema: Value) -> Path:
    """Return the path of the first field on a path that is dropped; empty if none is."""
    at = _position({**as_mapping(schema), _EMBEDDED: True})
    for depth, token in enumerate(path, 1):
        below = _descend(at, token)
        if below is None:
            return path[:depth]
        at = below
    return ()


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
