"""Load the serving certificate from files, and reload it when they change.

Open connections are not affected. Each certificate gets its own SSL context, because loading a
mismatched key pair would break an existing context. The handshake switches to the newest context.
An invalid pair is logged, and the last valid one stays in use.
"""

import asyncio
import hashlib
import logging
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from runtime import metrics
from runtime.logs import log_event

_LOG: Final = logging.getLogger("runtime.tls")
POLL_INTERVAL: Final = 5.0  # seconds; the kubelet updates a mounted Secret about once a minute
_NO_CERTIFICATE: Final = "no serving certificate yet"


class ServingCertificate:
    """A certificate and its key in two files, and the SSL context that serves them."""

    def __init__(self, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self._seen = b""
        self._newest: ssl.SSLContext | None = None
        self.expires: float | None = None  # Unix time
        # The listener keeps this context. Its callback switches to the newest context.
        self.context = _create_context()
        self.context.sni_callback = self._use_newest

    def find_problem(self) -> str:
        """Return why there is no valid certificate, or an empty string."""
        if self.expires is None:
            return f"{_NO_CERTIFICATE}: {self._files[0]}"
        if self.expires <= time.time():
            return f"the serving certificate expired at {_format_time(self.expires)}"
        return ""

    def refresh(self) -> bool:
        """Read the files if they changed. Return whether a new certificate is in use."""
        try:
            content = tuple(Path(each).read_bytes() for each in self._files)
        except OSError as error:
            return self._report_failure(str(error).encode(), f"{error.strerror}: {error.filename}")
        digest = hashlib.sha256(b"\0".join(content)).digest()
        if digest == self._seen:
            return False
        try:
            fresh = _create_context()
            fresh.load_cert_chain(*self._files, password=_no_password)
            expires = _handshake_expiry(fresh)
        except (ssl.SSLError, OSError, ValueError) as error:
            return self._report_failure(digest, _describe_error(error))
        self._seen, self._newest, self.expires = digest, fresh, expires
        metrics.CERTIFICATE.set(expires)
        metrics.CERTIFICATE_READS.labels("success").inc()
        log_event(_LOG, logging.INFO, "certificate in use", expires=_format_time(expires))
        return True

    async def run(self, interval: float = POLL_INTERVAL) -> None:
        """Poll the files until cancelled."""
        while True:
            await asyncio.sleep(interval)
            self.refresh()

    def _report_failure(self, digest: bytes, reason: str) -> bool:
        # Log each content once. A partly written pair is complete at the next poll.
        if digest != self._seen:
            self._seen = digest
            metrics.CERTIFICATE_READS.labels("error").inc()
            instead = "the previous certificate stays in use" if self._newest else _NO_CERTIFICATE
            text = "the certificate cannot be used"
            files = list(self._files)
            log_event(_LOG, logging.ERROR, text, reason=reason, files=files, instead=instead)
        return False

    def _use_newest(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        # Called for every handshake, also when the client names no server.
        if self._newest is not None:
            connection.context = self._newest


def _describe_error(error: Exception) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError | UnicodeDecodeError) else None
    return reason or str(error)


def _create_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The API server never uses HTTP/2 for the webhook of a Service.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    # Without this callback, OpenSSL prompts on the terminal for the password of an encrypted key.
    raise ValueError("the key is encrypted; use a key file without a password")


def _format_time(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")[:19] + "Z"


def _handshake_expiry(serving: ssl.SSLContext) -> float:
    """Verify the pair by a handshake in memory, and return when the certificate expires."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE  # only the clients decide whom they trust
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(ours, theirs, server_side=True)
    client = trusting.wrap_bio(theirs, ours)
    for side in (client, server) * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return read_expiry(client.getpeercert(binary_form=True) or b"")


def read_expiry(certificate: bytes) -> float:
    """Return the end of the validity of a DER certificate, in Unix time."""
    _, outer, _ = _read_element(certificate)
    _, body, _ = _read_element(outer)
    tag, _, rest = _read_element(body)
    # An optional version comes first, then the serial number, the algorithm and the issuer.
    for _ in range(3 if tag == 0xA0 else 2):
        _, _, rest = _read_element(rest)
    _, validity, _ = _read_element(rest)
    _, _, after_start = _read_element(validity)
    tag, end, _ = _read_element(after_start)
    form = "%y%m%d%H%M%SZ" if tag == 0x17 else "%Y%m%d%H%M%SZ"
    return datetime.strptime(end.decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _read_element(der: bytes) -> tuple[int, bytes, bytes]:
    """Split off one element. Return its tag, its content, and the remaining bytes."""
    if len(der) < 2:
        raise ValueError("the certificate is truncated")
    size, start = der[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[2:start], "big")
    return der[0], der[start : start + size], der[start + size :]
