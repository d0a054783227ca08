"""The certificate that the leading controller signs for the allocator, and keeps in a Secret.

The allocator runs beside a kube-scheduler, with its account. It reads this Secret instead of the
key of the CA, which signs for the webhooks as well.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from certs.leaf import LEAF_LIFE, Leaf, names_of_service, needs_new_leaf, read_leaf, sign_leaf
from certs.secret import fill_secret, is_written_elsewhere, read_part
from certs.watched_secret import WatchedAuthorities
from drawbridge.agreement.operation_codes import SECRET_NOT_OWNED
from drawbridge.agreement.refused_writes import describe_refused_write
from drawbridge.api_error import ApiError
from drawbridge.finding import Finding
from drawbridge.names import ALLOCATOR_SECRET, ALLOCATOR_SERVICE
from drawbridge.process.logs import log_event
from drawbridge.process.tls import find_pair_problem, format_time

_LOG: Final = logging.getLogger("certs.issuing")
NAME: Final = "allocator-certificate"
_ABOUT: Final = f"Secret/{ALLOCATOR_SECRET}"
_ISSUER: Final = "ca.crt"
_PARTS: Final = ("tls.crt", "tls.key", _ISSUER)
JSONObject = dict[str, Any]


class SecretWriter(Protocol):
    """Reads and writes Secrets as the leader; every method raises an error of the API server."""

    async def read_secret(self, name: str) -> JSONObject | None:
        """Read a Secret; None if it does not exist."""

    async def write_secret(self, value: JSONObject) -> JSONObject:
        """Create a Secret, or replace the version that its metadata names; return it."""


class AllocatorCertificateReconciler:
    """Keeps the Secret filled with a certificate of the CA that signs now, where it is wanted."""

    name = NAME

    def __init__(
        self,
        authorities: WatchedAuthorities,
        writer: SecretWriter,
        report: Callable[[Finding], None],
        *,
        is_wanted: Callable[[], bool],
    ) -> None:
        self._authorities = authorities
        self._writer = writer
        self._report = report
        self._is_wanted = is_wanted

    async def reconcile(self) -> None:
        """Sign if there is no certificate, or one that is due."""
        authority = self._authorities.remembered.current
        if authority is None or not self._is_wanted() or not self._authorities.is_time_certain():
            return
        live = await self._writer.read_secret(ALLOCATOR_SECRET)
        if live is not None and is_written_elsewhere(live):
            text = f"Secret {ALLOCATOR_SECRET} was not written by Drawbridge"
            self._report(SECRET_NOT_OWNED.at("", text, object=_ABOUT))
            return
        now = self._authorities.now()
        if not needs_new_leaf(_find_leaf(live), authority, now, LEAF_LIFE):
            return
        names = names_of_service(ALLOCATOR_SERVICE, self._authorities.namespace)
        leaf = sign_leaf(authority, names, now, LEAF_LIFE)
        try:
            await self._writer.write_secret(compose_leaf_secret(leaf, live))
        except ApiError as error:
            for finding in describe_refused_write("Secret", error, _ABOUT):
                self._report(finding)
            raise
        until = format_time(leaf.not_after)
        log_event(_LOG, logging.INFO, "the certificate of the allocator is signed", expires=until)


def _find_leaf(value: Mapping[str, Any] | None) -> Leaf | None:
    try:
        return None if value is None else read_leaf_secret(value)
    except ValueError:
        return None


def read_leaf_secret(value: Mapping[str, Any]) -> Leaf:
    """Return the certificate in the Secret; raises ValueError with the reason why there is none."""
    problems: list[str] = []
    data = value.get("data") or {}
    parts = [read_part(data, name, bytes, problems) or b"" for name in _PARTS]
    if not problems:
        problems += filter(None, [find_pair_problem(parts[0], parts[1], _PARTS[:2])])
    try:
        if not problems:
            return read_leaf(*parts)
    except ValueError as error:
        problems.append(str(error))
    raise ValueError(f"Secret {ALLOCATOR_SECRET}: {'; '.join(problems)}")


def compose_leaf_secret(leaf: Leaf, live: Mapping[str, Any] | None) -> JSONObject:
    """Return the Secret with a certificate; keeps what else the live object has."""
    empty = {"metadata": {"name": ALLOCATOR_SECRET}, "type": "kubernetes.io/tls"}
    data = dict(zip(_PARTS, (leaf.certificate, leaf.key, leaf.issuer), strict=True))
    return fill_secret(live or empty, data)
