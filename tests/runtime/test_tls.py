"""The serving certificate changes under live connections, and a bad one changes nothing."""

import asyncio
import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import metrics
from runtime.tls import Certificate, not_after
from tests.runtime import http_client
from tests.runtime.http_client import request, review
from tests.runtime.key_pairs import DAY, NOW, Pair, pair, put, trusting
from tests.webhook.server.served import served


def der(one: Pair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(one.certificate.decode())


def test_new_connections_see_the_new_certificate_and_old_ones_go_on(tmp_path: Path) -> None:
    fresh = pair()

    async def play() -> None:
        async with served(tmp_path) as house, house.line() as old:
            assert (await old.ask(request(body=review("1")))).status == 200
            house.answering.go.clear()
            await old.send(request(body=review("2")))
            put(tmp_path, fresh)
            assert house.certificate.refresh()
            async with house.line(trust=fresh) as new:
                assert new.certificate() == der(fresh)
                house.answering.go.set()
                assert (await new.ask(request(body=review("3")))).status == 200
            assert (await old.answer()).json()["response"]["uid"] == "2"
            assert (await old.ask(request(body=review("4")))).status == 200
            assert old.certificate() == der(house.pair)

    asyncio.run(play())


def test_a_client_that_names_no_server_sees_the_new_certificate_too(tmp_path: Path) -> None:
    fresh = pair()

    async def play() -> bytes:
        async with served(tmp_path) as house:
            put(tmp_path, fresh)
            house.certificate.refresh()
            context = trusting(fresh)
            context.check_hostname = False
            # An address is never sent as a server name.
            async with http_client.line(house.gate.port, context, "127.0.0.1") as line:
                return line.certificate()

    assert asyncio.run(play()) == der(fresh)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_of_tls_are_spoken(version: ssl.TLSVersion, tmp_path: Path) -> None:
    async def play() -> int:
        async with served(tmp_path) as house:
            context = trusting(house.pair)
            context.minimum_version = context.maximum_version = version
            async with http_client.line(house.gate.port, context) as line:
                return (await line.ask(request(body=review()))).status

    assert asyncio.run(play()) == 200


def bad_key(folder: Path) -> None:
    (folder / "tls.key").write_bytes(pair().key)


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
def test_a_bad_pair_is_reported_once_and_the_last_good_one_serves(
    spoil: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with served(tmp_path) as house:
            caplog.clear()
            spoil(tmp_path)
            assert not house.certificate.refresh()
            assert not house.certificate.refresh()
            async with house.line() as line:
                assert line.certificate() == der(house.pair)
            assert house.certificate.missing() == ""

    asyncio.run(play())
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    fields = errors[0].fields  # type: ignore[attr-defined]
    assert fields["reason"]
    assert fields["instead"] == "the one before goes on"


def test_a_pair_that_is_put_right_is_taken(tmp_path: Path) -> None:
    one = pair()
    certificate = Certificate(*put(tmp_path, one))
    assert certificate.refresh()
    bad_key(tmp_path)
    assert not certificate.refresh()
    put(tmp_path, one)
    assert certificate.refresh()


def test_the_files_are_looked_at_while_the_process_runs(tmp_path: Path) -> None:
    fresh = pair()

    async def play() -> bytes:
        async with served(tmp_path) as house:
            running = asyncio.create_task(house.certificate.run(every=0))
            put(tmp_path, fresh)
            shown = b""
            while shown != der(fresh):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                async with http_client.line(house.gate.port, context) as line:
                    shown = line.certificate()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return shown

    assert asyncio.run(asyncio.wait_for(play(), 30)) == der(fresh)


def test_without_a_certificate_the_process_waits_and_says_so(tmp_path: Path) -> None:
    certificate = Certificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    assert not certificate.refresh()
    assert str(tmp_path / "tls.crt") in certificate.missing()
    put(tmp_path, pair())
    assert certificate.refresh()
    assert certificate.missing() == ""


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    one = pair()
    key = serialization.load_pem_private_key(one.key, None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    certificate = Certificate(*put(tmp_path, one._replace(key=locked)))
    assert not certificate.refresh()
    assert "encrypted" in str(caplog.records[-1].fields)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "end",
    [NOW + DAY, NOW.replace(year=2049), NOW.replace(year=2050, month=1, day=1), NOW - 30 * DAY],
)
def test_the_end_of_validity_is_read_and_told(end: dt.datetime, tmp_path: Path) -> None:
    one = pair(end)
    certificate = Certificate(*put(tmp_path, one))
    assert certificate.refresh()
    assert certificate.expires == one.end.timestamp() == not_after(der(one))
    shown = metrics.REGISTRY.get_sample_value("drawbridge_certificate_expiry_seconds")
    assert shown == one.end.timestamp()
    assert ("expired" in certificate.missing()) == (one.end < NOW)


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_a_certificate_cut_anywhere_is_an_error_of_its_own_kind(size: int) -> None:
    cut = der(PAIR)[:size]
    try:
        not_after(cut)
    except ValueError:
        return


PAIR = pair()


def test_handshakes_that_fail_disturb_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hostile = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 64,
        b"",
    ]

    async def play() -> int:
        async with served(tmp_path) as house:
            for data in hostile:
                async with http_client.line(house.gate.port) as line:
                    await line.send(data)
                    if data[:1] != b"\x16":
                        line.writer.write_eof()
                        assert await line.ended() or data
            other = trusting(pair())
            with pytest.raises(ssl.SSLCertVerificationError):
                async with http_client.line(house.gate.port, other):
                    pass
            return (await house.ask(request(body=review()))).status

    assert asyncio.run(play()) == 200
    assert not any(record.exc_info for record in caplog.records)
