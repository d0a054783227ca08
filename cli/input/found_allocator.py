"""Finds the allocator of the live cluster, and asks its API through a forwarded port.

The CA and the namespace are those of the webhook registration, which only administrators write. The
token or the client certificate of the kubeconfig is shown only to a process with a certificate of
that CA.
"""

import argparse
import base64
import binascii
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cli.input import live_cluster
from cli.input.allocator_request import SECONDS, AllocatorRequest, Json, no_answer, trust
from drawbridge.api_error import ApiError
from drawbridge.documents.paths import get_value
from drawbridge.names import ALLOCATOR_SERVICE, NAMESPACE, WEBHOOK_CONFIGURATION

if TYPE_CHECKING:
    from drawbridge.cluster.credentials import Access
    from drawbridge.cluster.session import Session

_PORT_NAME: Final = "api"
_FORBIDDEN: Final = 403


class FoundAnswer(NamedTuple):
    """A response, and the pod that sent it."""

    pod: str
    response: Json


def ask_found_allocator(options: argparse.Namespace, path: str, body: object) -> FoundAnswer:
    """Send a request to the allocator of the cluster; raises ClusterReadError with the reason."""

    async def ask(session: "Session") -> FoundAnswer:
        import asyncio  # noqa: PLC0415  # takes longer than a short command

        try:
            async with asyncio.timeout(SECONDS):
                return await _ask(session, options.allocator_ca, path, body)
        except TimeoutError:
            raise no_answer(ALLOCATOR_SERVICE, f"no response in {SECONDS:g} s") from None

    return live_cluster.run_with_session(options, ask)


async def _ask(session: "Session", authority: str | None, path: str, body: object) -> FoundAnswer:
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
        response = await request.send(f"{ALLOCATOR_SERVICE}.{namespace}.svc", tls)
    return FoundAnswer(f"{namespace}/{pod}", response)


def _read_token(place: str, access: "Access") -> str:
    """Return the header; empty with a client certificate, which then identifies the caller."""
    if any(each.startswith("Impersonate-") for each in access.headers):
        # The allocator would answer with the rights of the user who impersonates.
        raise no_answer(place, "the kubeconfig impersonates a user")
    token = access.headers.get("Authorization", "")
    if not token and access.client_certificate is None:
        raise no_answer(place, "the kubeconfig has no token and no client certificate")
    return token


class _Registration(NamedTuple):
    """The namespace of Drawbridge and the CA of its certificates; empty if it is not known."""

    namespace: str = NAMESPACE
    authorities: str = ""


async def _read_registration(session: "Session") -> _Registration:
    from drawbridge.cluster.resources import MUTATING_WEBHOOKS  # noqa: PLC0415  # loaded on demand

    try:
        found = await live_cluster.read_object(session, MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION)
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        found = None
    namespace = get_value(found, ("webhooks", 0, "clientConfig", "service", "namespace"))
    bundle = get_value(found, ("webhooks", 0, "clientConfig", "caBundle"))
    try:
        authorities = base64.b64decode(bundle if isinstance(bundle, str) else "").decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        authorities = ""
    return _Registration(namespace if isinstance(namespace, str) else NAMESPACE, authorities)


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
    """Return a pod of the Service and its port; raises ClusterReadError if none is ready."""
    from drawbridge.cluster.resources import ENDPOINT_SLICES  # noqa: PLC0415  # loaded on demand

    labels = f"kubernetes.io/service-name={ALLOCATOR_SERVICE}"
    found = await live_cluster.list_objects(session, ENDPOINT_SLICES, namespace, labels=labels)
    ready = {
        (each.target_ref.name, port.port)
        for value in msgspec.convert(found, list[_EndpointSlice])
        for port in value.ports or ()
        for each in value.endpoints or ()
        # Unknown means ready.
        if each.conditions.ready is not False
        and each.target_ref is not None
        and each.target_ref.kind == "Pod"
        and port.name == _PORT_NAME
    }
    if not ready:
        text = "the Service does not exist, or no endpoint of it is ready"
        raise no_answer(f"{namespace}/{ALLOCATOR_SERVICE}", text)
    return min(ready)
