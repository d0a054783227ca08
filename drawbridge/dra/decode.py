"""Decode API objects of one kind, in any API version, from JSON bytes or dicts.

A valid object is decoded in one pass. An invalid object is walked a second time to find every error
with its path. Any input results in objects or findings, never in an exception.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from drawbridge.dra import codes
from drawbridge.dra.decode_errors import Schema, convert, describe_value
from drawbridge.dra.quantity import Quantity, from_json
from drawbridge.finding import Finding
from drawbridge.foreign_json import UNDECODABLE, decode_foreign

T = TypeVar("T")

# A cluster has some hundred distinct quantities, and a hostile driver any number of them.
MAX_CACHED_QUANTITIES: Final = 4096
_MAX_CACHED_LENGTH: Final = 64


# What became of the API versions that Kubernetes does not serve any more, and what to do.
_FORMER: Final = {
    "resource.k8s.io/v1alpha2": (
        ": Kubernetes 1.31 removed this form, which names a resourceClassName",
        "Write the object anew as resource.k8s.io/v1, with devices in spec.devices.requests.",
    ),
    "resource.k8s.io/v1alpha3": (
        ": Kubernetes 1.32 replaced it by v1beta1",
        "Set apiVersion to resource.k8s.io/v1beta1, where a capacity is an object with a value.",
    ),
}


class Metadata(msgspec.Struct, frozen=True):
    """The metadata fields that are decoded."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Object(msgspec.Struct, frozen=True, rename="camel"):
    """The common fields of an API object. Wire types add `spec` and other fields."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""


def decode_quantity(expected: type, value: object) -> Quantity:
    """Decode a quantity, as a hook; raises ValueError."""
    if expected is not Quantity:
        raise TypeError(f"{expected.__name__} cannot be read")
    return from_json(value)


class QuantityDecoder:
    """A decoding hook for quantities. Caches a bounded number of short ones by their string."""

    def __init__(self) -> None:
        self._parse = lru_cache(MAX_CACHED_QUANTITIES)(from_json)

    def __len__(self) -> int:
        return self._parse.cache_info().currsize

    def __call__(self, expected: type, value: Any) -> Quantity:  # noqa: ANN401  # any JSON value
        """Decode a quantity; raises ValueError if it is not valid."""
        if expected is Quantity and isinstance(value, str) and len(value) <= _MAX_CACHED_LENGTH:
            return self._parse(value)
        return decode_quantity(expected, value)


class Reader(Generic[T]):
    """Reads objects of one kind. Caches decoders and quantities.

    `shapes` maps each API version to its wire type, newest first. The newest version is the default
    for objects without apiVersion. `convert_object` converts the wire type to the domain type, if
    that is another one.
    """

    def __init__(
        self,
        kind: str,
        shapes: Mapping[str, type[Object]],
        convert_object: Callable[[Any], T] = lambda wire: wire,
    ) -> None:
        self.kind = kind
        self.shapes = shapes
        self.convert_object = convert_object
        self.newest = next(iter(shapes))
        self.hook = QuantityDecoder()
        self._decoders = {
            shape: msgspec.json.Decoder(shape, dec_hook=self.hook) for shape in shapes.values()
        }
        self._schemas: dict[type, Schema] = {}

    def read(
        self, raw: object, *, version: str = "", ordinal: int | None = None
    ) -> T | tuple[Finding, ...]:
        """Read one object from JSON bytes or a dict. `ordinal` identifies it if it has no name."""
        if isinstance(raw, bytes | bytearray | memoryview | msgspec.Raw):
            decoded = self._decode(raw, version)
            if decoded is not None:
                return self.convert_object(decoded)
            try:
                raw = decode_foreign(msgspec.json.decode, raw)[1]
            except UNDECODABLE as error:
                about = self._object_name(None, ordinal)
                return (codes.UNREADABLE_JSON.at("", f"{error}", object=about),)
        return self._convert(raw, version, ordinal)

    def _decode(self, raw: bytes | bytearray | memoryview | msgspec.Raw, version: str) -> Any:  # noqa: ANN401  # an instance of a shape
        """Decode in one pass. Return None on any error; `_convert` finds the errors."""
        shape = self.shapes.get(version or self.newest)
        if shape is None:
            return None
        try:
            decoded = decode_foreign(self._decoders[shape].decode, raw)[1]
            if decoded.api_version and decoded.api_version != version:
                own_shape = self.shapes.get(decoded.api_version)
                if own_shape is None:
                    return None
                if own_shape is not shape:
                    decoded = decode_foreign(self._decoders[own_shape].decode, raw)[1]
        except UNDECODABLE:
            return None
        return decoded if decoded.kind in ("", self.kind) else None

    def _convert(self, plain: object, version: str, ordinal: int | None) -> T | tuple[Finding, ...]:
        about = self._object_name(plain, ordinal)
        if not isinstance(plain, Mapping):
            message = f"a {self.kind} must be an object, not {describe_value(plain)}"
            return (codes.WRONG_TYPE.at("", message, object=about),)
        kind = plain.get("kind") or self.kind
        if kind != self.kind:
            message = f"kind is {describe_value(kind)}, expected {self.kind}"
            return (codes.WRONG_KIND.at("kind", message, object=about),)
        version_name = plain.get("apiVersion") or version or self.newest
        shape = self.shapes.get(version_name) if isinstance(version_name, str) else None
        if shape is None:
            message = f"apiVersion {describe_value(version_name)} is not supported for {self.kind}"
            why, remedy = _FORMER.get(f"{version_name}", ("", f"Set apiVersion to {self.newest}."))
            return (
                codes.UNSUPPORTED_VERSION.at(
                    "apiVersion", f"{message}{why}", object=about, remedy=remedy
                ),
            )
        if shape not in self._schemas:
            self._schemas[shape] = Schema(shape, self.hook)
        converted = convert(plain, self._schemas[shape], object=about)
        return converted if isinstance(converted, tuple) else self.convert_object(converted)

    def _object_name(self, plain: object, ordinal: int | None) -> str:
        metadata = plain.get("metadata") if isinstance(plain, Mapping) else None
        if isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str):
            namespace = metadata.get("namespace")
            parts = (self.kind, namespace if isinstance(namespace, str) else "", metadata["name"])
            return "/".join(filter(None, parts))
        return self.kind if ordinal is None else f"{self.kind}#{ordinal}"
