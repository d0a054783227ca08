"""Reads the version of a live API server, and which optional fields of claims it stores.

The controller probes the fields by dry runs and publishes the result with the facts. A command
only reads, so it takes what is published, and without that the defaults of the version.
"""

import argparse
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from cli.input import codes, installed_namespace, live_cluster
from drawbridge.api_error import ApiError
from drawbridge.documents.document import LocatedFinding
from drawbridge.finding import Severity
from drawbridge.names import FACTS_CONFIG_MAP

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session


class ServerFeatures(NamedTuple):
    """The version of an API server, and the fields of claims that it stores; None if unknown.

    `findings` tell why they are not known: whoever prints translations adds them.
    """

    version: str = ""
    keeps: tuple[str, ...] | None = None
    findings: tuple[LocatedFinding, ...] = ()


async def read_server_features(session: "Session", options: argparse.Namespace) -> ServerFeatures:
    """Read the version and the published fields; these only if the options name no gates."""
    version = await session.version()
    if options.kubernetes_version or options.feature_gates:
        return ServerFeatures(version)
    namespace = await installed_namespace.find(session)
    read = await _read_published(session, namespace) if namespace else "nothing is installed"
    if not isinstance(read, str):
        return ServerFeatures(version, read)
    message = f"{read}; taking the default feature gates of Kubernetes {version}"
    finding = codes.FEATURES_ASSUMED.at("", message)
    if not namespace:
        finding = replace(finding, severity=Severity.INFO)
    return ServerFeatures(version, findings=(LocatedFinding(finding),))


async def _read_published(session: "Session", namespace: str) -> tuple[str, ...] | str:
    """Return the published fields, or why they are not known."""
    from drawbridge.agreement.published_facts import (  # noqa: PLC0415  # loaded on demand
        FactsConfigMap,
        PublishedFactsError,
        read_facts,
    )
    from drawbridge.cluster import resources  # noqa: PLC0415  # same

    where = f"ConfigMap {namespace}/{FACTS_CONFIG_MAP}"
    try:
        config_map = await live_cluster.read_object(
            session, resources.CONFIG_MAPS, FACTS_CONFIG_MAP, namespace
        )
        if config_map is None:
            return f"{where} not found"
        return read_facts(msgspec.convert(config_map, FactsConfigMap)).cluster.keeps
    except ApiError as error:
        if not error.forbidden:
            raise
        return error.message
    except (PublishedFactsError, msgspec.ValidationError) as error:
        return f"{where}: {error}"
