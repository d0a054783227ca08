"""Credentials in a pod: from its service account, or from a kubeconfig."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.session import Session
from tests.cluster.certificates import Authority
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.plugins import config

pytestmark = pytest.mark.asyncio


async def test_a_pod_uses_its_service_account_and_renews_the_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "token").write_text("first\n")
    (tmp_path / "namespace").write_text("drawbridge-system\n")
    clock = Clock()
    async with FakeApi(tls=authority.server()) as api:
        where = urlsplit(api.url)
        environ = {
            "KUBERNETES_SERVICE_HOST": f"{where.hostname}",
            "KUBERNETES_SERVICE_PORT": f"{where.port}",
        }
        credentials = Credentials(service_account=tmp_path, environ=environ, now=clock.now)
        async with Session(credentials) as session:
            await session.version()
            assert session.namespace == "drawbridge-system"
            (tmp_path / "token").write_text("second\n")
            clock.time += 61
            await session.version()

    assert [seen.headers["Authorization"] for seen in api.requests] == [
        "Bearer first",
        "Bearer second",
    ]


UNUSABLE = [
    ("token", b""),
    ("token", b"\n"),
    ("token", b"\xff\xfe"),
    ("token", b"on\ne"),
    ("token", b"on\0e"),
    ("ca.crt", b""),
    ("ca.crt", b"\xff"),
    ("ca.crt", b"-----BEGIN CERTIFICATE-----\nMIIB"),
    ("namespace", b"\xff"),
    ("namespace", b"\n"),
]


@pytest.mark.parametrize(("name", "content"), UNUSABLE)
async def test_unusable_files_of_a_service_account_keep_the_last_credentials(
    tmp_path: Path, name: str, content: bytes
) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "token").write_text("first")
    (tmp_path / "namespace").write_text("drawbridge-system")
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    assert authority.file == tmp_path / "ca.crt"
    clock = Clock()
    credentials = Credentials(service_account=tmp_path, environ=environ, now=clock.now)
    access = await credentials.access()
    (tmp_path / name).write_bytes(content)
    clock.time += 61
    assert await credentials.access() is access
    assert credentials.namespace == "drawbridge-system"
    with pytest.raises(AccessError):
        await Credentials(service_account=tmp_path, environ=environ).access()


@pytest.mark.parametrize(("host", "port"), [("[fd00::1]", "443"), ("192.0.2.1", "none")])
async def test_an_unusable_address_in_the_environment_is_explained(
    tmp_path: Path, host: str, port: str
) -> None:
    Authority(tmp_path)
    for name in ("token", "namespace"):
        (tmp_path / name).write_text(name)
    environ = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "HTTPS_PROXY": "http://proxy:3128",
    }
    credentials = Credentials(prefers_pod=True, service_account=tmp_path, environ=environ)
    with pytest.raises(AccessError, match="cannot use the service account in"):
        await credentials.access()


async def test_a_service_account_that_may_not_be_searched_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", f"{path}")

    monkeypatch.setattr(Path, "is_file", deny)
    environ = {
        "KUBERNETES_SERVICE_HOST": "192.0.2.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBECONFIG": config(tmp_path / "file", "https://127.0.0.1:1", {}),
    }
    access = await Credentials(service_account=tmp_path, environ=environ).access()
    assert access.server == "https://127.0.0.1:1"


OF_POD, OF_FILE = "https://192.0.2.1:443", "https://127.0.0.1:1"
SOURCES = [
    # KUBECONFIG, whether there is ~/.kube/config, the arguments, the server
    ("none", "", {}, OF_POD),
    ("none", "", {"prefers_pod": True}, OF_POD),
    ("none:file", "", {}, OF_FILE),
    ("empty", "", {}, OF_POD),
    ("empty", "", {"kubeconfig": "file"}, OF_FILE),
    ("", "file", {}, OF_FILE),
    ("empty", "file", {}, OF_POD),
    ("file", "", {"prefers_pod": True}, OF_POD),
    ("", "file", {"prefers_pod": True}, OF_POD),
    ("file", "", {"prefers_pod": True, "context": "other"}, OF_FILE),
    ("", "", {"prefers_pod": True, "kubeconfig": "file"}, OF_FILE),
    ("", "", {"context": "other"}, None),
    ("", "", {"kubeconfig": "none"}, None),
    ("", "", {"prefers_pod": True, "kubeconfig": "none"}, None),
]


@pytest.mark.parametrize(("named", "home", "given", "server"), SOURCES)
async def test_a_pod_is_used_where_there_is_no_kubeconfig(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    named: str,
    home: str,
    given: dict[str, Any],
    server: str | None,
) -> None:
    Authority(tmp_path)
    for name, text in {"token": "of-the-pod", "namespace": "ci", "empty": ""}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / ".kube").mkdir()
    config(tmp_path / ".kube/config" if home else tmp_path / "file", OF_FILE, {})
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = {
        "KUBERNETES_SERVICE_HOST": "192.0.2.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBECONFIG": ":".join(f"{tmp_path / each}" for each in named.split(":") if each),
    }
    if "kubeconfig" in given:
        given = {**given, "kubeconfig": str(tmp_path / given["kubeconfig"])}
    credentials = Credentials(service_account=tmp_path, environ=environ, **given)
    if server is None:
        with pytest.raises(AccessError, match="does not exist"):
            await credentials.access()
        return
    assert (await credentials.access()).server == server
    if server == OF_POD:
        assert credentials.namespace == "ci"


@pytest.mark.parametrize(("missing", "server"), [("token", OF_POD), ("file", OF_FILE)])
async def test_a_file_that_is_missing_for_a_moment_does_not_change_the_cluster(
    tmp_path: Path, missing: str, server: str
) -> None:
    Authority(tmp_path)
    for name in ("token", "namespace"):
        (tmp_path / name).write_text(name)
    (tmp_path / "of-the-user").write_text("a")
    config(tmp_path / "file", OF_FILE, {"tokenFile": "of-the-user"})
    environ = {
        "KUBERNETES_SERVICE_HOST": "192.0.2.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBECONFIG": str(tmp_path / "file"),
    }
    clock = Clock()
    credentials = Credentials(
        prefers_pod=server == OF_POD, service_account=tmp_path, environ=environ, now=clock.now
    )
    access = await credentials.access()
    assert access.server == server
    content = (tmp_path / missing).read_bytes()
    (tmp_path / missing).unlink()
    clock.time += 61
    assert await credentials.access() is access
    (tmp_path / missing).write_bytes(content)
    clock.time += 61
    renewed = await credentials.access()
    assert (renewed.server, renewed is access) == (server, False)
