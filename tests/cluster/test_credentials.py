"""Credentials from kubeconfigs and token files."""

import asyncio
import base64
import datetime as dt
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from drawbridge.api_error import ApiError
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.errors import AccessError, UnreachableError
from drawbridge.cluster.session import Session
from tests.cluster.certificates import Authority
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.plugins import config, plugin

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


def token_of(api: FakeApi) -> str:
    return api.requests[-1].headers["Authorization"]


async def asked(credentials: Credentials) -> str:
    async with Session(credentials, pause=Clock().pause) as session:
        return await session.version()


async def test_a_user_without_a_home_has_no_default_kubeconfig(tmp_path: Path) -> None:
    """A process of its own, because it changes `pwd`."""
    program = f"""
import asyncio, os, pathlib, pwd
def no_user(number): raise KeyError(number)
del os.environ["HOME"]
pwd.getpwuid = no_user
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.errors import AccessError
folder = pathlib.Path({str(tmp_path)!r})
def read(environ, kubeconfig=None):
    return asyncio.run(
        Credentials(kubeconfig, service_account=folder, environ=environ).access()
    )
for kubeconfig in (None, "~/config", "~nobody-has-this-name/config"):
    try:
        read({{}}, kubeconfig)
    except AccessError as error:
        print("does not exist" in str(error))
"""
    environ = {"HOME": "/nowhere", "PYTHONPATH": f"{Path.cwd()}"}
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program), env=environ, stdout=PIPE, stderr=PIPE
    )
    assert await started.communicate() == (b"True\n" * 3, b"")


# --- kubeconfigs -------------------------------------------------------------------------------


async def test_the_namespace_comes_from_the_context(api: FakeApi, tmp_path: Path) -> None:
    path = config(tmp_path / "config", api.url, {"token": "secret"})
    async with await Session.open(path) as usual, await Session.open(path, "other") as other:
        assert (usual.namespace, other.namespace) == ("default", "mine")
        await usual.version()

    assert token_of(api) == "Bearer secret"


async def test_several_kubeconfig_files_are_merged(api: FakeApi, tmp_path: Path) -> None:
    first = config(tmp_path / "one", api.url, {"token": "one"})
    second = config(tmp_path / "two", "http://127.0.0.1:1", {"token": "two"})
    environ = {"KUBECONFIG": f"{tmp_path / 'none'}::{first}:{second}:{first}"}
    await asked(Credentials(environ=environ))

    assert token_of(api) == "Bearer one"


UNUSABLE_KUBECONFIGS = [
    (None, "does not exist"),
    ("{", "config:1: "),
    ("[]", "Expected `object`, got `array`"),
    ('{"current-context": "x", "contexts": []}', "context 'x' does not exist"),
    ("folder", "Is a directory"),
]


