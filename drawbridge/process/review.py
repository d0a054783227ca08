"""Decode AdmissionReview v1 requests, and compose responses.

Only the envelope is decoded. The objects stay raw bytes. Malformed input never raises: decoding
returns a `Malformed` value that describes the problem.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from drawbridge.documents.values import Value
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
_NO_OBJECT: Final = (b"", b"null")


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The kind of the object."""

    kind: str
    group: str = ""
    version: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who sent the request to the API server."""

    username: str = ""


class RequestEnvelope(msgspec.Struct, frozen=True, rename="camel"):
    """An admission request without its objects."""

    uid: str
    kind: GroupVersionKind
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]  # a metric label, so bounded
    namespace: str = ""
    name: str = ""
    sub_resource: str | None = None
    dry_run: bool | None = None


class AdmissionRequest(RequestEnvelope, frozen=True):
    """An admission request. The objects are raw bytes, empty if they are missing."""

    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class Malformed(msgspec.Struct, frozen=True):
    """Why a review is malformed, and its uid if that is readable."""

    why: str
    uid: str = ""


class Denial(msgspec.Struct, frozen=True):
    """The Status of a denied request."""

    code: int
    reason: str
    message: str


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


class _ObjectRequest(msgspec.Struct, frozen=True):
    object: Any = None


class _ObjectReview(msgspec.Struct, frozen=True):
    request: _ObjectRequest


class _UidRequest(msgspec.Struct, frozen=True):
    uid: str


class _UidReview(msgspec.Struct, frozen=True):
    request: _UidRequest


_REVIEW_DECODER: Final[ForeignDecoder[_Review]] = ForeignDecoder(_Review)
_UID_DECODER: Final[ForeignDecoder[_UidReview]] = ForeignDecoder(_UidReview)
_OBJECT_REVIEW_DECODER: Final[ForeignDecoder[_ObjectReview]] = ForeignDecoder(_ObjectReview)
_OBJECT_DECODER: Final[ForeignDecoder[Value]] = ForeignDecoder()
_ENCODER: Final = msgspec.json.Encoder()
_HEAD: Final = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":'
_ALLOWED: Final = b',"allowed":true}}'


def decode_review(body: bytes) -> AdmissionRequest | Malformed:
    """Decode a review. Unknown fields are ignored."""
    try:
        review = _REVIEW_DECODER.decode(body)
    except UNDECODABLE as error:
        return Malformed(f"the body is not a valid {KIND}: {error}", read_uid(body))
    request = review.request
    if is_well_formed(review.api_version, review.kind, request):
        return request
    if review.api_version != API_VERSION or review.kind != KIND:
        actual = f"{review.api_version} {review.kind}"
        return Malformed(f"expected {API_VERSION} {KIND}, not {actual}", request.uid)
    return Malformed("request.uid is empty")


def is_well_formed(api_version: str, kind: str, request: RequestEnvelope) -> bool:
    """Return whether a review has the supported version and kind, and a uid."""
    return api_version == API_VERSION and kind == KIND and bool(request.uid)


def read_uid(body: bytes) -> str:
    """Return the uid of a review, or an empty string if it is not readable."""
    try:
        return _UID_DECODER.decode(body).request.uid
    except UNDECODABLE:
        return ""


def decode_object(raw: msgspec.Raw) -> dict[str, Value] | Malformed:
    """Decode an object of a review."""
    if bytes(raw) in _NO_OBJECT:
        return Malformed("the object is missing")
    try:
        decoded = _OBJECT_DECODER.decode(raw)
    except UNDECODABLE as error:
        return Malformed(f"the object cannot be decoded: {error}")
    return _require_object(decoded)


def decode_review_object(body: bytes) -> dict[str, Value] | Malformed:
    """Decode the object of a review whose envelope is valid, in one pass."""
    try:
        decoded: Value = _OBJECT_REVIEW_DECODER.decode(body).request.object
    except UNDECODABLE as error:
        return Malformed(f"the object cannot be decoded: {error}")
    return _require_object(decoded)


def _require_object(decoded: Value) -> dict[str, Value] | Malformed:
    return decoded if isinstance(decoded, dict) else Malformed("the object is not a JSON object")


def compose_review(uid: str, tail: bytes = _ALLOWED) -> bytes:
    """Compose a response from its uid and the tail that does not depend on the uid."""
    return b"".join((_HEAD, _ENCODER.encode(uid), tail))


def compose_allowed(
    patch: Sequence[Mapping[str, Value]] = (),
    warnings: Sequence[str] = (),
    audit: Mapping[str, str] | None = None,
) -> bytes:
    """Compose the tail of a response that allows the object."""
    if not patch and not warnings and not audit:
        return _ALLOWED
    response: dict[str, object] = {"allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encode_patch(patch)).decode("ascii")
    return _compose_tail(response, warnings, audit)


def _encode_patch(patch: Sequence[Mapping[str, Value]]) -> bytes:
    try:
        return _ENCODER.encode(patch)
    except UnicodeEncodeError:
        # A lone surrogate from a user's annotation. The json module escapes it.
        return json.dumps(patch).encode()


def compose_denied(
    denial: Denial, warnings: Sequence[str] = (), audit: Mapping[str, str] | None = None
) -> bytes:
    """Compose the tail of a response that denies the object."""
    status = {
        "status": "Failure",
        "code": denial.code,
        "reason": denial.reason,
        "message": denial.message,
    }
    return _compose_tail({"allowed": False, "status": status}, warnings, audit)


def _compose_tail(
    response: dict[str, object], warnings: Sequence[str], audit: Mapping[str, str] | None
) -> bytes:
    if warnings:
        response["warnings"] = warnings
    if audit:
        response["auditAnnotations"] = audit
    return b"," + _ENCODER.encode(response)[1:] + b"}"
