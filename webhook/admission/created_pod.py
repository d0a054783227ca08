"""Decode the review of a created pod in one pass, as far as the answer cache needs it.

Labels, annotations and spec stay raw bytes. Most pods have a cached answer, so a full decode is
rarely needed.
"""

import operator
from typing import Final

import msgspec

from drawbridge.agreement.scope import PodMetadata, PodOwner, find_root_owner
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder
from drawbridge.process import review
from drawbridge.process.review import Malformed, RequestEnvelope
from drawbridge.translate.essence import METADATA_FIELDS


class RawPodMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of a pod. The fields that determine its translation stay raw bytes."""

    name: str = ""
    generate_name: str = ""
    namespace: msgspec.Raw = msgspec.Raw()
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()
    finalizers: msgspec.Raw = msgspec.Raw()
    owner_references: tuple[PodOwner, ...] | None = None


class RawPod(msgspec.Struct, frozen=True):
    """A pod whose spec stays raw bytes."""

    metadata: RawPodMetadata
    spec: msgspec.Raw


class CreateRequest(RequestEnvelope, frozen=True):
    """An admission request for a pod that is being created."""

    object: RawPod | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: CreateRequest


_POD_DECODER: Final[ForeignDecoder[RawPod]] = ForeignDecoder(RawPod)
_REVIEW_DECODER: Final[ForeignDecoder[_Review]] = ForeignDecoder(_Review)
_LABELS_DECODER: Final = msgspec.json.Decoder(dict[str, str] | None)
_SELECT_METADATA: Final = operator.attrgetter(*METADATA_FIELDS)


def decode_create_request(body: bytes) -> CreateRequest | None:
    """Decode the review of a pod that is being created. Return None for any other body."""
    try:
        decoded = _REVIEW_DECODER.decode(body)
    except UNDECODABLE:
        return None
    request = decoded.request
    is_create = request.operation == "CREATE" and not request.sub_resource
    is_pod = request.kind.kind == "Pod" and not request.kind.group
    if not is_create or request.object is None or not is_pod:
        return None
    return request if review.is_well_formed(decoded.api_version, decoded.kind, request) else None


def decode_pod(raw: msgspec.Raw) -> RawPod | Malformed:
    """Decode a pod as far as the answer cache needs it."""
    try:
        return _POD_DECODER.decode(raw)
    except UNDECODABLE as error:
        return Malformed(f"the pod cannot be decoded: {error}")


def join_metadata(pod: RawPod) -> bytes:
    """Return the raw fields that determine the translation, separated by commas.

    Each field is one JSON value or empty, so no two lists of fields have the same bytes.
    """
    return b",".join(_SELECT_METADATA(pod.metadata))


def decode_metadata(pod: RawPod) -> PodMetadata | Malformed:
    """Decode the metadata that decides the scope of a pod."""
    metadata = pod.metadata
    raw = bytes(metadata.labels)
    try:
        labels = _LABELS_DECODER.decode(raw) if raw else None
    except UNDECODABLE as error:
        return Malformed(f"metadata.labels cannot be decoded: {error}")
    return PodMetadata(metadata.name, metadata.generate_name, labels, metadata.owner_references)


def find_owner(pod: RawPod, namespace: str) -> str:
    """Return the root owner of a pod; empty if its metadata cannot be read."""
    metadata = decode_metadata(pod)
    if isinstance(metadata, Malformed):
        return ""
    return find_root_owner(namespace, metadata).partition("/")[2]
