"""The serving certificate is reloaded, and an invalid one is not used."""

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.process import metrics
from drawbridge.process.tls import ServingCertificate, read_times
from tests.process import http_client
from tests.process.http_client import request, review
from tests.process.key_pairs import (
    DAY,
    NOW,
    KeyPair,
    create_client_context,
    create_pair,
    write_pair,
)
from tests.tables import every_row
from tests.webhook.server.served import serve


def der(pair: KeyPair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


def test_new_connections_get_the_new_certificate_and_old_ones_continue(tmp_path: Path) -> None:
    fresh = create_pair()

    async def play() -> None:
        async with serve(tmp_path) as server, server.connect() as old:
            assert (await old.send_request(request(body=review("1")))).status == 200
            server.reviews.unblocked.clear()
            await old.send(request(body=review("2")))
            write_pair(tmp_path, fresh)
            assert server.certificate.refresh()
            async with server.connect(trust=fresh) as new:
                assert new.read_certificate() == der(fresh)
                server.reviews.unblocked.set()
                assert (await new.send_request(request(body=review("3")))).status == 200
            assert (await old.read_response()).json()["response"]["uid"] == "2"
            assert (await old.send_request(request(body=review("4")))).status == 200
            assert old.read_certificate() == der(server.pair)

    asyncio.run(play())


def test_a_client_without_a_server_name_gets_the_new_certificate(tmp_path: Path) -> None:
    fresh = create_pair()

    async def play() -> bytes:
        async with serve(tmp_path) as server:
            write_pair(tmp_path, fresh)
            server.certificate.refresh()
            context = create_client_context(fresh)
            context.check_hostname = False
            # Clients never send an IP address as the server name.
            async with http_client.connect(
                server.listener.port, context, "127.0.0.1"
            ) as connection:
                return connection.read_certificate()

    assert asyncio.run(play()) == der(fresh)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_supported(version: ssl.TLSVersion, tmp_path: Path) -> None:
    async def play() -> int:
        async with serve(tmp_path) as server:
            context = create_client_context(server.pair)
            context.minimum_version = context.maximum_version = version
            async with http_client.connect(server.listener.port, context) as connection:
                return (await connection.send_request(request(body=review()))).status

    assert asyncio.run(play()) == 200


def bad_key(folder: Path) -> None:
    (folder / "tls.key").write_bytes(create_pair().key)


def half_written(folder: Path) -> None:
    content = (folder / "tls.crt").read_bytes()
    (folder / "tls.crt").write_bytes(content[: len(content) // 2])


def empty(folder: Path) -> None:
    (folder / "tls.crt").write_bytes(b"")


def gone(folder: Path) -> None:
    (folder / "tls.crt").unlink()


def a_folder(folder: Path) -> None:
    (folder / "tls.key").unlink()
    (folder / "tls.key").mkdir()


@pytest.mark.parametrize("spoil", [bad_key, half_written, empty, gone, a_folder])
def test_an_invalid_pair_is_logged_once_and_the_last_valid_one_is_served(
    spoil: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with serve(tmp_path) as server:
            caplog.clear()
            spoil(tmp_path)
            assert not server.certificate.refresh()
            assert not server.certificate.refresh()
            async with server.connect() as connection:
                assert connection.read_certificate() == der(server.pair)
            assert server.certificate.find_problem() == ""

    asyncio.run(play())
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    fields = errors[0].fields  # type: ignore[attr-defined]
    assert fields["reason"]
    assert fields["instead"] == "the previous certificate stays in use"


REASONS = {
    bad_key: "the private key in {key} does not belong to the certificate in {crt}",
    half_written: "{crt} does not start with a readable certificate in PEM form",
    empty: "{crt} does not start with a readable certificate in PEM form",
    gone: "No such file or directory: {crt}",
}


@pytest.mark.parametrize(("spoil", "reason"), REASONS.items(), ids=["key", "half", "empty", "gone"])
def test_the_reason_names_the_file_in_words(
    spoil: Callable[[Path], None], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = write_pair(tmp_path, create_pair())
    spoil(tmp_path)
    assert not ServingCertificate(*files).refresh()
    expected = reason.format(crt=files[0], key=files[1])
    assert caplog.records[-1].fields["reason"] == expected  # type: ignore[attr-defined]


def test_a_corrected_pair_is_loaded(tmp_path: Path) -> None:
    pair = create_pair()
    certificate = ServingCertificate(*write_pair(tmp_path, pair))
    assert certificate.refresh()
    bad_key(tmp_path)
    assert not certificate.refresh()
    write_pair(tmp_path, pair)
    assert certificate.refresh()


def test_the_files_are_polled(tmp_path: Path) -> None:
    fresh = create_pair()

    async def play() -> bytes:
        async with serve(tmp_path) as server:
            running = asyncio.create_task(server.certificate.run(interval=0))
            write_pair(tmp_path, fresh)
            shown = b""
            while shown != der(fresh):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                async with http_client.connect(server.listener.port, context) as connection:
                    shown = connection.read_certificate()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return shown

    assert asyncio.run(asyncio.wait_for(play(), 30)) == der(fresh)


def test_a_missing_certificate_is_reported_until_it_exists(tmp_path: Path) -> None:
    certificate = ServingCertificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    assert not certificate.refresh()
    assert str(tmp_path / "tls.crt") in certificate.find_problem()
    write_pair(tmp_path, create_pair())
    assert certificate.refresh()
    assert certificate.find_problem() == ""


def test_an_encrypted_key_is_rejected_without_a_password_prompt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    pair = create_pair()
    key = serialization.load_pem_private_key(pair.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    certificate = ServingCertificate(*write_pair(tmp_path, pair._replace(key=locked)))
    assert not certificate.refresh()
    assert "encrypted" in str(caplog.records[-1].fields)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("end", "hours"),
    [
        (NOW + DAY, 16),  # a third of two days
        (NOW.replace(year=2049), 48),
        (NOW.replace(year=2050, month=1, day=1), 48),
        (NOW - 30 * DAY, 8),
    ],
)
def test_the_end_of_validity_is_read_and_exported_and_when_it_is_usually_renewed(
    end: dt.datetime, hours: int, tmp_path: Path
) -> None:
    pair = create_pair(end)
    certificate = ServingCertificate(*write_pair(tmp_path, pair))
    assert certificate.refresh()
    assert certificate.expires == pair.end.timestamp() == read_times(der(pair))[0]
    shown = metrics.SERVING.get_sample_value("drawbridge_certificate_expiry_seconds")
    assert shown == pair.end.timestamp()
    due = metrics.SERVING.get_sample_value("drawbridge_certificate_renewal_seconds")
    assert due == pair.end.timestamp() - hours * 3600
    assert ("expired" in certificate.find_problem()) == (pair.end < NOW)


@every_row("size", range(0, 400, 7))
def test_a_truncated_certificate_raises_a_value_error(size: int) -> None:
    cut = der(PAIR)[:size]
    try:
        read_times(cut)
    except ValueError:
        return


PAIR = create_pair()


def test_failed_handshakes_do_not_affect_other_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 64,
        b"",
    ]

    async def play() -> int:
        async with serve(tmp_path) as server:
            for data in hostile:
                async with http_client.connect(server.listener.port) as connection:
                    await connection.send(data)
                    if data[:1] != b"\x16":
                        connection.writer.write_eof()
                        assert await connection.wait_closed() or data
            other = create_client_context(create_pair())
            with pytest.raises(ssl.SSLCertVerificationError):
                async with http_client.connect(server.listener.port, other):
                    pass
            return (await server.send(request(body=review()))).status

    assert asyncio.run(play()) == 200
    assert not any(record.exc_info for record in caplog.records)
