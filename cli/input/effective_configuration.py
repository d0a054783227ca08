"""Finds the configuration for a command: `--config`, the live cluster's own, or the defaults.

The processes use what the controller has accepted, which is in a ConfigMap. A command about a live
cluster reads the same ConfigMap, so that both get the same results.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cli.input import codes, installed_namespace, live_cluster
from cli.input.configuration_file import read_configuration, read_configuration_file
from cli.input.live_cluster import ClusterReadError
from cli.terminal.streams import Streams
from drawbridge.api_error import ApiError
from drawbridge.cluster import resources
from drawbridge.config.model import Configuration
from drawbridge.documents.document import LocatedFinding, Source
from drawbridge.documents.paths import get_value
from drawbridge.names import (
    CONFIGURATION_CONFIG_MAP,
    CONFIGURATION_IN_USE_CONFIG_MAP,
    CONFIGURATION_KEY,
)

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session

# The names in the manifests of Drawbridge. The namespace is read from the webhook registration.
_FORBIDDEN: Final = 403
_CORRECT: Final = (
    "Run the command of the version that is installed in the cluster, or correct the ConfigMap "
    f"{CONFIGURATION_CONFIG_MAP}."
)


class EffectiveConfiguration(NamedTuple):
    """The configuration, None if it is invalid, and the findings about it."""

    configuration: Configuration | None
    findings: tuple[LocatedFinding, ...] = ()


def read_effective_configuration(
    options: argparse.Namespace, streams: Streams, *, asks_cluster: bool, is_required: bool = True
) -> EffectiveConfiguration:
    """Read the configuration from `--config`, or else from the live cluster.

    If that of the cluster is not valid and not required, the defaults take its place.
    """
    if options.config is not None or not asks_cluster:
        return _with_findings(read_configuration_file(options.config, streams))
    try:
        read = partial(_read_from_cluster, is_required=is_required)
        return live_cluster.run_with_session(options, read)
    except ClusterReadError as error:
        return EffectiveConfiguration(None, (error.located,))


def _with_findings(
    read: Configuration | tuple[LocatedFinding, ...], findings: tuple[LocatedFinding, ...] = ()
) -> EffectiveConfiguration:
    if isinstance(read, Configuration):
        return EffectiveConfiguration(read, findings)
    return EffectiveConfiguration(None, (*findings, *read))


async def _read_from_cluster(session: "Session", *, is_required: bool) -> EffectiveConfiguration:
    namespace = await installed_namespace.find(session)
    if not namespace:
        return EffectiveConfiguration(Configuration())
    reason = refused = ""
    # No controller has accepted the configuration of a new installation yet.
    for name in (CONFIGURATION_IN_USE_CONFIG_MAP, CONFIGURATION_CONFIG_MAP):
        where = f"{namespace}/{name}"
        try:
            config_map = await live_cluster.read_object(
                session, resources.CONFIG_MAPS, name, namespace
            )
        except ApiError as error:
            if error.code != _FORBIDDEN:
                raise
            reason = refused = error.message
            continue
        text = get_value(config_map, ("data", CONFIGURATION_KEY)) if config_map else None
        if isinstance(text, str):
            read = read_configuration(Source(where, text.encode()))
            if isinstance(read, tuple) and not is_required:
                reason = f"ConfigMap {where} is not valid here: {_describe(read)}"
                return _use_defaults(reason, _CORRECT)
            told = tuple(_find_refusal(config_map, where))
            return _with_findings(read, (*_report_edited(refused, where), *told))
        reason = f"ConfigMap {where} with the key {CONFIGURATION_KEY} not found"
    return _use_defaults(reason)


def _report_edited(refused: str, where: str) -> Iterator[LocatedFinding]:
    """Yield a warning if the configuration is the one that is edited, for lack of a right."""
    if refused:
        message = f"{refused}; ConfigMap {where} is used, which may differ from what is in use"
        yield LocatedFinding(codes.PART_UNREADABLE.at("", message))


def _find_refusal(config_map: object, where: str) -> Iterator[LocatedFinding]:
    """Yield a warning if the configuration in use is not the one that administrators offer."""
    from drawbridge.agreement.configuration_in_use import (  # noqa: PLC0415  # loaded on demand
        ConfigurationConfigMap,
        read_condition,
    )
    from drawbridge.agreement.operation_codes import CONFIGURATION_REJECTED  # noqa: PLC0415

    condition = read_condition(msgspec.convert(config_map, ConfigurationConfigMap))
    if condition is not None and condition.status != "True":
        message = f"the last valid one stays in use: {condition.message}"
        yield LocatedFinding(CONFIGURATION_REJECTED.at("", message), where)


def _describe(findings: tuple[LocatedFinding, ...]) -> str:
    from drawbridge.agreement.configuration_in_use import (  # noqa: PLC0415  # loaded on demand
        describe_findings,
    )

    return describe_findings([each.finding for each in findings])


def _use_defaults(reason: str, remedy: str | None = None) -> EffectiveConfiguration:
    message = f"{reason}; using the defaults"
    finding = codes.CONFIGURATION_NOT_READ.at("", message, remedy=remedy)
    return EffectiveConfiguration(Configuration(), (LocatedFinding(finding),))
