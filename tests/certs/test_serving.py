"""A process signs its own certificate, and real clients that trust the CA accept it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from certs.authority import NONE, Authorities, Authority, create_authority, find_rotation
from certs.issuing import compose_leaf_secret
from certs.leaf import find_renewal, names_of_service, needs_new_leaf, sign_leaf
from certs.secret import SecretReading, compose_secret, read_secret
from certs.serving import SignedCertificate, StoredCertificate
from drawbridge.cluster.server_clock import ServerClock
from drawbridge.names import ALLOCATOR_SECRET
from drawbridge.process import metrics
from drawbridge.process.addresses import Address
from drawbridge.process.listener import TLSListener
from drawbridge.process.tls import ServingCertificate
from tests.certs.samples import DAY, LIFE, START, authorities, authority
from tests.process import http_client
from tests.process.http_client import request
from tests.process.key_pairs import KeyPair, create_pair, write_pair
from tests.tables import every_row

NAMES = names_of_service("drawbridge-webhook", "drawbridge-system")
HOST = "drawbridge-webhook.drawbridge-system.svc"


class FakeCache:
    """Has the parts of a cache that a certificate asks for."""

    problem = ""
    synced = True

    async def run(self) -> None:
        """Follow nothing."""


class FakeSecret:
    """A Secret that a test sets, with what a certificate needs of a watched one."""

    def __init__(self, held: Authorities, now: float) -> None:
        self.cache = FakeCache()
        self.remembered = held
        self.time = now
        self.value: dict[str, Any] | None = None
        self.listener: Callable[[], None] = lambda: None

    @property
    def reading(self) -> SecretReading:
        """Read what the test has set."""
        return read_secret(self.value)

    name = ALLOCATOR_SECRET

    @property
    def live(self) -> dict[str, Any] | None:
        """What the test has set."""
        return self.value

    def now(self) -> float:
        """Return the time that the test has set."""
        return self.time

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Remember the listener."""
        self.listener = listener


def make_signed(held: Authorities, client_ca: str = "") -> tuple[SignedCertificate, FakeSecret]:
    secret = FakeSecret(held, ServerClock().now())
    return SignedCertificate(secret, NAMES, DAY, client_ca), secret  # type: ignore[arg-type]


def make_stored(signer: Authority, client_ca: str = "") -> tuple[StoredCertificate, FakeSecret]:
    secret = FakeSecret(NONE, ServerClock().now())
    secret.value = compose_leaf_secret(sign_leaf(signer, NAMES, secret.time, DAY), None)
    return StoredCertificate(secret, client_ca), secret  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def listen(certificate: Any) -> AsyncIterator[int]:  # noqa: ANN401
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="ok")

    listener = TLSListener(Address("127.0.0.1", 0), certificate, handle)
    await listener.open()
    try:
        yield listener.port
    finally:
        await listener.close(1)


def trust(*signers: Authority) -> ssl.SSLContext:
    """Return the context of a client that trusts these, with all checks."""
    context = ssl.create_default_context(cadata="".join(each.certificate.pem for each in signers))
    context.verify_flags |= getattr(ssl, "VERIFY_X509_STRICT", 0)
    return context


async def send(port: int, context: ssl.SSLContext) -> int:
    async with http_client.connect(port, context, HOST) as connection:
        return (await connection.send_request(request("GET", "/"))).status


def fresh() -> Authority:
    return create_authority(ServerClock().now(), 10 * DAY)


def test_a_client_that_trusts_the_ca_accepts_the_certificate_and_another_does_not() -> None:
    signer, other = fresh(), fresh()
    signed, _ = make_signed(Authorities(signer, None, (signer.certificate,)))

    async def play() -> None:
        assert signed.refresh()
        async with listen(signed) as port:
            assert await send(port, trust(signer)) == 200
            assert await send(port, trust(other, signer)) == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await send(port, trust(other))
            with pytest.raises(ssl.SSLCertVerificationError):
                async with http_client.connect(port, trust(signer), "example.com"):
                    pass

    asyncio.run(play())


