"""The serving certificate of a process: from files, from a Secret, or signed by the process."""

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry

from certs.issuing import read_leaf_secret
from certs.leaf import LEAF_LIFE, Leaf, find_renewal, names_of_service, needs_new_leaf, sign_leaf
from certs.watched_secret import WatchedAuthorities, WatchedSecret
from drawbridge.cluster.session import Session
from drawbridge.cluster.tls import open_in_memory
from drawbridge.names import ALLOCATOR_SECRET
from drawbridge.process import metrics
from drawbridge.process.tls import (
    NO_CERTIFICATE,
    CertificateSource,
    ServingCertificate,
    ServingContext,
    describe_error,
    report_failure,
)

# The wait for the next renewal; the clock of the API server may be corrected meanwhile.
_MIN_WAIT: Final = 0.2
_MAX_WAIT: Final = 60.0
_NOT_TRUSTED_YET: Final = (
    "the new CA does not sign yet, because the API servers may not know it; this takes some minutes"
)


class CertificateFiles(NamedTuple):
    """The files of a serving certificate and of its private key."""

    certificate: str
    key: str


class CertificateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The serving certificate of a process, and the CAs of its clients.

    Without files, the process signs a certificate itself, with the life in seconds; without a life,
    it reads the one that the leading controller signs for the allocator.
    """

    files: CertificateFiles | None
    leaf_life: float | None = None
    client_ca: str = ""


def make_certificate(
    options: CertificateOptions,
    session: Session,
    service: str,
    verify: ssl.VerifyMode = ssl.VerifyMode.CERT_REQUIRED,
) -> CertificateSource:
    """Return the certificate of a Service, from where the options say."""
    if options.files is not None:
        from_files = ServingCertificate(*options.files, options.client_ca, verify)
        from_files.refresh()
        return from_files
    if options.leaf_life is None:
        stored = WatchedSecret(session, ALLOCATOR_SECRET)
        return StoredCertificate(stored, options.client_ca, verify)
    secret = WatchedAuthorities(session)
    names = names_of_service(service, session.namespace)
    return SignedCertificate(secret, names, options.leaf_life, options.client_ca, verify)


def list_metrics(options: CertificateOptions) -> Sequence[CollectorRegistry]:
    """Return the metrics of a process with such a certificate."""
    signs = options.files is None and options.leaf_life is not None
    return (metrics.SERVING, *((metrics.AUTHORITIES,) if signs else ()))


class StoredCertificate:
    """A certificate that another process signs and keeps in a Secret.

    If the Secret is lost, the process continues with the certificate that it has.
    """

    def __init__(
        self,
        secret: WatchedSecret,
        client_ca: str = "",
        verify: ssl.VerifyMode = ssl.VerifyMode.CERT_REQUIRED,
    ) -> None:
        self._secret = secret
        self._served = ServingContext(client_ca, verify)
        self._client_ca = b""
        self._failure = ""
        self.leaf: Leaf | None = None
        self._life = LEAF_LIFE
        self._wake_up = asyncio.Event()
        secret.subscribe(self._wake_up.set)

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the listener, which always serves the newest certificate."""
        return self._served.context

    def find_problem(self) -> str:
        """Return why there is no valid certificate, or an empty string."""
        if self.leaf is None:
            return f"{NO_CERTIFICATE}: {self._failure or self._find_cause()}"
        return self._served.find_expiry(self._secret.now())

    def _find_cause(self) -> str:
        return self._secret.cache.problem or f"Secret {self._secret.name} does not exist"

    async def run(self) -> None:
        """Follow the Secret and renew the certificate until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._secret.cache.run())
            group.create_task(self._renew_in_time())

    async def _renew_in_time(self) -> None:
        while True:
            self._wake_up.clear()
            self.refresh()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._find_wait()):
                    await self._wake_up.wait()

    def _find_wait(self) -> float:
        return _MAX_WAIT

    def _find_leaf(self) -> Leaf | None:
        """Return the certificate to serve; raises ValueError if it is not readable."""
        live = self._secret.live
        return self.leaf if live is None else read_leaf_secret(live)

    def refresh(self) -> bool:
        """Return whether a new certificate, or a new CA of clients, is in use."""
        try:
            leaf, client_ca = self._find_leaf(), self._served.read_client_ca()
            if leaf is None or (leaf, client_ca) == (self.leaf, self._client_ca):
                return False
            with open_in_memory((leaf.certificate + leaf.key).encode()) as path:
                self._served.use(path, path, client_ca, due=find_renewal(leaf, self._life))
        except (ssl.SSLError, OSError, ValueError) as error:
            # Report each reason once. The next attempt follows within a minute.
            reason = describe_error(error)
            if reason != self._failure:
                self._failure = reason
                report_failure(reason, is_serving=self._served.is_serving)
            return False
        self.leaf, self._client_ca, self._failure = leaf, client_ca, ""
        return True


class SignedCertificate(StoredCertificate):
    """A certificate that this process signs in memory, and signs again in time.

    If the Secret of the CA is lost, the process continues with the CA that it remembers.
    """

    def __init__(
        self,
        secret: WatchedAuthorities,
        names: Sequence[str],
        life: float,
        client_ca: str = "",
        verify: ssl.VerifyMode = ssl.VerifyMode.CERT_REQUIRED,
    ) -> None:
        super().__init__(secret, client_ca, verify)
        self._authorities = secret
        self._names, self._life = names, life

    def _find_cause(self) -> str:
        if self._authorities.remembered.upcoming is not None:
            return _NOT_TRUSTED_YET
        return self._secret.cache.problem or self._authorities.reading.problem

    def _find_wait(self) -> float:
        if self.leaf is None:
            return _MAX_WAIT
        due = find_renewal(self.leaf, self._life)
        return min(max(due - self._secret.now(), _MIN_WAIT), _MAX_WAIT)

    def _find_leaf(self) -> Leaf | None:
        authority, now = self._authorities.remembered.current, self._secret.now()
        if authority is None or not needs_new_leaf(self.leaf, authority, now, self._life):
            return self.leaf
        return sign_leaf(authority, self._names, now, self._life)


_: type[CertificateSource] = StoredCertificate
