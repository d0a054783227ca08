"""Reads CustomResourceDefinitions, each once: which schemas the objects of a kind pass."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value, as_list, as_mapping

DEFINITION: Final = "CustomResourceDefinition"
# Earlier versions of the API are in no supported version of Kubernetes.
_API: Final = "apiextensions.k8s.io/v1"


class Definition(NamedTuple):
    """What a CustomResourceDefinition says of the fields of its objects."""

    name: str  # with its file, if it is from one
    schemas: Mapping[str, Value]  # by version
    stored: str  # the version; empty if it is not known what the conversion to it does
    prunes: bool

    def find_schemas(self, version: str) -> Mapping[str, Value] | None:
        """Return the schemas that an object of a version passes; None if one is not known.

        The API server prunes by the version of the object and by the one that it stores. Between
        the two, a webhook can convert an object to any other.
        """
        if not self.prunes:
            return {}
        passed = {each: self.schemas.get(each) for each in (version, self.stored or version)}
        return passed if all(isinstance(each, dict) for each in passed.values()) else None


# By the group and kind that they define.
Definitions: TypeAlias = Mapping[tuple[str, str], tuple[Definition, ...]]


def find_definitions(objects: Iterable[tuple[str, Value]]) -> Definitions:
    """Return the CustomResourceDefinitions among objects, which come with the names of their files.

    Two of a kind are not ordered: which one the cluster will have is not known.
    """
    definitions: dict[tuple[str, str], tuple[Definition, ...]] = {}
    for file, value in objects:
        if get_value(value, ("apiVersion",)) == _API and get_value(value, ("kind",)) == DEFINITION:
            paths = (("spec", "group"), ("spec", "names", "kind"))
            group, kind = (f"{get_value(value, path)}" for path in paths)
            definition = _read_definition(file, as_mapping(value))
            definitions[group, kind] = (*definitions.get((group, kind), ()), definition)
    return definitions


def _read_definition(file: str, fields: Mapping[str, Value]) -> Definition:
    spec = as_mapping(fields.get("spec"))
    name = f"{as_mapping(fields.get('metadata')).get('name')}"
    listed = [as_mapping(each) for each in as_list(spec.get("versions"))]
    by_webhook = as_mapping(spec.get("conversion")).get("strategy") == "Webhook"
    stored = (f"{each.get('name')}" for each in listed if each.get("storage") is True)
    return Definition(
        f"{name} ({file})" if file else name,
        {
            f"{each.get('name')}": as_mapping(each.get("schema")).get("openAPIV3Schema")
            for each in listed
        },
        "" if by_webhook else next(stored, ""),
        prunes=spec.get("preserveUnknownFields") is not True,
    )