def test_a_promoted_ca_signs_for_new_connections_and_open_ones_continue() -> None:
    old, new = fresh(), fresh()
    signed, secret = make_signed(Authorities(old, new, (old.certificate, new.certificate)))

    async def play() -> None:
        running = asyncio.create_task(signed.run())
        while not signed.leaf:  # noqa: ASYNC110
            await asyncio.sleep(0)
        async with listen(signed) as port:
            async with http_client.connect(port, trust(old), HOST) as kept:
                assert (await kept.send_request(request("GET", "/"))).status == 200
                secret.remembered = Authorities(new, None, secret.remembered.trusted)
                secret.listener()
                while signed.leaf.issuer != new.certificate.pem:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                assert await send(port, trust(new)) == 200
                assert (await kept.send_request(request("GET", "/"))).status == 200
            with pytest.raises(ssl.SSLCertVerificationError):
                await send(port, trust(old))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(play(), 30))


def test_a_process_without_a_ca_says_what_it_waits_for() -> None:
    signed, secret = make_signed(NONE)
    assert not signed.refresh()
    assert "Secret drawbridge-ca does not exist" in signed.find_problem()
    secret.cache.problem = "403 Forbidden"
    assert "403 Forbidden" in signed.find_problem()
    secret.remembered = authorities(["-", "a"])
    assert "does not sign yet" in signed.find_problem()
    secret.value = {**compose_secret(authorities(["a"]), None), "data": {"password": "eA=="}}
    secret.value["metadata"] = {}
    secret.remembered, secret.cache.problem = NONE, ""
    assert "was not written by Drawbridge" in signed.find_problem()


def test_the_ca_that_is_remembered_signs_again_after_the_secret_is_lost() -> None:
    signer = fresh()
    signed, secret = make_signed(Authorities(signer, None, (signer.certificate,)))
    assert signed.refresh()
    first = signed.leaf
    assert first is not None
    secret.value = None
    secret.time = find_renewal(first, DAY)
    due = metrics.SERVING.get_sample_value("drawbridge_certificate_renewal_seconds")
    assert due == secret.time
    assert signed.refresh()
    assert signed.leaf is not None
    assert signed.leaf.not_after > first.not_after
    assert signed.find_problem() == ""
    secret.time += 20 * DAY
    assert not signed.refresh()
    assert "expired" in signed.find_problem()


def test_the_certificate_of_a_secret_is_served_and_stays_in_use_without_a_readable_one() -> None:
    old, new = fresh(), fresh()
    stored, secret = make_stored(old)
    whole, secret.value = secret.value, None

    async def play() -> None:
        assert not stored.refresh()
        assert "Secret drawbridge-allocator-tls does not exist" in stored.find_problem()
        secret.value = {"metadata": {}, "data": {"tls.key": "eA=="}}
        assert not stored.refresh()
        assert "Secret drawbridge-allocator-tls: tls.crt is missing" in stored.find_problem()
        secret.value = whole
        assert stored.refresh()
        assert stored.find_problem() == ""
        async with listen(stored) as port:
            for lost in (None, {"metadata": {}, "data": {"password": "eA=="}}):
                secret.value = lost
                assert not stored.refresh()
                assert await send(port, trust(old)) == 200
            secret.value = compose_leaf_secret(sign_leaf(new, NAMES, secret.time, DAY), None)
            assert stored.refresh()
            assert not stored.refresh()
            assert await send(port, trust(new)) == 200
        secret.time += 2 * DAY
        assert "expired" in stored.find_problem()

    asyncio.run(play())


def test_a_leaf_is_valid_within_its_ca_and_names_the_service() -> None:
    signer = authority("a")
    leaf = sign_leaf(signer, NAMES, START + 85 * DAY, 7 * DAY)
    read = x509.load_pem_x509_certificate(leaf.certificate.encode())
    assert read.not_valid_before_utc.timestamp() == signer.certificate.not_before
    assert read.not_valid_after_utc.timestamp() == signer.certificate.not_after
    names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "drawbridge-webhook.drawbridge-system.svc",
        "drawbridge-webhook.drawbridge-system",
        "drawbridge-webhook",
    ]
    usage = read.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not read.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