@pytest.mark.parametrize(("content", "said"), UNUSABLE_KUBECONFIGS)
async def test_an_unusable_kubeconfig_is_named(
    tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "config"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(AccessError) as caught:
        await Session.open(str(path))

    assert said in str(caught.value)
    assert str(path) in str(caught.value)


async def test_an_unknown_context_is_named(api: FakeApi, tmp_path: Path) -> None:
    path = config(tmp_path / "config", api.url, {})
    with pytest.raises(AccessError, match="nowhere"):
        await Session.open(path, "nowhere")


SERVERS = [
    ("127.0.0.1:6443", "http://127.0.0.1:6443"),
    ("localhost:8080/", "http://localhost:8080"),
    ("HTTPS://[::1]:6443/a/", "https://[::1]:6443/a"),
    ("127.0.0.1/clusters/7", None),
    ("ftp://127.0.0.1", None),
    ("https://", None),
    ("https://a:port", None),
]


@pytest.mark.parametrize(("server", "read"), SERVERS)
async def test_a_server_is_read_as_client_go_reads_it(
    tmp_path: Path, server: str, read: str | None
) -> None:
    credentials = Credentials(config(tmp_path / "config", server, {}), environ={})
    if read is not None:
        assert (await credentials.access()).server == read
        return
    with pytest.raises(AccessError, match="is not a URL"):
        await credentials.access()


@pytest.mark.parametrize("host", ["127.0.0.1:6443", "127.0.0.1:0"])
async def test_a_user_in_the_url_of_a_server_is_refused_without_its_password(
    tmp_path: Path, host: str
) -> None:
    path = config(tmp_path / "config", f"https://jane:secret@{host}", {})
    with pytest.raises(AccessError, match="server has a user in its URL") as caught:
        await Credentials(path, environ={}).access()
    assert "secret" not in str(caught.value)


async def test_a_token_is_not_sent_where_others_can_read_it(tmp_path: Path) -> None:
    proxied = {"proxy-url": "http://192.0.2.1:3128"}
    for server, cluster in (("http://192.0.2.1", {}), ("http://127.0.0.1:1", proxied)):
        for user in ({"token": "secret", "as": "jane"}, {"username": "jane", "as": "jane"}):
            path = config(tmp_path / "config", server, user, **cluster)
            access = await Credentials(path, environ={}).access()
            assert access.headers == {"Impersonate-User": "jane"}


async def test_a_path_in_the_server_address_is_kept(api: FakeApi, tmp_path: Path) -> None:
    path = config(tmp_path / "config", f"{api.url}/clusters/7/", {})
    async with await Session.open(path) as session:
        with pytest.raises(ApiError):
            await session.version()

    assert api.requests[-1].path == "/clusters/7/version"


async def test_impersonation_fields_become_headers(api: FakeApi, tmp_path: Path) -> None:
    await asked(Credentials(config(tmp_path / "config", api.url, {"as": "jane", "as-uid": "7"})))
    assert api.requests[-1].headers["Impersonate-User"] == "jane"
    assert api.requests[-1].headers["Impersonate-Uid"] == "7"


UNUSABLE_USERS = [
    ({"as": "jane", "as-groups": ["a"]}, "as-groups"),
    ({"as-uid": "7"}, "as-uid needs as"),
    ({"token": "a", "username": "b"}, "a token and a username"),
    ({"exec": {}, "auth-provider": {"name": "oidc"}}, "exec and auth-provider"),
    ({"client-certificate": "a", "client-certificate-data": "YQ=="}, "are both set"),
    ({"client-certificate": "none.crt"}, "cannot read client-certificate /.*/none.crt: No such"),
    ({"client-certificate-data": "YQ=="}, "without its client-key"),
    ({"client-certificate-data": "%"}, "client-certificate-data is not valid base64"),
    ({"client-certificate-data": "YQ==", "client-key-data": "YQ=="}, "cannot load the client cert"),
    ({"tokenFile": "empty"}, "tokenFile /.*/empty is empty"),
    ({"tokenFile": "binary"}, "tokenFile /.*/binary is not UTF-8"),
    ({"auth-provider": {"name": "gcp"}}, "no auth-provider 'gcp' any more; use an exec plug-in"),
    ({"auth-provider": {"name": "oidc", "config": {"id-token": "x"}}}, "no usable id-token"),
]


@pytest.mark.parametrize(("user", "said"), UNUSABLE_USERS)
async def test_an_unusable_user_is_explained(
    tmp_path: Path, user: dict[str, Any], said: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    path = config(tmp_path / "config", "https://127.0.0.1:1", user)
    with pytest.raises(AccessError, match=f"^kubeconfig {path}: .*{said}"):
        await Credentials(path).access()


USERS = [
    ({}, None),
    ({"username": "jane", "password": "ü"}, "Basic amFuZTrDvA=="),
    ({"password": "alone"}, None),
    ({"token": "stale", "tokenFile": "fresh"}, "Bearer fresh"),
    ({"token": "instead", "tokenFile": "none"}, "Bearer instead"),
    ({"token": "static", "exec": {"command": "not run"}}, "Bearer static"),
    ({"client-certificate-data": "", "client-key-data": ""}, None),
]


@pytest.mark.parametrize(("user", "authorization"), USERS)
async def test_a_user_sends_what_kubectl_sends(
    tmp_path: Path, user: dict[str, Any], authorization: str | None
) -> None:
    (tmp_path / "fresh").write_text("fresh\n")
    path = config(tmp_path / "config", "https://127.0.0.1:1", user)
    access = await Credentials(path).access()
    assert access.headers.get("Authorization") == authorization


async def test_an_id_token_is_used_until_it_expires(tmp_path: Path) -> None:
    def of(seconds: float) -> Credentials:
        ends = dt.datetime.now(dt.UTC).timestamp() + seconds
        claims = base64.urlsafe_b64encode(json.dumps({"exp": ends}).encode()).decode().rstrip("=")
        provider = {"name": "oidc", "config": {"id-token": f"a.{claims}.c"}}
        path = config(tmp_path / "config", "https://127.0.0.1:1", {"auth-provider": provider})
        return Credentials(path, now=Clock().now)

    access = await of(600).access()
    assert access.headers["Authorization"].startswith("Bearer a.")
    assert 530 < access.renew_at - Clock().now() < 541
    with pytest.raises(AccessError, match=r"expired at .*; use an exec plug-in"):
        await of(-1).access()


@pytest.mark.parametrize("user", [{"token": "a\x07b"}, {"as": "jane\r\nX: y"}])
async def test_no_control_character_gets_into_a_header(
    api: FakeApi, tmp_path: Path, user: dict[str, str]
) -> None:
    with pytest.raises(AccessError, match="control character"):
        await Session.open(config(tmp_path / "config", api.url, user))


async def test_a_proxy_of_the_kubeconfig_is_used(api: FakeApi, tmp_path: Path) -> None:
    # A request to a proxy has the full URL; the fake ignores the host.
    path = config(tmp_path / "config", "http://cluster.invalid", {}, **{"proxy-url": api.url})

    assert await asked(Credentials(path)) == "1.36"
    assert api.requests[-1].headers["Host"] == "cluster.invalid"


@pytest.mark.parametrize(
    ("proxy", "shown"),
    [
        ("socks5://jane:secret@proxy:1080", "socks5://proxy:1080"),
        ("socks5h://proxy:1080", "socks5h://proxy:1080"),
        ("http://jane:secret@:3128", "http://:3128"),
        ("http://jane:se/cret@proxy:3128", "http://proxy:3128"),
        ("http://proxy:port", "http://proxy:port"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_named_without_its_credentials(
    tmp_path: Path, proxy: str, shown: str
) -> None:
    server = "https://cluster.invalid"
    named = config(tmp_path / "named", server, {}, **{"proxy-url": proxy})
    plain = config(tmp_path / "plain", server, {})
    for name, credentials in {
        "proxy-url": Credentials(named, environ={}),
        "HTTPS_PROXY": Credentials(plain, environ={"HTTPS_PROXY": proxy}),
        "https_proxy": Credentials(plain, environ={"https_proxy": proxy}),
    }.items():
        with pytest.raises(AccessError) as caught:
            await credentials.access()
        text = f"{name}: cannot use the proxy '{shown}': set the URL of an HTTP proxy"
        assert text in str(caught.value)


async def test_a_proxy_url_without_a_scheme_is_refused(tmp_path: Path) -> None:
    for proxy in ("proxy:3128", "jane:secret@proxy:3128"):
        path = config(tmp_path / "config", "http://cluster.invalid", {}, **{"proxy-url": proxy})
        with pytest.raises(AccessError, match="proxy-url: cannot use the proxy") as caught:
            await Credentials(path, environ={}).access()
        assert "secret" not in str(caught.value)


async def test_a_proxy_of_the_environment_is_used(api: FakeApi, tmp_path: Path) -> None:
    path = config(tmp_path / "config", "http://cluster.invalid", {})

    assert await asked(Credentials(path, environ={"http_proxy": api.url})) == "1.36"


# --- token renewal -----------------------------------------------------------------------------


async def test_a_rejected_token_is_read_again_once(api: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    path = config(tmp_path / "config", api.url, {"tokenFile": str(file)})
    api.tokens = {"first"}
    async with await Session.open(path) as session:
        assert await session.version()
        file.write_text("second\n")
        api.tokens = {"second"}
        assert await session.version()
        file.write_text("third\n")
        api.tokens = {"third"}
        async with session.stream("/api/v1/pods", query={"watch": "true"}):
            pass
        api.tokens = set()
        before = len(api.requests)
        with pytest.raises(ApiError, match="401 Unauthorized"):
            await session.version()
        assert len(api.requests) == before + 2


async def test_a_token_file_is_read_again_after_a_minute(api: FakeApi, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    clock = Clock()
    path = config(tmp_path / "config", api.url, {"tokenFile": str(file)})
    async with Session(Credentials(path, now=clock.now)) as session:
        tokens = []
        for later in (0, 59, 2):
            clock.time += later
            await session.version()
            tokens.append(token_of(api))
            file.write_text("second")

    assert tokens == ["Bearer first", "Bearer first", "Bearer second"]


async def test_an_unreadable_token_file_keeps_the_last_token(
    api: FakeApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    clock = Clock()
    path = config(tmp_path / "config", api.url, {"tokenFile": str(file)})
    async with Session(Credentials(path, now=clock.now)) as session:
        await session.version()
        file.unlink()
        clock.time += 61
        assert await session.version()
        api.tokens = set()
        with pytest.raises(UnreachableError, match=r"credentials: .*token") as refused:
            await session.version()
    assert refused.value.is_outage  # what fails for it needs no line
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert line.getMessage().startswith("the credentials cannot be read again: ")


async def test_concurrent_rejections_read_the_token_once(api: FakeApi, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    path = config(
        tmp_path / "config", api.url, plugin(tmp_path, f"open({str(runs)!r},'a').write('x')")
    )
    async with await Session.open(path) as session:
        await session.version()
        api.fail(401, times=5)
        await asyncio.gather(*(session.version() for _ in range(5)))

    assert runs.read_text() == "xx"


# --- certificates ------------------------------------------------------------------------------


async def test_the_server_certificate_must_match_the_ca_of_the_kubeconfig(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    (tmp_path / "else").mkdir()
    other = Authority(tmp_path / "else")
    async with FakeApi(tls=authority.server()) as api:

        def of(**cluster: object) -> Credentials:
            return Credentials(config(tmp_path / "config", api.url, {}, **cluster))

        assert await asked(of(**{"certificate-authority": str(authority.file)})) == "1.36"
        assert await asked(of(**{"insecure-skip-tls-verify": True})) == "1.36"
        clock, wrong = Clock(), of(**{"certificate-authority": str(other.file)})
        async with Session(wrong, pause=clock.pause) as session:
            with pytest.raises(UnreachableError, match="is not trusted: "):
                await session.version()
        assert clock.pauses == [], "what cannot get better is not tried again"


async def test_the_certificate_of_the_server_is_a_ca_file(tmp_path: Path) -> None:
    """Its CA is in no file, as that of an intermediate CA."""
    async with FakeApi(tls=Authority(tmp_path).server()) as api:
        trusted = {"certificate-authority": "127.0.0.1.crt"}
        assert await asked(Credentials(config(tmp_path / "config", api.url, {}, **trusted)))


async def test_tls_server_name_overrides_the_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with FakeApi(tls=authority.server("api.example.com")) as api:
        trusted = {"certificate-authority": str(authority.file)}
        with pytest.raises(UnreachableError):
            await asked(Credentials(config(tmp_path / "config", api.url, {}, **trusted)))
        named = {**trusted, "tls-server-name": "api.example.com"}
        assert await asked(Credentials(config(tmp_path / "config", api.url, {}, **named)))


async def test_unchanged_certificates_keep_connections(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    trusted = {"certificate-authority": str(authority.file)}
    credentials = Credentials(config(tmp_path / "config", "https://127.0.0.1:1", {}, **trusted))
    first = await credentials.access()
    second = await credentials.renew(first)
    Authority(tmp_path)
    third = await credentials.renew(second)

    assert first.tls is second.tls
    assert third.tls is not second.tls


async def test_a_client_certificate_is_sent(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with FakeApi(tls=authority.server(asks=True)) as api:
        trusted = {"certificate-authority": str(authority.file)}
        public, private = authority.signed("me")
        user = {"client-certificate": str(public), "client-key": str(private)}
        assert await asked(Credentials(config(tmp_path / "config", api.url, user, **trusted)))
        with pytest.raises(UnreachableError):
            await asked(Credentials(config(tmp_path / "config", api.url, {}, **trusted)))


@pytest.mark.parametrize("has_proc", [True, False])
async def test_no_file_with_a_key_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_proc: bool
) -> None:
    authority = Authority(tmp_path)
    public, private = authority.signed("me")
    user = {
        "client-certificate-data": base64.b64encode(public.read_bytes()).decode(),
        "client-key-data": base64.b64encode(private.read_bytes()).decode(),
    }
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    if has_proc:
        monkeypatch.setattr("tempfile.NamedTemporaryFile", None)
    else:
        monkeypatch.setattr("drawbridge.cluster.tls._DESCRIPTORS", tmp_path / "none")
    async with FakeApi(tls=authority.server(asks=True)) as api:
        trusted = {"certificate-authority": str(authority.file)}
        credentials = Credentials(config(tmp_path / "config", api.url, user, **trusted))
        assert await asked(credentials) == "1.36"
        assert not [*(tmp_path / "tmp").iterdir()]
    access = await credentials.access()
    assert access.client_certificate == (public.read_bytes(), private.read_bytes())
    assert "PRIVATE KEY" not in repr(access.client_certificate)


CAS = [
    ({"certificate-authority-data": "", "certificate-authority": "ca.crt"}, None),
    ({"certificate-authority-data": "%%"}, "certificate-authority-data is not valid base64"),
    ({"certificate-authority-data": "aGVsbG8="}, "the CA: it is no certificate in PEM form"),
    ({"certificate-authority": "empty"}, "the CA: it is empty"),
    ({"certificate-authority": "none"}, "cannot read certificate-authority /.*/none: No such file"),
    ({"certificate-authority": "ca.crt", "insecure-skip-tls-verify": True}, "are both set"),
    ({"certificate-authority": "ca.crt", "certificate-authority-data": "YQ=="}, "are both set"),
]


@pytest.mark.parametrize(("cluster", "said"), CAS)
async def test_an_unusable_ca_is_explained(
    tmp_path: Path, cluster: dict[str, Any], said: str | None
) -> None:
    authority = Authority(tmp_path)
    authority.file.write_bytes("# Größe\n".encode() + authority.file.read_bytes())
    (tmp_path / "empty").write_text("")
    credentials = Credentials(config(tmp_path / "config", "https://127.0.0.1:1", {}, **cluster))
    if said is None:
        access = await credentials.access()
        assert access.tls is not None
        assert len(access.tls.get_ca_certs()) == 1
        return
    with pytest.raises(AccessError, match=said):
        await credentials.access()
