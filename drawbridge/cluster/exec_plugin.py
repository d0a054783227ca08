"""Runs the program of a kubeconfig that returns credentials, as client-go does.

Its standard error is that of this process, where a login tells what to do.
"""

import asyncio
import base64
import contextlib
import datetime as dt
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from drawbridge.cluster.errors import AccessError
from drawbridge.cluster.kubeconfig import ClusterEntry, ExecConfig
from drawbridge.cluster.tls import KeyPair
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder

PLUGIN_SECONDS: Final = 60.0
KILL_SECONDS: Final = 1.0
TERMINAL: Final = "/dev/tty"
MOST_BYTES: Final = 1024 * 1024
_GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1", f"{_GROUP}/v1beta1")


class PluginCredentials(NamedTuple):
    """What a plug-in returned: a token, a pair or both."""

    token: str
    pair: KeyPair | None
    expires: dt.datetime | None

    def __repr__(self) -> str:
        return "PluginCredentials()"  # without its secrets


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _Reply(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


_REPLIES: Final[ForeignDecoder[_Reply]] = ForeignDecoder(_Reply)


def describe_cluster(cluster: ClusterEntry, authority: bytes | None) -> dict[str, Any]:
    """Return what a plug-in with `provideClusterInfo` gets to know about its cluster."""
    described = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority or b"").decode(),
        "proxy-url": cluster.proxy_url,
        "disable-compression": cluster.disable_compression,
        "config": cluster.read_plugin_extension(),
    }
    return {key: value for key, value in described.items() if value or key == "server"}


async def run_plugin(
    plugin: ExecConfig, cluster: Mapping[str, Any], environ: Mapping[str, str]
) -> PluginCredentials:
    """Run a plug-in and return its credentials; raises AccessError, which names it."""
    try:
        return _read_reply(plugin, await _run(plugin, cluster, environ))
    except AccessError as error:
        raise AccessError(f"plug-in {plugin.command}: {error}") from None


async def _run(plugin: ExecConfig, cluster: Mapping[str, Any], environ: Mapping[str, str]) -> bytes:
    if plugin.api_version not in _VERSIONS:
        raise AccessError(f"apiVersion {plugin.api_version!r} is none of {', '.join(_VERSIONS)}")
    interactive = _is_interactive(plugin.interactive_mode)
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    program = shutil.which(plugin.command, path=environ.get("PATH"))
    if program is None:
        hint = " ".join(plugin.install_hint.split())
        raise AccessError("there is no such program" + (f": {hint}" if hint else ""))
    attended = interactive or _has_terminal()
    try:
        process = await _start(
            *(program, *plugin.args),
            attended=attended,
            env={
                **environ,
                **{each.name: each.value for each in plugin.env},
                "KUBERNETES_EXEC_INFO": json.dumps(info),
            },
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:  # also a null byte
        reason = error.strerror if isinstance(error, OSError) else None
        raise AccessError(f"it cannot be started: {reason or error}") from None
    return await _wait(process, attended=attended)


def _is_interactive(mode: str) -> bool:
    """Return whether a plug-in may read from standard input."""
    if mode == "Never":
        return False
    # What `-f -` reads is no answer to a login.
    available = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    if mode == "Always" and not available:
        raise AccessError("it needs a terminal as standard input (interactiveMode: Always)")
    if mode not in {"", "IfAvailable", "Always"}:
        raise AccessError(f"interactiveMode {mode!r} is none of Never, IfAvailable, Always")
    return available


def _has_terminal() -> bool:
    """Return whether a plug-in can ask on the terminal; its standard input may be another file."""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class _Output(asyncio.SubprocessProtocol):
    """Collects what a program prints, until it has ended and nothing keeps its output open.

    asyncio calls `pipe_data_received` and `process_exited`, and `connection_lost` after both ends.
    """

    def __init__(self) -> None:
        self.bytes = bytearray()
        self.exited = asyncio.Event()
        self.complete = asyncio.Event()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002  # of asyncio
        self.bytes += data
        if len(self.bytes) > MOST_BYTES:
            self.complete.set()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # of asyncio
        self.complete.set()


class _Process(NamedTuple):
    transport: asyncio.SubprocessTransport
    output: _Output


async def _start(
    *words: str, attended: bool, env: Mapping[str, str], stdin: int | None
) -> _Process:
    """Start a program; a cancellation meanwhile ends it with what it has started."""
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _Output,
            *words,
            env=env,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=None,
            # A group of its own could not read from the terminal.
            process_group=None if attended else 0,
        )
    )
    try:
        return _Process(*await asyncio.shield(starting))
    except asyncio.CancelledError:
        with contextlib.suppress(OSError, ValueError):
            await _end(_Process(*await starting), attended=attended)
        raise


async def _wait(process: _Process, *, attended: bool) -> bytes:
    """Return the output of a plug-in. A person at the terminal may take any time to answer."""
    try:
        async with asyncio.timeout(None if attended else PLUGIN_SECONDS):
            await process.output.complete.wait()
    except TimeoutError:
        raise AccessError(f"it returned no credentials within {PLUGIN_SECONDS:g} s") from None
    finally:
        await _end(process, attended=attended)
    if len(process.output.bytes) > MOST_BYTES:
        raise AccessError(f"it returned more than {MOST_BYTES} bytes")
    if code := process.transport.get_returncode():
        ended = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise AccessError(f"it {ended}")
    return bytes(process.output.bytes)


async def _end(process: _Process, *, attended: bool) -> None:
    """End a plug-in that has not ended, with the processes that it started."""
    transport, output = process
    try:
        if transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError):
                if attended:
                    transport.kill()
                else:
                    os.killpg(transport.get_pid(), signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(output.exited.wait(), KILL_SECONDS)
    finally:
        transport.close()  # a process that it started can keep its output open
        await asyncio.sleep(0)  # the event loop closes its end of the pipe in the next step


def _read_reply(plugin: ExecConfig, output: bytes) -> PluginCredentials:
    try:
        reply = _REPLIES.decode(output)
    except UNDECODABLE:  # the error would quote it
        raise AccessError("its output is not an ExecCredential in JSON") from None
    if (reply.kind, reply.api_version) != ("ExecCredential", plugin.api_version):
        raise AccessError(
            f"it returned a {reply.kind!r} of {reply.api_version!r}, and the kubeconfig says "
            f"ExecCredential of {plugin.api_version}"
        )
    status = reply.status or _Status()
    token = (status.token or "").strip()
    certificate, key = status.client_certificate_data, status.client_key_data
    if not (token or certificate or key):
        raise AccessError("it returned neither a token nor a certificate with its key")
    if bool(certificate) != bool(key):
        raise AccessError("it returned only one of a certificate and its key")
    pair = KeyPair(certificate.encode(), key.encode()) if certificate and key else None
    return PluginCredentials(token, pair, _read_time(status.expiration_timestamp))


def _read_time(text: str | None) -> dt.datetime | None:
    if not text:
        return None
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise AccessError(f"it returned expirationTimestamp {text!r}, which is no time")
    return time