RENEWALS = [
    ("a", 0.0, False),
    ("a", 4.6, False),
    ("a", 4.7, True),  # two thirds of seven days
    ("a", -3.0, False),
    ("b", 0.0, True),
    ("b", -200.0, False),  # the CA is not valid yet
    ("b", 500.0, False),
]


@every_row(("letter", "days", "expected"), RENEWALS)
def test_a_leaf_is_renewed_after_two_thirds_or_with_another_ca(
    letter: str, days: float, *, expected: bool
) -> None:
    leaf = sign_leaf(authority("a"), NAMES, START, 7 * DAY)
    assert needs_new_leaf(leaf, authority(letter), START + days * DAY, 7 * DAY) is expected
    is_valid = authority(letter).certificate.is_valid(START + days * DAY)
    assert needs_new_leaf(None, authority(letter), START + days * DAY, 7 * DAY) is is_valid


def test_a_leaf_that_lives_as_long_as_its_ca_is_not_signed_again_and_again() -> None:
    leaf = sign_leaf(authority("a"), NAMES, START + 89 * DAY, 7 * DAY)
    assert not needs_new_leaf(leaf, authority("a"), START + 89.9 * DAY, 7 * DAY)


def test_a_leaf_is_due_with_its_ca_if_that_has_a_shorter_life() -> None:
    leaf = sign_leaf(authority("a"), NAMES, START, 2 * LIFE)
    assert find_renewal(leaf, 2 * LIFE) == find_rotation(authority("a").certificate)


# --- client certificates --------------------------------------------------------------------------


def present(signer: KeyPair | Authority, own: KeyPair, folder: Path) -> ssl.SSLContext:
    """Return a client context that trusts a server and presents a certificate."""
    pem = signer.certificate
    context = ssl.create_default_context(cadata=pem if isinstance(pem, str) else pem_of(pem))
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    folder.mkdir(exist_ok=True)
    context.load_cert_chain(*write_pair(folder, own))
    return context


def pem_of(certificate: Any) -> str:  # noqa: ANN401
    return certificate.decode() if isinstance(certificate, bytes) else certificate.pem


def make_verifying(source: str, clients: str, folder: Path) -> tuple[Any, Any]:
    """Return a certificate that verifies clients, and whom a client has to trust."""
    if source == "files":
        pair = create_pair()
        return ServingCertificate(*write_pair(folder, pair), clients), pair
    signer = fresh()
    if source == "stored":
        return make_stored(signer, clients)[0], signer
    return make_signed(Authorities(signer, None, (signer.certificate,)), clients)[0], signer


async def assert_refused(port: int, context: ssl.SSLContext) -> None:
    # In TLS 1.3 the client learns it with the first response.
    with pytest.raises((OSError, EOFError)):
        await send(port, context)


@pytest.mark.parametrize("source", ["signed", "stored", "files"])
def test_only_a_client_with_a_certificate_of_the_given_ca_is_accepted(
    source: str, tmp_path: Path
) -> None:
    trusted, unknown, later = create_pair(), create_pair(), create_pair()
    file = tmp_path / "clients.crt"
    file.write_bytes(trusted.certificate)
    certificate, signer = make_verifying(source, str(file), tmp_path)
    without = ssl.create_default_context(cadata=pem_of(signer.certificate))
    without.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    accepted = present(signer, trusted, tmp_path / "known")
    later_accepted = present(signer, later, tmp_path / "later")

    async def play() -> None:
        assert certificate.refresh()
        async with listen(certificate) as port:
            assert await send(port, accepted) == 200
            for context in (
                without,
                present(signer, unknown, tmp_path / "unknown"),
                later_accepted,
            ):
                await assert_refused(port, context)
            file.write_bytes(later.certificate)
            assert certificate.refresh()
            assert await send(port, later_accepted) == 200
            await assert_refused(port, accepted)
            file.write_bytes(b"garbage")
            assert not certificate.refresh()
            assert await send(port, later_accepted) == 200

    asyncio.run(asyncio.wait_for(play(), 30))
