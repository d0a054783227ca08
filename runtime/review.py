"""AdmissionReview v1: what is asked, and how an answer is written.

Only the envelope is decoded; the objects stay bytes until somebody needs them. Any bytes give a
request, or a value that says what is wrong. Knows nothing of pods.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from documents.values import Value

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
# What msgspec raises for bytes that are not JSON, not UTF-8, nested too deeply, or of other types.
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_RAW_NOTHING: Final = (b"", b"null")


class GroupKind(msgspec.Struct, frozen=True):
    """Of what kind the object is."""

    kind: str
    group: str = ""
    version: str = ""


class Asked(msgspec.Struct, frozen=True, rename="camel"):
    """What is asked, without the objects."""

    uid: str
    kind: GroupKind
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]  # counted: there is no other
    namespace: str = ""
    name: str = ""
    sub_resource: str | None = None
    dry_run: bool | None = None


class Request(Asked, frozen=True):
    """What is asked; the objects are bytes, empty where there is none."""

    object: msgspec.Raw = msgspec.Raw()
    old_object: msgspec.Raw = msgspec.Raw()


class Malformed(msgspec.Struct, frozen=True):
    """Why bytes are no review; with the uid, where at least that can be read."""

    why: str
    uid: str = ""


class Denial(msgspec.Struct, frozen=True):
    """Why a request is refused, as a Status says it."""

    code: int
    reason: str
    message: str


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


class _Called(msgspec.Struct, frozen=True):
    uid: str


class _Uid(msgspec.Struct, frozen=True):
    request: _Called


_REVIEW: Final = msgspec.json.Decoder(_Review)
_UID: Final = msgspec.json.Decoder(_Uid)
_OBJECT: Final = msgspec.json.Decoder()
_ENCODER: Final = msgspec.json.Encoder()
_HEAD: Final = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":'
_ALLOWED: Final = b',"allowed":true}}'


def decode(body: bytes) -> Request | Malformed:
    """Read a review; whatever else it says is not looked at."""
    try:
        review = _REVIEW.decode(body)
    except UNDECODABLE as error:
        return Malformed(f"this is no {KIND}: {error}", _uid(body))
    request = review.request
    if well_formed(review.api_version, review.kind, request):
        return request
    if review.api_version != API_VERSION or review.kind != KIND:
        said = f"{review.kind} of {review.api_version}"
        return Malformed(f"{KIND} of {API_VERSION} is needed, not {said}", request.uid)
    return Malformed("request.uid is empty")


def well_formed(api_version: str, kind: str, asked: Asked) -> bool:
    """Tell whether a review is one of those that are answered."""
    return api_version == API_VERSION and kind == KIND and bool(asked.uid)


def _uid(body: bytes) -> str:
    try:
        return _UID.decode(body).request.uid
    except UNDECODABLE:
        return ""


def value(raw: msgspec.Raw) -> dict[str, Value] | Malformed:
    """Decode an object of a review."""
    if bytes(raw) in _RAW_NOTHING:
        return Malformed("the object is not there")
    try:
        read: Value = _OBJECT.decode(raw)
    except UNDECODABLE as error:
        return Malformed(f"the object cannot be read: {error}")
    return read if isinstance(read, dict) else Malformed("the object is no object")


def object_of(body: bytes) -> dict[str, Value] | Malformed:
    """Decode the object of a review that was read before."""
    read = decode(body)
    return read if isinstance(read, Malformed) else value(read.object)


def answer(uid: str, rest: bytes = _ALLOWED) -> bytes:
    """Write an answer from the part that does not depend on the uid."""
    return b"".join((_HEAD, _ENCODER.encode(uid), rest))


def allowed(
    patch: Sequence[Mapping[str, Value]] = (),
    warnings: Sequence[str] = (),
    audit: Mapping[str, str] | None = None,
) -> bytes:
    """Write what follows the uid in an answer that lets the object in."""
    if not patch and not warnings and not audit:
        return _ALLOWED
    response: dict[str, object] = {"allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(_encoded(patch)).decode("ascii")
    return _rest(response, warnings, audit)


def _encoded(patch: Sequence[Mapping[str, Value]]) -> bytes:
    try:
        return _ENCODER.encode(patch)
    except UnicodeEncodeError:
        # Half a character that somebody wrote into an annotation: escaped, as it was there.
        return json.dumps(patch).encode()


def denied(
    denial: Denial, warnings: Sequence[str] = (), audit: Mapping[str, str] | None = None
) -> bytes:
    """Write what follows the uid in an answer that refuses the object."""
    status = {
        "status": "Failure",
        "code": denial.code,
        "reason": denial.reason,
        "message": denial.message,
    }
    return _rest({"allowed": False, "status": status}, warnings, audit)


def _rest(
    response: dict[str, object], warnings: Sequence[str], audit: Mapping[str, str] | None
) -> bytes:
    if warnings:
        response["warnings"] = warnings
    if audit:
        response["auditAnnotations"] = audit
    return b"," + _ENCODER.encode(response)[1:] + b"}"
