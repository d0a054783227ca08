"""Plug-ins that return credentials: what they get, what they may return, and how they end."""

import asyncio
import base64
import contextlib
import json
import os
import pty
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from drawbridge.cluster import exec_plugin
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.session import Session
from tests.cluster.certificates import Authority
from tests.cluster.clocks import Clock
from tests.cluster.fake.api import FakeApi
from tests.cluster.plugins import VERSION, config, plugin, reply, script

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as server:
        yield server


async def authorization(folder: Path, user: dict[str, Any], **cluster: object) -> str:
    path = config(folder / "config", "https://127.0.0.1:1", user, **cluster)
    return (await Credentials(path).access()).headers.get("Authorization", "")


async def refusal(folder: Path, user: dict[str, Any]) -> str:
    with pytest.raises(AccessError) as caught:
        await authorization(folder, user)
    return str(caught.value)


def runs(command: str, **fields: object) -> dict[str, Any]:
    named = {"apiVersion": VERSION, "interactiveMode": "Never"}
    return {"exec": {**named, "command": command, **fields}}


# --- when it runs ------------------------------------------------------------------------------


async def test_a_plug_in_returns_the_token_and_runs_again_after_a_rejection(
    api: FakeApi, tmp_path: Path
) -> None:
    api.tokens = {"token-2"}
    async with Session(Credentials(config(tmp_path / "config", api.url, plugin(tmp_path)))) as one:
        await one.version()

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


async def test_a_plug_in_that_fails_does_not_run_for_each_request(
    api: FakeApi, tmp_path: Path
) -> None:
    clock, failing, ran = Clock(), tmp_path / "failing", tmp_path / "ran"
    stops = f"os.path.exists({str(failing)!r}) and sys.exit(1)"
    does = f"open({str(ran)!r}, 'a').write('x'); {stops}"
    path = config(tmp_path / "config", api.url, plugin(tmp_path, does, seconds=600))
    async with Session(Credentials(path, now=clock.now)) as session:
        await session.version()
        failing.touch()
        clock.time += 545
        await asyncio.gather(*(session.version() for _ in range(5)))
        assert ran.read_text() == "xx"
        failing.unlink()
        clock.time += 6
        await session.version()

    assert [seen.headers["Authorization"] for seen in api.requests] == [
        *("Bearer token-1",) * 6,
        "Bearer token-2",
    ]


# --- what it gets ------------------------------------------------------------------------------


async def test_a_plug_in_gets_its_environment_and_the_folder_of_its_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", "theirs")
    told = reply({"token": "%s-%s-%s"})
    script(tmp_path / "login", f"""printf '{told}' "$GIVEN" "$MORE" "$1" """)
    env = [{"name": "GIVEN", "value": "ours"}, {"name": "MORE", "value": "more"}]
    user = runs("./login", env=env, args=["word"])
    assert await authorization(tmp_path, user) == "Bearer ours-more-word"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert await authorization(tmp_path, runs("login")) == "Bearer theirs--"


@pytest.mark.parametrize("version", [VERSION, f"{VERSION}beta1"])
async def test_a_plug_in_gets_its_cluster_if_it_wants_to(tmp_path: Path, version: str) -> None:
    authority = Authority(tmp_path)
    told, returned = tmp_path / "told", reply({"token": "a"}, version)
    script(tmp_path / "login", f"""printf %s "$KUBERNETES_EXEC_INFO" > {told}; echo '{returned}'""")
    wanted = {"audience": "web", "scope": None, "more": [None]}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": wanted}
    cluster = {
        "certificate-authority": str(authority.file),
        "tls-server-name": "api",
        "extensions": [{"name": "other", "extension": 1}, extension],
    }
    user = runs("./login", apiVersion=version)
    assert await authorization(tmp_path, user, **cluster)
    expected = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert json.loads(told.read_text()) == expected
    user["exec"]["provideClusterInfo"] = True
    assert await authorization(tmp_path, user, **cluster)
    assert json.loads(told.read_text())["spec"]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "tls-server-name": "api",
        "certificate-authority-data": base64.b64encode(authority.file.read_bytes()).decode(),
        "config": wanted,
    }


async def test_the_errors_of_a_plug_in_are_shown_as_they_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    does = "echo 'open https://login and enter CODE' >&2"
    told = reply({"token": "a"})
    script(tmp_path / "login", f"{does}; echo '{told}'")
    assert await authorization(tmp_path, runs("./login")) == "Bearer a"
    assert capfd.readouterr().err == "open https://login and enter CODE\n"


