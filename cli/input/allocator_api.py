"""Asks the API of the allocator at the URL of `--allocator-url`.

Sends the token of the kubeconfig. Plain HTTP is for loopback addresses only.
"""

import argparse
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cli.input import live_cluster
from cli.input.allocator_request import AllocatorRequest, Json, no_answer, trust
from cli.terminal.cluster_options import CURRENT
from drawbridge.cluster.proxy import is_local
from drawbridge.names import ALLOCATOR_SERVICE, NAMESPACE

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_SERVICE: Final = f"{ALLOCATOR_SERVICE}.{NAMESPACE}.svc"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare `--allocator-url` and `--allocator-ca`."""
    parser.add_argument(
        "--allocator-url",
        metavar="URL",
        help="ask the API of the allocator of bridge placement, such as https://127.0.0.1:9443"
        " after kubectl port-forward (default: that of the live cluster, if it has one)",
    )
    parser.add_argument(
        "--allocator-ca",
        metavar="FILE",
        help="the CA of that API (default: with --allocator-url, the CAs of this machine; else the"
        " CA of the webhook)",
    )


def ask_allocator(options: argparse.Namespace, path: str, body: object) -> Json:
    """Send a request; raises ClusterReadError if there is no result."""
    url: str = options.allocator_url
    address = urlsplit(url)
    local = is_local(address.hostname or "")
    request = AllocatorRequest(url, url, path, body)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise no_answer(url, "the URL must start with https://")
    if address.scheme == "http":
        if not local:
            raise no_answer(url, "http:// would send your token unencrypted; use https://")
        return _run(request)
    chosen = argparse.Namespace(kubeconfig=options.kubeconfig, context=options.context or CURRENT)

    async def send(session: "Session") -> Json:
        header = (await session.access()).headers.get("Authorization", "")
        if not header:
            text = "the kubeconfig has no token, and client certificates are not sent"
            raise no_answer(url, text)
        sent = request._replace(authorization=header)
        return await sent.send(_SERVICE if local else None, trust(url, options.allocator_ca))

    return live_cluster.run_with_session(chosen, send)


def _run(request: AllocatorRequest) -> Json:
    import asyncio  # noqa: PLC0415  # takes longer than a short command

    return asyncio.run(request.send(None))
