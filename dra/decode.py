"""Objects of one kind from bytes or plain dicts, single or in lists, of every served version.

A good object is decoded in one pass. Only a bad one is walked a second time, for every error with
its path. Any input gives objects or findings, never an exception. Knows the envelope of an object,
kind and version and name, and nothing of what is in it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from dra import codes
from dra.decode_errors import Hook, Schema, convert, describe_value
from dra.finding import Finding
from dra.quantity import Quantity, from_json

T = TypeVar("T")

# What msgspec raises for bytes that are not JSON, not UTF-8, nested too deeply, or of other types.
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError)

# A list of nothing but errors must cost neither more memory than it has itself, nor minutes.
MOST_FINDINGS = 5000


class Metadata(msgspec.Struct, frozen=True):
    """What is kept of an object's metadata."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Object(msgspec.Struct, frozen=True, rename="camel"):
    """The envelope; a wire form adds `spec` and whatever else is read."""

    metadata: Metadata
    api_version: str = ""
    kind: str = ""


class ReadResult(NamedTuple, Generic[T]):
    """What a list of objects gave; both may be there at once."""

    objects: tuple[T, ...]
    findings: tuple[Finding, ...]


class _List(msgspec.Struct, rename="camel"):
    items: list[msgspec.Raw] | None = None
    api_version: str = ""
    kind: str = ""


class _Kind(msgspec.Struct):
    kind: str = ""


def quantity_hook(seen: dict[str, Quantity]) -> Hook:
    """Give a hook that decodes quantities, each text once for as long as `seen` lives."""

    def hook(wanted: type, value: Any) -> Quantity:  # noqa: ANN401  # what msgspec hands over
        if wanted is not Quantity:
            raise TypeError(f"{wanted.__name__} cannot be read")
        if not isinstance(value, str):
            return from_json(value)
        quantity = seen.get(value)
        if quantity is None:
            quantity = seen[value] = from_json(value)
        return quantity

    return hook


