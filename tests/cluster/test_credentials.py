"""Credentials from kubeconfigs, plug-ins, token files and the service account of a pod."""

import asyncio
import datetime as dt
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from drawbridge.api_error import ApiError
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.errors import AccessError, UnreachableError
from drawbridge.cluster.session import Session
from tests.cluster.certificates import Authority
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


def config(path: Path, url: str, user: dict[str, Any], **cluster: object) -> str:
    """Write a kubeconfig with two contexts."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "usual",
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [
            {"name": "usual", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c", "user": "u", "namespace": "mine"}},
        ],
    }
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def token_of(api: FakeApi) -> str:
    return api.requests[-1].headers["Authorization"]


async def asked(credentials: Credentials) -> str:
    async with Session(credentials, pause=Clock().pause) as session:
        return await session.version()


async def test_a_user_without_a_home_has_no_default_kubeconfig(tmp_path: Path) -> None:
    """A process of its own, because the library looks for the home when it is imported."""
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


async def test_several_kubeconfig_files_are_merged(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config(tmp_path / "one", api.url, {"token": "one"})
    config(tmp_path / "two", "http://127.0.0.1:1", {"token": "two"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}:{tmp_path / 'two'}:{tmp_path / 'none'}")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    async with await Session.open() as session:
        await session.version()

    assert token_of(api) == "Bearer one"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "config does not exist"),
        ("{", "kubeconfig"),
        ("[]", "kubeconfig"),
        ('{"current-context": "x", "contexts": []}', "Expected object with name x"),
    ],
)
async def test_an_unusable_kubeconfig_is_named(
    tmp_path: Path, content: str | None, said: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(AccessError) as caught:
        await Session.open(str(path))

    assert said in str(caught.value)
    assert str(path) in str(caught.value)


async def test_an_unknown_context_is_named(api: FakeApi, tmp_path: Path) -> None:
    path = config(tmp_path / "config", api.url, {})
    with pytest.raises(AccessError, match="nowhere"):
        await Session.open(path, "nowhere")


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

    path = config(tmp_path / "config", api.url, {"as": "jane", "as-groups": ["a"]})
    with pytest.raises(AccessError, match="as-groups"):
        await Session.open(path)


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
    for proxy in ("proxy:3128", "jane:secret@proxy:3128", 3128):
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


# --- plug-ins ----------------------------------------------------------------------------------


def plugin(folder: Path, does: str = "", *, seconds: float | None = None, **status: str) -> Any:  # noqa: ANN401  # JSON
    """Write a plug-in that runs a command and returns a new token each time."""
    script = folder / "plugin.py"
    expiry = ""
    if seconds is not None:
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)
        expiry = f"{ends:%Y-%m-%dT%H:%M:%SZ}"
    lines = [
        "import json, os, pathlib, sys",
        does,
        f"path = pathlib.Path({str(folder / 'number')!r})",
        "number = int(path.read_text()) + 1 if path.exists() else 1",
        "path.write_text(str(number))",
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])",
        f"status = {status!r} or {{'token': f'token-{{number}}'}}",
        f"status |= {{'expirationTimestamp': {expiry!r}}} if {expiry!r} else {{}}",
        "made = {'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}",
        "print(json.dumps(made))",
    ]
    script.write_text("\n".join(lines), encoding="utf-8")
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


async def test_a_plug_in_returns_the_token_and_runs_again_after_a_rejection(
    api: FakeApi, tmp_path: Path
) -> None:
    api.tokens = {"token-2"}
    await asked(Credentials(config(tmp_path / "config", api.url, plugin(tmp_path))))

    assert [seen.headers["Authorization"] for seen in api.requests] == [
        "Bearer token-1",
        "Bearer token-2",
    ]


async def test_a_plug_in_runs_again_before_its_token_expires(api: FakeApi, tmp_path: Path) -> None:
    clock = Clock()
    path = config(tmp_path / "config", api.url, plugin(tmp_path, seconds=600))
    async with Session(Credentials(path, now=clock.now)) as session:
        for later in (0, 500, 45):
            clock.time += later
            await session.version()

    assert [seen.headers["Authorization"] for seen in api.requests] == [
        "Bearer token-1",
        "Bearer token-1",
        "Bearer token-2",
    ]


async def test_the_error_of_a_plug_in_is_quoted(api: FakeApi, tmp_path: Path) -> None:
    path = config(tmp_path / "config", api.url, plugin(tmp_path, "sys.exit('please log in')"))
    with pytest.raises(AccessError) as caught:
        await Session.open(path)

    assert sys.executable in str(caught.value)
    assert "please log in" in str(caught.value)


async def test_a_missing_plug_in_is_named(api: FakeApi, tmp_path: Path) -> None:
    user = plugin(tmp_path)
    user["exec"]["command"] = "no-such-plug-in"
    with pytest.raises(AccessError, match="no-such-plug-in"):
        await Session.open(config(tmp_path / "config", api.url, user))


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


# --- in a pod ----------------------------------------------------------------------------------


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


async def test_an_explicit_kubeconfig_takes_precedence_over_the_pod(
    api: FakeApi, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("of the pod")
    path = config(tmp_path / "config", api.url, {"token": "named"})
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}
    await asked(Credentials(path, service_account=tmp_path, environ=environ))

    assert token_of(api) == "Bearer named"
