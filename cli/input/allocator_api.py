"""Asks the API of the allocator: at the URL of `--allocator-url`, or that of the live cluster.

At a URL, sends the token of the kubeconfig; plain HTTP is for loopback addresses only. In a live
cluster, the CA and the namespace are those of the webhook registration, which only administrators
write, and the request goes through a forwarded port. The token or the client certificate of the
kubeconfig is shown only to a process with a certificate of that CA. Functions import aiohttp when
they run, because that import takes longer than a short command.
"""

import argparse
import base64
import binascii
import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from cli.input import codes, installed_namespace, live_cluster
from cli.input.live_cluster import ClusterReadError
from cli.terminal.cluster_options import CURRENT
from drawbridge.api_error import ApiError
from drawbridge.cluster.proxy import is_local
from drawbridge.documents.paths import get_value
from drawbridge.finding import Finding
from drawbridge.names import (
    ALLOCATOR_SERVICE,
    NAMESPACE,
    SCHEDULER_LEASE,
)

if TYPE_CHECKING:
    import ssl

    from drawbridge.cluster.credentials import Access
    from drawbridge.cluster.session import Session
    from drawbridge.cluster.tls import KeyPair

SECONDS: Final = 20.0
Json = Mapping[str, Any]


class AllocatorRequest(NamedTuple):
    """A POST request; messages name the allocator as `place`."""

    place: str
    url: str
    path: str
    body: object
    authorization: str = ""

    async def send(self, server_name: str | None, tls: "ssl.SSLContext | None" = None) -> Json:
        """Return the response; raises ClusterReadError if there is none.

        The certificate must name `server_name`, by default the host of the URL. Without `tls`, a CA
        of this machine must have signed it.
        """
        import aiohttp  # noqa: PLC0415  # loaded on demand

        headers = {"Content-Type": "application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        with self._failures():
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as client,
                client.post(
                    self.url.rstrip("/") + self.path,
                    data=msgspec.json.encode(self.body),
                    headers=headers,
                    ssl=tls or True,
                    server_hostname=server_name,
                    allow_redirects=False,
                ) as response,
            ):
                status, content = response.status, await response.read()
            reply: dict[str, Any] = msgspec.json.decode(content, type=dict[str, Any])
        if status != 200:
            path = f"{reply['path']}: " if reply.get("path") else ""
            raise no_answer(self.place, f"{path}{reply.get('message', f'status {status}')}")
        return reply

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        import aiohttp  # noqa: PLC0415  # loaded on demand

        from drawbridge.cluster.reachability import describe_failure  # noqa: PLC0415  # same

        try:
            yield
        except TimeoutError:
            raise no_answer(self.place, f"no response in {SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise no_answer(self.place, describe_failure(error)) from None
        except msgspec.DecodeError:
            raise no_answer(self.place, "the response is not JSON") from None


def trust(
    place: str,
    file: str | None,
    authorities: str | None = None,
    client_certificate: "KeyPair | None" = None,
) -> "ssl.SSLContext":
    """Trust the CAs of a file or a text, or else of this machine; raises ClusterReadError."""
    import ssl  # noqa: PLC0415  # loaded on demand

    from drawbridge.cluster.tls import load_pair  # noqa: PLC0415  # same

    try:
        context = ssl.create_default_context(
            cafile=file or None, cadata=None if file else authorities or None
        )
        if client_certificate is not None:
            load_pair(context, client_certificate)
    except (OSError, ValueError) as error:
        raise no_answer(place, f"cannot load the CA or the client certificate: {error}") from None
    return context


def no_answer(place: str, text: str) -> ClusterReadError:
    """Return the error of a request without a result."""
    finding: Finding = codes.ALLOCATOR_NOT_ASKED.at("--allocator-url", f"{place}: {text}")
    return ClusterReadError(finding)


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
        header = _bearer(await session.access())
        if not header:
            text = "the kubeconfig has no token, and client certificates are not sent"
            raise no_answer(url, text)
        sent = request._replace(authorization=header)
        name = _service_in(await installed_namespace.find(session)) if local else None
        return await sent.send(name, trust(url, options.allocator_ca))

    return live_cluster.run_with_session(chosen, send)


def _service_in(namespace: str) -> str:
    """Return the name that the certificate has; `namespace` is empty if it is not known."""
    return f"{ALLOCATOR_SERVICE}.{namespace or NAMESPACE}.svc"


def _run(request: AllocatorRequest) -> Json:
    import asyncio  # noqa: PLC0415  # takes longer than a short command

    return asyncio.run(request.send(None))


_PORT_NAME: Final = "api"
_FORBIDDEN: Final = 403


class FoundAnswer(NamedTuple):
    """A response, and the pod that sent it."""

    pod: str
    response: Json


def ask_found_allocator(options: argparse.Namespace, path: str, body: object) -> FoundAnswer:
    """Send a request to the allocator of the cluster; raises ClusterReadError with the reason."""

    async def forward_in_time(session: "Session") -> FoundAnswer:
        import asyncio  # noqa: PLC0415  # takes longer than a short command

        try:
            async with asyncio.timeout(SECONDS):
                return await _forward(session, options.allocator_ca, path, body)
        except TimeoutError:
            raise no_answer(ALLOCATOR_SERVICE, f"no response in {SECONDS:g} s") from None

    return live_cluster.run_with_session(options, forward_in_time)


async def _forward(
    session: "Session", authority: str | None, path: str, body: object
) -> FoundAnswer:
    from drawbridge.cluster.port_forward import forward_port  # noqa: PLC0415  # loaded on demand

    registered = await _read_registration(session)
    namespace = registered.namespace
    pod, port = await _find_endpoint(session, namespace)
    place = f"pod {namespace}/{pod}"
    access = await session.access()
    token = _read_token(place, access)
    certificate = None if token else access.client_certificate
    tls = trust(place, authority, registered.authorities, certificate)
    async with forward_port(session, namespace, pod, port) as local:
        request = AllocatorRequest(place, f"https://127.0.0.1:{local}", path, body, token)
        response = await request.send(_service_in(namespace), tls)
    return FoundAnswer(f"{namespace}/{pod}", response)


def _read_token(place: str, access: "Access") -> str:
    """Return the header; empty with a client certificate, which then identifies the caller."""
    if any(each.startswith("Impersonate-") for each in access.headers):
        # The allocator would answer with the rights of the user who impersonates.
        raise no_answer(place, "the kubeconfig impersonates a user")
    token = _bearer(access)
    if not token and access.client_certificate is None:
        raise no_answer(place, "the kubeconfig has no token and no client certificate")
    return token


def _bearer(access: "Access") -> str:
    """Return the header with a token; the API knows no passwords."""
    header = access.headers.get("Authorization", "")
    return header if header.startswith("Bearer ") else ""


class _Registration(NamedTuple):
    """The namespace of Drawbridge and the CA of its certificates; empty if it is not known."""

    namespace: str = NAMESPACE
    authorities: str = ""


async def _read_registration(session: "Session") -> _Registration:
    try:
        registered = await installed_namespace.read_registration(session)
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        registered = None
    bundle = get_value(registered, ("webhooks", 0, "clientConfig", "caBundle"))
    try:
        authorities = base64.b64decode(bundle if isinstance(bundle, str) else "").decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        authorities = ""
    return _Registration(installed_namespace.of_registration(registered), authorities)


# --- the pod --------------------------------------------------------------------------------------


class _Conditions(msgspec.Struct):
    ready: bool | None = None


class _Target(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Endpoint(msgspec.Struct, rename="camel"):
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)
    target_ref: _Target | None = None


class _Port(msgspec.Struct):
    name: str = ""
    port: int = 0


class _EndpointSlice(msgspec.Struct):
    endpoints: list[_Endpoint] | None = None
    ports: list[_Port] | None = None


async def _find_endpoint(session: "Session", namespace: str) -> tuple[str, int]:
    """Return a pod of the Service and its port; raises ClusterReadError if none is ready.

    Only the pod that leads has reservations, and has seen which devices are kept for which pod.
    """
    from drawbridge.cluster.resources import ENDPOINT_SLICES  # noqa: PLC0415  # loaded on demand

    labels = f"kubernetes.io/service-name={ALLOCATOR_SERVICE}"
    slices = await live_cluster.list_objects(session, ENDPOINT_SLICES, namespace, labels=labels)
    ready = {
        (endpoint.target_ref.name, port.port)
        for value in msgspec.convert(slices, list[_EndpointSlice])
        for port in value.ports or ()
        for endpoint in value.endpoints or ()
        # Unknown means ready.
        if endpoint.conditions.ready is not False
        and endpoint.target_ref is not None
        and endpoint.target_ref.kind == "Pod"
        and port.name == _PORT_NAME
    }
    if not ready:
        text = "the Service does not exist, or no endpoint of it is ready"
        raise no_answer(f"{namespace}/{ALLOCATOR_SERVICE}", text)
    leader = await _read_leader(session, namespace) if len(ready) > 1 else ""
    return min(ready, key=lambda each: (each[0] != leader, each))


async def _read_leader(session: "Session", namespace: str) -> str:
    """Return the pod whose kube-scheduler holds the Lease; empty if that is not known."""
    from drawbridge.cluster.resources import LEASES  # noqa: PLC0415  # loaded on demand

    try:
        lease = await live_cluster.read_object(session, LEASES, SCHEDULER_LEASE, namespace)
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        return ""
    holder = get_value(lease, ("spec", "holderIdentity"))
    # The host name, which is that of the pod, and a UUID.
    return holder.rpartition("_")[0] if isinstance(holder, str) else ""
