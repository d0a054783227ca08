"""Finds the namespace of the Drawbridge installation in the registration of its webhooks."""

from typing import TYPE_CHECKING

from cli.input import live_cluster
from drawbridge.api_error import ApiError
from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.names import NAMESPACE, WEBHOOK_CONFIGURATION

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

_SERVICE = ("webhooks", 0, "clientConfig", "service", "namespace")


async def find(session: "Session") -> str:
    """Return the namespace; empty if nothing is installed, the default one if that is unknown."""
    registered = await find_registered(session)
    return NAMESPACE if registered is None else registered


async def find_registered(session: "Session") -> str | None:
    """Return the namespace; empty if nothing is installed, None if that is unknown."""
    registration = await find_registration(session)
    if registration is None:
        return None
    return of_registration(registration) if registration else ""


async def find_registration(session: "Session") -> dict[str, Value] | None:
    """Return a webhook configuration: empty if nothing is installed, None if that is unknown."""
    try:
        return await read_registration(session) or {}
    except ApiError as error:
        if not error.forbidden:
            raise
        return None


async def read_registration(session: "Session") -> dict[str, Value] | None:
    """Return a webhook configuration of Drawbridge: that for pods, or the other if it is gone."""
    from drawbridge.cluster import resources  # noqa: PLC0415  # loaded on demand

    for kind in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS):
        registration = await live_cluster.read_object(session, kind, WEBHOOK_CONFIGURATION)
        if registration is not None:
            return registration
    return None


def of_registration(registration: Value) -> str:
    """Return the namespace of the registered service, else the default one."""
    namespace = get_value(registration, _SERVICE)
    return namespace if isinstance(namespace, str) and namespace else NAMESPACE
