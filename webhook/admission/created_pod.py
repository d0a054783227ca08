"""A pod as far as admission reads one: what is looked at before it is known whether it is new.

Most pods were answered for before, so the review of a created one is read in one pass, and its
object only as far as that takes to be seen. Knows nothing of answers.
"""

from typing import Final

import msgspec

from registration.scope import Metadata, Owner
from runtime import review
from runtime.review import UNDECODABLE, Asked, Malformed


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """What of a pod's metadata is looked at; the bytes are decoded when they are needed."""

    name: str = ""
    generate_name: str = ""
    labels: msgspec.Raw = msgspec.Raw()
    annotations: msgspec.Raw = msgspec.Raw()
    owner_references: tuple[Owner, ...] | None = None


class Bare(msgspec.Struct, frozen=True):
    """A pod as far as it has to be read to be recognised."""

    metadata: Head
    spec: msgspec.Raw


class Created(Asked, frozen=True):
    """What is asked about a pod that is being created."""

    object: Bare | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Created


_BARE: Final = msgspec.json.Decoder(Bare)
_REVIEW: Final = msgspec.json.Decoder(_Review)
_TEXTS: Final = msgspec.json.Decoder(dict[str, str] | None)


def created(body: bytes) -> Created | None:
    """Read the review of a pod that is being created; None for whatever else it may be."""
    try:
        read = _REVIEW.decode(body)
    except UNDECODABLE:
        return None
    asked = read.request
    plain = asked.operation == "CREATE" and not asked.sub_resource and asked.object is not None
    pod = asked.kind.kind == "Pod" and not asked.kind.group
    return (
        asked if plain and pod and review.well_formed(read.api_version, read.kind, asked) else None
    )


def bare(raw: msgspec.Raw) -> Bare | Malformed:
    """Read as much of a pod as a key needs."""
    try:
        return _BARE.decode(raw)
    except UNDECODABLE as error:
        return Malformed(f"the pod cannot be read: {error}")


def metadata(pod: Bare) -> Metadata | Malformed:
    """Read what decides about the scope of a pod."""
    head = pod.metadata
    raw = bytes(head.labels)
    try:
        labels = _TEXTS.decode(raw) if raw else None
    except UNDECODABLE as error:
        return Malformed(f"metadata.labels cannot be read: {error}")
    return Metadata(head.name, head.generate_name, labels, head.owner_references)
