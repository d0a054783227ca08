"""Edits the metadata of an object in the protobuf encoding of the Kubernetes API.

A claim keeps its opaque parameters as the bytes that a client sent. In JSON the API server returns
them compact, so that no JSON client can change such a claim: the server reports a changed spec. In
protobuf the parameters stay as they are. The functions here change only the finalizers and the
annotations and keep every other byte, whatever the kind of the object.

The field numbers are those of `runtime.Unknown` and `metav1.ObjectMeta`, which are stable.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_OBJECT: Final = 2  # of runtime.Unknown
_METADATA: Final = 1  # of every object
_RESOURCE_VERSION: Final = 6
_ANNOTATIONS: Final = 12
_FINALIZERS: Final = 14
_MAX_VARINT_BYTES: Final = 10


class MetadataEdit(msgspec.Struct, frozen=True):
    """Finalizers and annotations to add or, with None or in `removed_finalizers`, to remove."""

    added_finalizers: tuple[str, ...] = ()
    removed_finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str | None] = {}

    def finalizers(self, current: tuple[str, ...]) -> tuple[str, ...]:
        """Return the finalizers after the edit."""
        kept = tuple(each for each in current if each not in self.removed_finalizers)
        return kept + tuple(each for each in self.added_finalizers if each not in kept)


class _Field(NamedTuple):
    """One field of a message; `value` is None unless the field is length-delimited."""

    number: int
    value: bytes | None
    encoded: bytes


def resource_version(message: bytes) -> str:
    """Return the resourceVersion of an encoded object; raises ValueError for other bytes."""
    metadata = _value_of(_value_of(_without_magic(message), _OBJECT), _METADATA)
    return _value_of(metadata, _RESOURCE_VERSION).decode()


def edit_metadata(message: bytes, edit: MetadataEdit) -> bytes:
    """Return an encoded object with other metadata; raises ValueError for other bytes."""
    envelope = _replace(_without_magic(message), _OBJECT, lambda each: _edit_object(each, edit))
    return _MAGIC + envelope


def _edit_object(encoded: bytes, edit: MetadataEdit) -> bytes:
    return _replace(encoded, _METADATA, lambda each: _edit_object_meta(each, edit))


def _edit_object_meta(encoded: bytes, edit: MetadataEdit) -> bytes:
    current: list[str] = []
    kept = bytearray()
    for field in _fields(encoded):
        if field.number == _FINALIZERS and field.value is not None:
            current.append(field.value.decode())
        elif field.number != _ANNOTATIONS or _annotation_key(field) not in edit.annotations:
            kept += field.encoded
    for finalizer in edit.finalizers(tuple(current)):
        kept += _encode(_FINALIZERS, finalizer.encode())
    for key, text in edit.annotations.items():
        if text is not None:
            entry = _encode(1, key.encode()) + _encode(2, text.encode())
            kept += _encode(_ANNOTATIONS, entry)
    return bytes(kept)


def _annotation_key(field: _Field) -> str:
    return _value_of(field.value or b"", 1).decode()


def _replace(encoded: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """Change the only field with this number; raises ValueError if there is not exactly one."""
    fields = tuple(_fields(encoded))
    if sum(each.number == number and each.value is not None for each in fields) != 1:
        raise ValueError(f"the message does not have exactly one field {number}")
    return b"".join(
        _encode(number, change(field.value or b"")) if field.number == number else field.encoded
        for field in fields
    )


def _without_magic(message: bytes) -> bytes:
    if not message.startswith(_MAGIC):
        raise ValueError("the response is not an object in protobuf")
    return message[len(_MAGIC) :]


def _value_of(encoded: bytes, number: int) -> bytes:
    for field in _fields(encoded):
        if field.number == number and field.value is not None:
            return field.value
    return b""


def _fields(encoded: bytes) -> Iterator[_Field]:
    """Yield the fields of a message in their order."""
    at = 0
    while at < len(encoded):
        start = at
        tag, at = _read_varint(encoded, at)
        value: bytes | None = None
        match tag & 7:
            case 0:
                _, at = _read_varint(encoded, at)
            case 1:
                at += 8
            case 2:
                length, at = _read_varint(encoded, at)
                value = encoded[at : at + length]
                at += length
            case 5:
                at += 4
            case other:
                raise ValueError(f"the message has a field of the unknown wire type {other}")
        if at > len(encoded):
            raise ValueError("the message ends inside a field")
        yield _Field(tag >> 3, value, encoded[start:at])


def _read_varint(encoded: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(_MAX_VARINT_BYTES):
        if at >= len(encoded):
            raise ValueError("the message ends inside a number")
        byte = encoded[at]
        at += 1
        number |= (byte & 0x7F) << (7 * shift)
        if not byte & 0x80:
            return number, at
    raise ValueError("the message has a number of more than 10 bytes")


def _encode(number: int, value: bytes) -> bytes:
    """Encode a length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
