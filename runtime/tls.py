"""The serving certificate: read from files, and again when they change, under live connections.

Each pair gets a context of its own that is swapped in at the handshake, because a pair that does
not match would break the context it is loaded into. A bad pair is reported and the last good one
goes on. Knows nothing of who signs, nor of what is served.
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
from runtime.logs import say

_LOG: Final = logging.getLogger("runtime.tls")
EVERY: Final = 5.0  # seconds between looks; a mounted Secret is swapped once a minute or so
_NONE: Final = "no serving certificate yet"


class Certificate:
    """A pair of files and the context that serves them."""

    def __init__(self, certificate: str, key: str) -> None:
        self._files = (certificate, key)
        self._seen = b""
        self._newest: ssl.SSLContext | None = None
        self.expires: float | None = None  # Unix time
        # What listens keeps this one for good; it only ever hands over to the newest.
        self.context = _context()
        self.context.sni_callback = self._hand_over

    def missing(self) -> str:
        """Say what keeps this from serving; empty when nothing does."""
        if self.expires is None:
            return f"{_NONE}: {self._files[0]}"
        if self.expires <= time.time():
            return f"the serving certificate expired at {_shown(self.expires)}"
        return ""

    def refresh(self) -> bool:
        """Read the files if they changed; whether there is a new certificate now."""
        try:
            content = tuple(Path(each).read_bytes() for each in self._files)
        except OSError as error:
            return self._failed(str(error).encode(), f"{error.strerror}: {error.filename}")
        mark = hashlib.sha256(b"\0".join(content)).digest()
        if mark == self._seen:
            return False
        try:
            fresh = _context()
            fresh.load_cert_chain(*self._files, password=_no_password)
            expires = _expiry(fresh)
        except (ssl.SSLError, OSError, ValueError) as error:
            return self._failed(mark, getattr(error, "reason", None) or str(error))
        self._seen, self._newest, self.expires = mark, fresh, expires
        metrics.CERTIFICATE.set(expires)
        metrics.CERTIFICATE_READS.labels("success").inc()
        say(_LOG, logging.INFO, "certificate in use", expires=_shown(expires))
        return True

    async def run(self, every: float = EVERY) -> None:
        """Look at the files now and then, until cancelled."""
        while True:
            await asyncio.sleep(every)
            self.refresh()

    def _failed(self, mark: bytes, reason: str) -> bool:
        # Said once for a state of the files: a pair half written is whole at the next look.
        if mark != self._seen:
            self._seen = mark
            metrics.CERTIFICATE_READS.labels("error").inc()
            kept = "the one before goes on" if self._newest else _NONE
            text = "the certificate cannot be used"
            files = list(self._files)
            say(_LOG, logging.ERROR, text, reason=reason, files=files, instead=kept)
        return False

    def _hand_over(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        # Called for every handshake, also when the client names no server.
        if self._newest is not None:
            connection.context = self._newest


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # The API server never speaks HTTP/2 to a Service's webhook.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    # Without this OpenSSL would ask a terminal for the password of an encrypted key.
    raise ValueError("the key is encrypted; a key file without a password is needed")


def _shown(instant: float) -> str:
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")[:19] + "Z"


def _expiry(serving: ssl.SSLContext) -> float:
    """Shake hands with ourselves in memory: that proves the pair, and shows the certificate."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE  # whom clients trust is theirs to say
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(ours, theirs, server_side=True)
    client = trusting.wrap_bio(theirs, ours)
    for side in (client, server) * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return not_after(client.getpeercert(binary_form=True) or b"")


def not_after(certificate: bytes) -> float:
    """Read the end of validity out of a certificate in DER; Unix time."""
    _, whole, _ = _element(certificate)
    _, body, _ = _element(whole)
    tag, _, rest = _element(body)
    # A version comes first where there is one, then serial number, algorithm and issuer.
    for _ in range(3 if tag == 0xA0 else 2):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, after_start = _element(validity)
    tag, end, _ = _element(after_start)
    form = "%y%m%d%H%M%SZ" if tag == 0x17 else "%Y%m%d%H%M%SZ"
    return datetime.strptime(end.decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """Take one element off: its tag, its content, and what follows."""
    if len(der) < 2:
        raise ValueError("the certificate ends too early")
    size, start = der[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[2:start], "big")
    return der[0], der[start : start + size], der[start + size :]
