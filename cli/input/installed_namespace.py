"""Finds the namespace of the Drawbridge installation in the registration of its webhook."""

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
    from drawbridge.cluster.resources import MUTATING_WEBHOOKS  # noqa: PLC0415  # loaded on demand

    try:
        registration = await live_cluster.read_object(
            session, MUTATING_WEBHOOKS, WEBHOOK_CONFIGURATION
        )
    except ApiError as error:
        if not error.forbidden:
            raise
        return NAMESPACE
    return "" if registration is None else of_registration(registration)


def of_registration(registration: Value) -> str:
    """Return the namespace of the registered service, else the default one."""
    namespace = get_value(registration, _SERVICE)
    return namespace if isinstance(namespace, str) and namespace else NAMESPACE
