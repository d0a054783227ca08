"""The Secret of the certificate authorities: its form, and how it is read strictly.

`tls.crt` and `tls.key` are the CA that signs serving certificates, `next.crt` and `next.key` the
one that follows, and `ca.crt` is the bundle that the API server has to trust.
"""

import base64
import binascii
import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from certs.authority import (
    NONE,
    Authorities,
    Authority,
    combine_certificates,
    is_named_as_ours,
    read_authority,
    read_certificates,
)
from drawbridge.names import CA_SECRET, MANAGED_BY

T = TypeVar("T")
JSONObject = dict[str, Any]
_BUNDLE: Final = "ca.crt"
_CURRENT: Final = ("tls.crt", "tls.key")
_UPCOMING: Final = ("next.crt", "next.key")
# A certificate has about 1 KiB. Whoever may write the Secret decides about admission anyway, but
# its content is copied into every webhook configuration.
MAX_BYTES: Final = 64 * 1024


class SecretState(enum.Enum):
    """The state of the Secret."""

    VALID = enum.auto()
    ABSENT = enum.auto()
    DAMAGED = enum.auto()  # parts are missing or unreadable
    FOREIGN = enum.auto()  # another client wrote an object of that name


class SecretReading(msgspec.Struct, frozen=True):
    """The readable authorities of the Secret, and why the others are not readable."""

    state: SecretState
    stored: Authorities = NONE
    problem: str = ""


def read_secret(value: Mapping[str, Any] | None) -> SecretReading:
    """Read the Secret; any content gives a reading."""
    if value is None:
        return SecretReading(SecretState.ABSENT, problem=f"Secret {CA_SECRET} does not exist")
    data = value.get("data") or {}
    problems: list[str] = []
    current = _read_pair(data, _CURRENT, problems)
    upcoming = _read_pair(data, _UPCOMING, problems)
    if _is_foreign(value, current):
        text = f"Secret {CA_SECRET} was not written by Drawbridge"
        return SecretReading(SecretState.FOREIGN, problem=text)
    bundle = read_part(data, _BUNDLE, read_certificates, problems) or ()
    if not data:
        problems = ["it is empty"]
    own = [each.certificate for each in (current, upcoming) if each is not None]
    if missing := [each for each in own if each not in bundle]:
        problems.append(f"{_BUNDLE} lacks {len(missing)} of its own certificates")
    stored = Authorities(current, upcoming, combine_certificates(bundle, own))
    state = SecretState.DAMAGED if problems or not own else SecretState.VALID
    text = f"Secret {CA_SECRET}: {'; '.join(problems)}" if state is SecretState.DAMAGED else ""
    return SecretReading(state, stored, text)


def is_written_elsewhere(value: Mapping[str, Any]) -> bool:
    """Whether a Secret has content, and not our label."""
    labels = (value.get("metadata") or {}).get("labels") or {}
    return bool(value.get("data")) and not MANAGED_BY.items() <= labels.items()


def _is_foreign(value: Mapping[str, Any], current: Authority | None) -> bool:
    """Whether another client wrote it: without our label and with content that is not ours."""
    if not is_written_elsewhere(value):
        return False
    return current is None or not is_named_as_ours(current.certificate)


def _read_pair(data: JSONObject, names: tuple[str, str], problems: list[str]) -> Authority | None:
    """Read a certificate with its key; None without either of them."""
    if not any(name in data for name in names):
        return None
    certificate, key = (read_part(data, name, bytes, problems) for name in names)
    if not certificate or not key:
        return None
    try:
        return read_authority(certificate, key)
    except ValueError as error:
        problems.append(f"{names[0]}, {names[1]}: {error}")
        return None


def read_part(
    data: JSONObject, name: str, read: Callable[[bytes], T], problems: list[str]
) -> T | None:
    """Return a part of a Secret; None with the problem if there is none."""
    text = data.get(name)
    if not isinstance(text, str) or not text:
        problems.append(f"{name} is missing")
        return None
    if len(text) > MAX_BYTES:
        problems.append(f"{name} has more than {MAX_BYTES} bytes")
        return None
    try:
        return read(base64.b64decode(text, validate=True))
    except (ValueError, binascii.Error):
        problems.append(f"{name} is not readable")
        return None


def compose_secret(authorities: Authorities, live: Mapping[str, Any] | None) -> JSONObject:
    """Return the Secret with these authorities; keeps what else the live object has."""
    data = {_BUNDLE: authorities.bundle}
    for names, authority in ((_CURRENT, authorities.current), (_UPCOMING, authorities.upcoming)):
        if authority is not None:
            data |= dict(zip(names, (authority.certificate.pem, authority.key), strict=True))
    return fill_secret(live or {"metadata": {"name": CA_SECRET}, "type": "Opaque"}, data)


def fill_secret(secret: Mapping[str, Any], data: Mapping[str, str]) -> JSONObject:
    """Return a Secret with this data and our label; keeps what else it has."""
    metadata = dict(secret["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), **MANAGED_BY}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {**secret, "metadata": metadata, "data": encoded}
