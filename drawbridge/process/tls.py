"""The SSL context of a listener, and the serving certificate from files.

Open connections are not affected by a new certificate. Each certificate gets its own SSL context,
because loading a mismatched key pair would break an existing context. The handshake switches to the
newest context. An invalid pair is logged, and the last valid one stays in use.
"""

import asyncio
import hashlib
import logging
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from drawbridge.process import metrics
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("drawbridge.process.tls")
POLL_INTERVAL: Final = 5.0  # seconds; the kubelet updates a mounted Secret about once a minute
# At least so long before the end of its validity, or a third of it, others renew a certificate.
_RENEWED_BEFORE: Final = 2 * 86_400.0  # seconds
NO_CERTIFICATE: Final = "no serving certificate yet"


class CertificateSource(Protocol):
    """A serving certificate that renews itself: from files, or signed by the process."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the listener, which always serves the newest certificate."""

    def find_problem(self) -> str:
        """Return why there is no valid certificate, or an empty string."""

    async def run(self) -> None:
        """Renew the certificate until cancelled."""


class ServingContext:
    """An SSL context that serves the newest certificate.

    With `client_ca`, a file of certificates in PEM form, clients must present a certificate that
    one of them signed; with `verify` CERT_OPTIONAL, a client can have none. Every handshake
    verifies it.
    """

    def __init__(
        self, client_ca: str = "", verify: ssl.VerifyMode = ssl.VerifyMode.CERT_REQUIRED
    ) -> None:
        self.client_ca = client_ca
        self._verify = verify
        self.expires: float | None = None  # Unix time
        self._newest: ssl.SSLContext | None = None
        # The listener keeps this context. Its callback switches to the newest context.
        self.context = _create_context()
        self.context.sni_callback = self._use_newest
        if client_ca:
            # A handshake takes the mode from here, and the trusted certificates from the newest.
            self.context.verify_mode = verify
            # Who resumes a session is not verified again: its CA can be gone, or its time over.
            self.context.num_tickets = 0
            self.context.options |= ssl.OP_NO_TICKET

    @property
    def is_serving(self) -> bool:
        """Whether there is a certificate."""
        return self._newest is not None

    def read_client_ca(self) -> bytes:
        """Read the certificates that clients are verified with; raises OSError."""
        return Path(self.client_ca).read_bytes() if self.client_ca else b""

    def use(
        self, certificate: str, key: str, client_ca: bytes = b"", *, due: float | None = None
    ) -> float:
        """Serve the pair in these files from now on, and return when it expires.

        Its renewal is due at `due`; None if only its validity is known. An unusable pair raises
        SSLError, OSError or ValueError, and changes nothing.
        """
        fresh = _create_context()
        fresh.load_cert_chain(certificate, key, password=_no_password)
        expires, usual = read_times(_handshake(fresh))
        if self.client_ca:
            fresh.load_verify_locations(cadata=client_ca.decode("ascii"))
            fresh.verify_mode = self._verify
        self._newest, self.expires = fresh, expires
        metrics.CERTIFICATE.set(expires)
        metrics.CERTIFICATE_RENEWAL.set(usual if due is None else due)
        metrics.CERTIFICATE_READS.add("success")
        log_event(_LOG, logging.INFO, "certificate in use", expires=format_time(expires))
        return expires

    def find_expiry(self, now: float) -> str:
        """Return that the certificate expired, or an empty string."""
        if self.expires is None or self.expires > now:
            return ""
        return f"the serving certificate expired at {format_time(self.expires)}"

    def _use_newest(
        self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext
    ) -> int | None:
        # Called for every handshake, also when the client names no server.
        if self.client_ca and connection.session_reused:
            # TLS 1.2 resumes without a ticket, too. OpenSSL forgets the session with the alert.
            return ssl.AlertDescription.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        if self._newest is not None:
            connection.context = self._newest
        return None


class ServingCertificate:
    """A certificate and its key in two files, reloaded when they change."""

    def __init__(
        self,
        certificate: str,
        key: str,
        client_ca: str = "",
        verify: ssl.VerifyMode = ssl.VerifyMode.CERT_REQUIRED,
    ) -> None:
        self._pair = certificate, key
        self._files = tuple(filter(None, (certificate, key, client_ca)))
        self._seen = b""
        self._served = ServingContext(client_ca, verify)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the listener, which always serves the newest certificate."""
        return self._served.context

    @property
    def expires(self) -> float | None:
        """When the certificate expires, in Unix time; None if there is none."""
        return self._served.expires

    def find_problem(self) -> str:
        """Return why there is no valid certificate, or an empty string."""
        if self.expires is None:
            return f"{NO_CERTIFICATE}: {self._pair[0]}"
        return self._served.find_expiry(time.time())

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
            self._served.use(*self._pair, *content[2:])
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = find_pair_problem(content[0], content[1], self._pair) or describe_error(error)
            return self._report_failure(digest, reason)
        self._seen = digest
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
            report_failure(reason, is_serving=self._served.is_serving, files=list(self._files))
        return False


def report_failure(reason: str, *, is_serving: bool, **fields: object) -> None:
    """Log and count a certificate that cannot be used."""
    metrics.CERTIFICATE_READS.add("error")
    instead = "the previous certificate stays in use" if is_serving else NO_CERTIFICATE
    text = "the certificate cannot be used"
    log_event(_LOG, logging.ERROR, text, reason=reason, instead=instead, **fields)


def describe_error(error: Exception) -> str:
    """Return the reason of an error of OpenSSL, or its text."""
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


def format_time(instant: float) -> str:
    """Format a Unix time in UTC."""
    return datetime.fromtimestamp(instant, UTC).isoformat(timespec="seconds")[:19] + "Z"


def _handshake(serving: ssl.SSLContext) -> bytes:
    """Verify the pair by a handshake in memory, and return the certificate in DER form."""
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
    return client.getpeercert(binary_form=True) or b""


def read_times(certificate: bytes) -> tuple[float, float]:
    """Return when a DER certificate expires and when it is usually renewed; raises ValueError."""
    read = x509.load_der_x509_certificate(certificate)
    expires = read.not_valid_after_utc.timestamp()
    third = (expires - read.not_valid_before_utc.timestamp()) / 3
    return expires, expires - min(third, _RENEWED_BEFORE)


_DER = serialization.Encoding.DER
_PUBLIC = serialization.PublicFormat.SubjectPublicKeyInfo


def find_pair_problem(certificate: bytes, key: bytes, names: tuple[str, str]) -> str:
    """Return the first problem of a pair, or an empty string; `names` are those of the parts."""
    try:
        served = x509.load_pem_x509_certificates(certificate)[0]
    except ValueError:
        return f"{names[0]} does not start with a readable certificate in PEM form"
    try:
        private = serialization.load_pem_private_key(key, None)
    except TypeError:
        return f"the private key in {names[1]} is encrypted; use a key without a password"
    except (ValueError, ImportError):
        return f"{names[1]} does not contain a readable private key in PEM form"
    if _encode(private.public_key()) != _encode(served.public_key()):
        return f"the private key in {names[1]} does not belong to the certificate in {names[0]}"
    return ""


def _encode(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(_DER, _PUBLIC)


_: type[CertificateSource] = ServingCertificate
