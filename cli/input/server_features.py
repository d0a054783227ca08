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
from drawbridge.names import FACTS_CONFIG_MAP, NAMESPACE

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session
    from drawbridge.facts.model import Facts


class ServerFeatures(NamedTuple):
    """The version of an API server, and the facts that the controller published, if one may read.

    `findings` tell why there are none: whoever prints translations adds them. The `reason` is the
    same without what follows from it.
    """

    version: str = ""
    published: "Facts | None" = None
    findings: tuple[LocatedFinding, ...] = ()
    reason: str = ""
    is_forbidden: bool = False  # whether the person may not read the published facts
    is_installed: bool = False  # as far as the person may read
    namespace: str = ""  # of the installation, where that is known

    @property
    def keeps(self) -> tuple[str, ...] | None:
        """The fields of claims that the API server stores; None if unknown."""
        return self.published.cluster.keeps if self.published else None


async def read_server_features(session: "Session", options: argparse.Namespace) -> ServerFeatures:
    """Read the version and the published facts; these only if the options name no gates."""
    version = await session.version()
    if options.kubernetes_version or options.feature_gates:
        return ServerFeatures(version)
    registered = await installed_namespace.find_registered(session)
    namespace = NAMESPACE if registered is None else registered
    read = await _read_published(session, namespace) if namespace else None
    if read is not None and not isinstance(read, _Unusable):
        return ServerFeatures(version, read, is_installed=True, namespace=namespace)
    missing = f"{_name_source(namespace)} not found" if namespace else "nothing is installed"
    reason = missing if read is None else read.reason
    message = f"{reason}; taking the default feature gates of Kubernetes {version}"
    finding = codes.FEATURES_ASSUMED.at("", message)
    if read is None and not registered:
        finding = replace(finding, severity=Severity.INFO)
    return ServerFeatures(
        version,
        findings=(LocatedFinding(finding),),
        reason=reason,
        is_forbidden=read is not None and read.is_forbidden,
        is_installed=read is not None or bool(registered),
        namespace=registered or "",
    )


def _name_source(namespace: str) -> str:
    return f"ConfigMap {namespace}/{FACTS_CONFIG_MAP}"


class _Unusable(NamedTuple):
    reason: str
    is_forbidden: bool = False


async def _read_published(session: "Session", namespace: str) -> "Facts | _Unusable | None":
    """Return the published facts, or why they cannot be read; None if there are none."""
    from drawbridge.agreement.published_facts import (  # noqa: PLC0415  # loaded on demand
        FactsConfigMap,
        PublishedFactsError,
        read_facts,
    )
    from drawbridge.cluster import resources  # noqa: PLC0415  # same

    try:
        config_map = await live_cluster.read_object(
            session, resources.CONFIG_MAPS, FACTS_CONFIG_MAP, namespace
        )
        if config_map is None:
            return None
        return read_facts(msgspec.convert(config_map, FactsConfigMap))
    except ApiError as error:
        if not error.forbidden:
            raise
        return _Unusable(error.message, is_forbidden=True)
    except (PublishedFactsError, msgspec.ValidationError) as error:
        return _Unusable(f"{_name_source(namespace)}: {error}")
