"""Compose the injection of the bundle into the webhook configurations, for server-side apply. Pure.

Only entries that call a Service of the own namespace get the bundle. An entry that does not exist
is never named, because the API server would refuse the incomplete entry and the whole change with
it.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from certs.authority import Certificate, combine_certificates, read_certificates
from drawbridge.names import CA_ANNOTATION

JSONObject = dict[str, Any]
# The annotations with which cert-manager's injector is told to set caBundle.
INJECTOR_PREFIX: Final = "cert-manager.io/inject-"
# The value of the annotation with which an administrator says who sets caBundle.
_EXTERNAL: Final = "external"


def find_other_injector(configuration: Mapping[str, Any]) -> str | None:
    """Return the annotation that says that somebody else sets the bundle; None if there is none.

    The object has to say so: in a rollout, a controller with another setting can lead until the
    last replica is replaced.
    """
    annotations = (configuration.get("metadata") or {}).get("annotations") or {}
    injectors = (key for key in annotations if key.startswith(INJECTOR_PREFIX))
    is_external = annotations.get(CA_ANNOTATION) == _EXTERNAL
    return CA_ANNOTATION if is_external else next(injectors, None)


def compose_injection(
    configuration: Mapping[str, Any], namespace: str, bundle: str
) -> JSONObject | None:
    """Return what to apply so that every entry has the bundle; None if all have it."""
    encoded = base64.b64encode(bundle.encode()).decode()
    entries = list(_find_entries(configuration, namespace))
    if all(_read_bundle(each) == encoded for each in entries):
        return None
    # An entry that this manager applied before and leaves out now would lose its bundle.
    webhooks = [{"name": each["name"], "clientConfig": {"caBundle": encoded}} for each in entries]
    return {
        "apiVersion": configuration["apiVersion"],
        "kind": configuration["kind"],
        "metadata": {"name": configuration["metadata"]["name"]},
        "webhooks": webhooks,
    }


def is_trusted_everywhere(
    configurations: Iterable[Mapping[str, Any]], namespace: str, certificate: Certificate
) -> bool:
    """Whether every entry has a certificate in its bundle."""
    return all(certificate in each for each in _read_bundles(configurations, namespace))


def find_trusted(
    configurations: Iterable[Mapping[str, Any]], namespace: str
) -> tuple[Certificate, ...]:
    """Return the certificates in the bundles of all entries; unreadable bundles have none."""
    return combine_certificates(*_read_bundles(configurations, namespace))


def _read_bundles(
    configurations: Iterable[Mapping[str, Any]], namespace: str
) -> Iterator[tuple[Certificate, ...]]:
    for configuration in configurations:
        yield from map(_read_certificates, _find_entries(configuration, namespace))


def _find_entries(configuration: Mapping[str, Any], namespace: str) -> Iterator[JSONObject]:
    for webhook in configuration.get("webhooks") or ():
        service = (webhook.get("clientConfig") or {}).get("service") or {}
        if service.get("namespace") == namespace:
            yield webhook


def _read_bundle(entry: Mapping[str, Any]) -> str:
    return (entry.get("clientConfig") or {}).get("caBundle") or ""


def _read_certificates(entry: Mapping[str, Any]) -> tuple[Certificate, ...]:
    try:
        return read_certificates(base64.b64decode(_read_bundle(entry), validate=True))
    except (ValueError, binascii.Error):
        return ()
