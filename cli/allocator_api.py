"""Asks the API of the allocator, for commands that accept `--allocator-url`.

Sends the token of the kubeconfig. Plain HTTP is for loopback addresses only. Functions import
aiohttp when they run, because that import takes longer than a short command.
"""

import argparse
import contextlib
import ipaddress
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from cli import codes, live_cluster
from cli.cluster_options import CURRENT
from cli.live_cluster import ClusterReadError
from dra.finding import Finding
from dra.names import ALLOCATOR_SERVICE, NAMESPACE

if TYPE_CHECKING:
    from cluster.session import Session

_SECONDS: Final = 20.0
_SERVICE: Final = f"{ALLOCATOR_SERVICE}.{NAMESPACE}.svc"
Json = Mapping[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--allocator-url` and `--allocator-ca`."""
    parser.add_argument(
        "--allocator-url",
        metavar="URL",
        help="ask the API of the allocator of bridge placement, such as https://127.0.0.1:9443"
        " after kubectl port-forward",
    )
    parser.add_argument(
        "--allocator-ca",
        metavar="FILE",
        help="the CA of that API (default: the CAs of this machine)",
    )


def ask_allocator(options: argparse.Namespace, path: str, body: object) -> Json:
    """Send a request; raises ClusterReadError if there is no result."""
    address = urlsplit(options.allocator_url)
    local = _is_loopback(address.hostname or "")
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise _failed(options, "the URL must start with https://")
    if address.scheme == "http":
        if not local:
            raise _failed(options, "http:// would send your token unencrypted; use https://")
        return _run(_Request(options, path, body, ""))
    chosen = argparse.Namespace(kubeconfig=options.kubeconfig, context=options.context or CURRENT)

    async def send(session: "Session") -> Json:
        header = await session.authorization()
        if not header:
            text = "the kubeconfig has no token, and client certificates are not sent"
            raise _failed(options, text)
        return await _Request(options, path, body, header).send(_SERVICE if local else None)

    return live_cluster.run_with_session(chosen, send)


def _run(request: "_Request") -> Json:
    import asyncio  # noqa: PLC0415  # takes longer than a short command

    return asyncio.run(request.send(None))


class _Request:
    def __init__(
        self, options: argparse.Namespace, path: str, body: object, authorization: str
    ) -> None:
        self._options = options
        self._path = path
        self._body = msgspec.json.encode(body)
        self._headers = {"Content-Type": "application/json"}
        if authorization:
            self._headers["Authorization"] = authorization

    async def send(self, server_name: str | None) -> Json:
        import aiohttp  # noqa: PLC0415  # loaded on demand

        url = self._options.allocator_url.rstrip("/") + self._path
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        with self._failures():
            async with (
                aiohttp.ClientSession(timeout=timeout) as client,
                client.post(
                    url,
                    data=self._body,
                    headers=self._headers,
                    ssl=self._tls(),
                    server_hostname=server_name,
                    allow_redirects=False,
                ) as response,
            ):
                status, content = response.status, await response.read()
            reply: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
        if status != 200:
            path = f"{reply['path']}: " if reply.get("path") else ""
            raise _failed(self._options, f"{path}{reply.get('message', f'status {status}')}")
        return reply

    def _tls(self) -> Any:  # noqa: ANN401  # what aiohttp accepts
        if not self._options.allocator_ca:
            return True
        import ssl  # noqa: PLC0415  # loaded on demand

        return ssl.create_default_context(cafile=self._options.allocator_ca)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        import aiohttp  # noqa: PLC0415  # loaded on demand

        try:
            yield
        except TimeoutError:
            raise _failed(self._options, f"no response in {_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _failed(self._options, f"{error}") from None
        except msgspec.DecodeError:
            raise _failed(self._options, "the response is not JSON") from None


def _failed(options: argparse.Namespace, text: str) -> ClusterReadError:
    message = f"{options.allocator_url}: {text}"
    found: Finding = codes.ALLOCATOR_SILENT.at("--allocator-url", message)
    return ClusterReadError(found)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
