"""Finds what a user of a kubeconfig sends and shows: a header, a client certificate, or nothing.

The order is client-go's: what the kubeconfig has itself goes before what a plug-in returns.
"""

import base64
import binascii
import datetime as dt
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.exec_plugin import describe_cluster, run_plugin
from drawbridge.cluster.kubeconfig import (
    AuthProvider,
    ClusterEntry,
    SelectedContext,
    UserEntry,
    decode_data,
)
from drawbridge.cluster.tls import KeyPair

# The kubelet renews a token file long before the old token expires; client-go also reads it again
# once a minute.
FILE_SECONDS = 60.0
# Credentials that expire are renewed this long before.
EARLY_SECONDS = 60.0


class Authentication(NamedTuple):
    """The header of a user and its client certificate, with the seconds until they are renewed."""

    authorization: str = ""
    pair: KeyPair | None = None
    seconds: float = math.inf

    def __repr__(self) -> str:
        return "Authentication()"  # without its secrets


async def identify(
    chosen: SelectedContext, authority: bytes | None, environ: Mapping[str, str]
) -> Authentication:
    """Return what the user of a context sends; raises AccessError."""
    user = chosen.user
    _check(user)
    pair = _read_pair(user)
    if user.token or user.token_file:
        return Authentication(_bearer(_read_token(user)), pair, _file_seconds(user))
    if user.username:
        name = f"{user.username}:{user.password}".encode()
        return Authentication(f"Basic {base64.b64encode(name).decode()}", pair)
    if pair is not None:
        return Authentication(pair=pair)
    if user.auth_provider is not None:
        return _use_id_token(user.auth_provider)
    if user.exec is None:
        return Authentication()
    described = describe_cluster(chosen.cluster, authority)
    returned = await run_plugin(user.exec, described, environ)
    seconds = math.inf if returned.expires is None else _find_seconds(returned.expires)
    return Authentication(_bearer(returned.token), returned.pair, seconds)


def read_authority(cluster: ClusterEntry) -> bytes | None:
    """Return the CAs of a cluster; None for those of this machine. Raises AccessError."""
    name = "certificate-authority"
    return _read(name, cluster.certificate_authority, cluster.certificate_authority_data)


def impersonation_headers(user: UserEntry) -> dict[str, str]:
    """Return the headers of a user who acts as another one; raises AccessError."""
    if user.as_groups or user.as_user_extra:
        raise AccessError("as-groups and as-user-extra in a kubeconfig are not supported")
    if user.as_uid and not user.impersonated:
        raise AccessError("as-uid needs as")
    headers = {"Impersonate-User": user.impersonated, "Impersonate-Uid": user.as_uid}
    return {name: text for name, text in headers.items() if text}


def _check(user: UserEntry) -> None:
    if (user.token or user.token_file) and (user.username or user.password):
        raise AccessError("the user has a token and a username; set one of them")
    if user.exec is not None and user.auth_provider is not None:
        raise AccessError("the user has exec and auth-provider; set one of them")


def _read_pair(user: UserEntry) -> KeyPair | None:
    certificate = _read("client-certificate", user.client_certificate, user.client_certificate_data)
    if certificate is None:
        return None
    key = _read("client-key", user.client_key, user.client_key_data)
    if key is None:
        raise AccessError("the user has a client certificate without its client-key")
    return KeyPair(certificate, key)


def _read(field: str, path: str, data: str) -> bytes | None:
    if path and data:
        raise AccessError(f"{field} and {field}-data are both set; set one of them")
    if data:
        return decode_data(f"{field}-data", data)
    return _read_file(field, path) if path else None


def _read_file(field: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # also a null byte
        reason = error.strerror if isinstance(error, OSError) else error
        raise AccessError(f"cannot read {field} {path}: {reason}") from None


def _read_token(user: UserEntry) -> str:
    """Return the token of the file, or the other one while the file has none."""
    if not user.token_file:
        return user.token
    try:
        content = _read_file("tokenFile", user.token_file)
        return decode_token(f"tokenFile {user.token_file}", content)
    except AccessError:
        if user.token:
            return user.token
        raise


def decode_token(name: str, content: bytes) -> str:
    """Return the token in a file, which may end with a newline; raises AccessError."""
    try:
        token = content.decode().strip()
    except UnicodeDecodeError:
        raise AccessError(f"{name} is not UTF-8") from None
    if not token:
        raise AccessError(f"{name} is empty")
    return token


def _bearer(token: str) -> str:
    return f"Bearer {token.strip()}" if token.strip() else ""


def _file_seconds(user: UserEntry) -> float:
    return FILE_SECONDS if user.token_file else math.inf


def _find_seconds(expires: dt.datetime) -> float:
    left = (expires - dt.datetime.now(dt.UTC)).total_seconds()
    return max(left - EARLY_SECONDS, left / 2, 1.0)


def _use_id_token(provider: AuthProvider) -> Authentication:
    """Use the token that the former kubectl stored; only a plug-in can get another one."""
    remedy = "use an exec plug-in, such as kubelogin"
    if provider.name != "oidc":
        raise AccessError(f"Kubernetes has no auth-provider {provider.name!r} any more; {remedy}")
    token = provider.config.get("id-token", "")
    expires = _read_expiry(token)
    if expires is None:
        raise AccessError(f"auth-provider oidc has no usable id-token; {remedy}")
    if expires <= dt.datetime.now(dt.UTC):
        raise AccessError(f"the id-token of auth-provider oidc expired at {expires}; {remedy}")
    return Authentication(_bearer(token), seconds=_find_seconds(expires))


def _read_expiry(token: str) -> dt.datetime | None:
    """Return when a JSON web token expires; None if it is none."""
    try:
        part = token.split(".")[1]
        claims: Any = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return dt.datetime.fromtimestamp(claims["exp"], dt.UTC)
    except (LookupError, TypeError, ValueError, OverflowError, OSError, binascii.Error):
        return None