@contextlib.contextmanager
def terminal(typed: bytes) -> Iterator[None]:
    """Make a terminal the standard input, in which somebody types."""
    ours, theirs = pty.openpty()
    former = os.dup(0)
    os.dup2(theirs, 0)
    os.write(ours, typed)
    try:
        yield
    finally:
        os.dup2(former, 0)
        for each in (ours, theirs, former):
            os.close(each)


class Terminal:
    """What `sys.stdin` is at a terminal."""

    closed = False

    def isatty(self) -> bool:
        """Be one."""
        return True


@pytest.mark.parametrize(
    ("mode", "at_terminal", "expected"),
    [
        ("Never", True, "Bearer got-nothing"),
        ("IfAvailable", True, "Bearer got-typed"),
        ("Always", True, "Bearer got-typed"),
        ("IfAvailable", False, "Bearer got-nothing"),
        ("", False, "Bearer got-nothing"),
        ("Always", False, "it needs a terminal as standard input"),
        ("Sometimes", False, "interactiveMode 'Sometimes' is none of"),
    ],
)
async def test_a_plug_in_may_read_from_a_terminal_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, expected: str, *, at_terminal: bool
) -> None:
    told = reply({"token": "got-%s"})
    script(tmp_path / "login", f"""read typed; printf '{told}' "${{typed:-nothing}}" """)
    user = runs("./login", interactiveMode=mode)
    if at_terminal:
        monkeypatch.setattr("sys.stdin", Terminal())
        with terminal(b"typed\n"):
            assert await authorization(tmp_path, user) == expected
    elif expected.startswith("Bearer"):
        assert await authorization(tmp_path, user) == expected
    else:
        assert expected in await refusal(tmp_path, user)


ASKED = """
import asyncio, os, sys
from drawbridge.cluster import exec_plugin
from drawbridge.cluster.credentials import Credentials
# The first terminal that the leader of a session opens is that of the session.
opened = os.open(sys.argv[1], os.O_RDWR)
exec_plugin.PLUGIN_SECONDS = 5
print(asyncio.run(Credentials(sys.argv[2]).access()).headers["Authorization"])
"""


@pytest.mark.parametrize("mode", ["Never", "IfAvailable"])
async def test_a_plug_in_asks_on_the_terminal_while_standard_input_is_a_file(
    tmp_path: Path, mode: str
) -> None:
    told = reply({"token": "got-%s"})
    script(tmp_path / "login", f"""read typed < /dev/tty; printf '{told}' "$typed" """)
    path = config(tmp_path / "config", "https://127.0.0.1:1", runs("./login", interactiveMode=mode))
    ours, theirs = pty.openpty()
    os.write(ours, b"typed\n")
    try:
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ASKED, os.ttyname(theirs), path),
            env={**os.environ, "PYTHONPATH": f"{Path.cwd()}"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert await asking.communicate() == (b"Bearer got-typed\n", None)
    finally:
        for each in (ours, theirs):
            os.close(each)


# --- what it returns ---------------------------------------------------------------------------


REPLIES = [
    ("hello", "is not an ExecCredential in JSON"),
    ("[]", "is not an ExecCredential in JSON"),
    (reply({"token": 7}), "is not an ExecCredential in JSON"),
    (reply({}), "neither a token nor a certificate"),
    (reply({"token": ""}), "neither a token nor a certificate"),
    (reply({"token": " "}), "neither a token nor a certificate"),
    (reply({"token": None}), "neither a token nor a certificate"),
    (reply({"token": "a", "clientCertificateData": "b"}), "only one of a certificate and its key"),
    (
        reply({"clientCertificateData": "b", "clientKeyData": "c"}),
        "cannot load the client certificate",
    ),
    (reply({"token": "a", "expirationTimestamp": "soon"}), "'soon', which is no time"),
    (reply({"token": "a", "expirationTimestamp": "2030-01-01T00:00:00"}), "which is no time"),
    (reply({"token": "a"}, f"{VERSION}beta1"), "it returned a 'ExecCredential' of '.*/v1beta1'"),
    (reply({"token": "a"}, kind="Secret"), "it returned a 'Secret' of"),
]


@pytest.mark.parametrize(("printed", "said"), REPLIES)
async def test_an_unusable_reply_is_explained(tmp_path: Path, printed: str, said: str) -> None:
    (tmp_path / "reply").write_text(printed, encoding="utf-8")
    with pytest.raises(AccessError, match=said):
        await authorization(tmp_path, runs("/bin/cat", args=[str(tmp_path / "reply")]))


async def test_a_certificate_of_a_plug_in_is_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    public, private = (each.read_text() for each in authority.signed("me"))
    status = {"clientCertificateData": public, "clientKeyData": private}
    async with FakeApi(tls=authority.server(asks=True)) as api:
        trusted = {"certificate-authority": str(authority.file)}
        path = config(tmp_path / "config", api.url, plugin(tmp_path, **status), **trusted)
        async with Session(Credentials(path)) as session:
            assert await session.version() == "1.36"
    assert "Authorization" not in api.requests[-1].headers


# --- how it ends -------------------------------------------------------------------------------


async def test_a_plug_in_that_does_not_run_is_named(tmp_path: Path) -> None:
    missing = runs("no-such-plug-in", installHint="Install it:\n  brew install it")
    expected = "plug-in no-such-plug-in: there is no such program: Install it: brew install it"
    assert expected in await refusal(tmp_path, missing)
    failing = script(tmp_path / "fails", "exit 3")
    assert f"plug-in {failing}: it ended with exit code 3" in await refusal(
        tmp_path, runs("./fails")
    )
    killed = script(tmp_path / "killed", "kill -9 $$")
    assert f"plug-in {killed}: it was ended by signal 9" in await refusal(tmp_path, runs(killed))
    (tmp_path / "none").write_bytes(b"\0\0")
    (tmp_path / "none").chmod(0o755)
    assert "it cannot be started: Exec format error" in await refusal(tmp_path, runs("./none"))
    assert "apiVersion 'v1alpha1' is none of" in await refusal(
        tmp_path, runs("./fails", apiVersion="v1alpha1")
    )


async def test_a_plug_in_that_hangs_ends_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "PLUGIN_SECONDS", 0.5)
    monkeypatch.setattr(exec_plugin, "TERMINAL", "/none")  # as if nobody ran the tests at one
    started = tmp_path / "started"
    script(tmp_path / "login", f"sleep 60 & echo $! > {started}; wait")
    assert "it returned no credentials within 0.5 s" in await refusal(tmp_path, runs("./login"))
    await ends(int(started.read_text()))