class Reader(Generic[T]):
    """Reads objects of one kind; keeps compiled decoders and the quantities it has seen.

    `shapes` gives the wire form of each API version, the newest first, which is also taken where
    an object names none; `convert_object` makes the domain's form of a decoded object.
    """

    def __init__(
        self, kind: str, shapes: Mapping[str, type[Object]], convert_object: Callable[[Any], T]
    ) -> None:
        self.kind = kind
        self.shapes = shapes
        self.convert_object = convert_object
        self.newest = next(iter(shapes))
        self.hook = quantity_hook({})
        self._decoders = {
            shape: msgspec.json.Decoder(shape, dec_hook=self.hook) for shape in shapes.values()
        }
        self._schemas: dict[type, Schema] = {}

    def read(
        self, raw: object, *, version: str = "", ordinal: int | None = None
    ) -> T | tuple[Finding, ...]:
        """Read one object from JSON bytes or a plain dict; `ordinal` names it if it has no name."""
        if isinstance(raw, bytes | bytearray | memoryview | msgspec.Raw):
            decoded = self._decode(raw, version)
            if decoded is not None:
                return self.convert_object(decoded)
            try:
                raw = msgspec.json.decode(raw)
            except _UNDECODABLE as error:
                about = self._named(None, ordinal)
                return (codes.UNREADABLE_JSON.at("", f"{error}", object=about),)
        return self._convert(raw, version, ordinal)

    def read_many(self, raw: object) -> ReadResult[T]:
        """Read one object or a list of them, item by item, so that a bad one hides no other."""
        listed = _listed(raw)
        if listed is None:
            return _gathered([self.read(raw)])
        if listed.kind == "List":
            # A plain List may hold anything; what is of another kind is not for this reader.
            numbered = (
                (i, item)
                for i, item in enumerate(listed.items or (), 1)
                if _kind(item) in ("", self.kind)
            )
            return _gathered(self.read(item, ordinal=i) for i, item in numbered)
        if listed.kind not in ("", f"{self.kind}List"):
            message = f"kind is {listed.kind}, expected {self.kind}List"
            return ReadResult((), (codes.WRONG_KIND.at("kind", message),))
        return _gathered(
            self.read(item, version=listed.api_version, ordinal=i)
            for i, item in enumerate(listed.items or (), 1)
        )

    def _decode(self, raw: bytes | bytearray | memoryview | msgspec.Raw, version: str) -> Any:  # noqa: ANN401  # an instance of a shape
        """Decode in one pass, or give None: the errors are looked for elsewhere."""
        shape = self.shapes.get(version or self.newest)
        if shape is None:
            return None
        try:
            decoded = self._decoders[shape].decode(raw)
            if decoded.api_version and decoded.api_version != version:
                wanted = self.shapes.get(decoded.api_version)
                if wanted is None:
                    return None
                if wanted is not shape:
                    decoded = self._decoders[wanted].decode(raw)
        except _UNDECODABLE:
            return None
        return decoded if decoded.kind in ("", self.kind) else None

    def _convert(self, plain: object, version: str, ordinal: int | None) -> T | tuple[Finding, ...]:
        about = self._named(plain, ordinal)
        if not isinstance(plain, Mapping):
            message = f"a {self.kind} must be an object, not {describe_value(plain)}"
            return (codes.WRONG_TYPE.at("", message, object=about),)
        kind = plain.get("kind") or self.kind
        if kind != self.kind:
            message = f"kind is {describe_value(kind)}, expected {self.kind}"
            return (codes.WRONG_KIND.at("kind", message, object=about),)
        named = plain.get("apiVersion") or version or self.newest
        shape = self.shapes.get(named) if isinstance(named, str) else None
        if shape is None:
            message = f"{describe_value(named)} is not supported for {self.kind}"
            remedy = f"Convert the object to {self.newest}."
            return (
                codes.UNSUPPORTED_VERSION.at("apiVersion", message, object=about, remedy=remedy),
            )
        if shape not in self._schemas:
            self._schemas[shape] = Schema(shape, self.hook)
        converted = convert(plain, self._schemas[shape], object=about)
        return converted if isinstance(converted, tuple) else self.convert_object(converted)

    def _named(self, plain: object, ordinal: int | None) -> str:
        metadata = plain.get("metadata") if isinstance(plain, Mapping) else None
        if isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str):
            namespace = metadata.get("namespace")
            parts = (self.kind, namespace if isinstance(namespace, str) else "", metadata["name"])
            return "/".join(filter(None, parts))
        return self.kind if ordinal is None else f"{self.kind}#{ordinal}"


def _listed(raw: object) -> _List | None:
    """Give the items of a list, undecoded; None for anything else."""
    try:
        if isinstance(raw, bytes | bytearray | memoryview):
            listed = msgspec.json.decode(raw, type=_List)
        elif isinstance(raw, Mapping) and isinstance(raw.get("items"), list | None):
            header = {key: raw[key] for key in ("kind", "apiVersion") if key in raw}
            listed = msgspec.convert(header, _List)
            listed.items = raw.get("items")
        else:
            return None
    except _UNDECODABLE:
        return None
    return listed if listed.items is not None or listed.kind.endswith("List") else None


def _kind(item: object) -> str:
    """Give the kind an item names, or nothing where that cannot be told."""
    if isinstance(item, Mapping):
        kind = item.get("kind")
        return kind if isinstance(kind, str) else ""
    try:
        return msgspec.json.decode(item, type=_Kind).kind if isinstance(item, msgspec.Raw) else ""
    except _UNDECODABLE:
        return ""


def _gathered(results: Iterable[T | tuple[Finding, ...]]) -> ReadResult[T]:
    objects: list[T] = []
    findings: list[Finding] = []
    for result in results:
        if not isinstance(result, tuple):
            objects.append(result)
            continue
        findings += result
        if len(findings) >= MOST_FINDINGS:
            message = f"there are more than {MOST_FINDINGS} errors; the remaining items are not read"
            findings.append(codes.MORE_ERRORS.at("items", message))
            break
    return ReadResult(tuple(objects), tuple(findings))