async def test_output_that_stays_open_elsewhere_is_closed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "PLUGIN_SECONDS", 0.5)
    monkeypatch.setattr(exec_plugin, "TERMINAL", "/none")
    started = tmp_path / "started"
    script(tmp_path / "login", f"setsid sh -c 'echo $$ > {started}; exec sleep 60' & wait")
    before = list_descriptors()
    try:
        assert "it returned no credentials within 0.5 s" in await refusal(tmp_path, runs("./login"))
        assert list_descriptors() == before
    finally:
        os.kill(int(started.read_text()), signal.SIGKILL)


async def test_a_plug_in_ends_with_the_wait_for_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    script(tmp_path / "login", f"echo $$ > {started}.half; mv {started}.half {started}; sleep 60")
    waiting = asyncio.create_task(authorization(tmp_path, runs("./login")))
    await asyncio.to_thread(wait_until, started.exists)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await ends(int(started.read_text()))


async def test_what_a_plug_in_starts_ends_if_it_is_cancelled_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_plugin, "TERMINAL", "/none")
    loop, started, seen = asyncio.get_running_loop(), tmp_path / "started", asyncio.Event()
    start = loop.subprocess_exec

    async def start_slowly(*words: Any, **options: Any) -> Any:  # noqa: ANN401  # asyncio's
        process = await start(*words, **options)
        await asyncio.to_thread(wait_until, started.exists)
        seen.set()
        await asyncio.sleep(0.1)
        return process

    monkeypatch.setattr(loop, "subprocess_exec", start_slowly)
    does = f"sleep 60 & echo $! > {started}.half; mv {started}.half {started}; wait"
    script(tmp_path / "login", does)
    waiting = asyncio.create_task(authorization(tmp_path, runs("./login")))
    await seen.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await ends(int(started.read_text()))


async def test_a_reply_without_an_end_is_refused(tmp_path: Path) -> None:
    said = await refusal(tmp_path, runs("cat", args=["/dev/zero"]))
    assert "it returned more than 1048576 bytes" in said


def list_descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


async def ends(number: int) -> None:
    """Wait until a process is gone; nobody may have read the exit code of an orphan."""
    stat = Path(f"/proc/{number}/stat")

    def has_ended() -> bool:
        try:
            return stat.read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    await asyncio.to_thread(wait_until, has_ended)


def wait_until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)
