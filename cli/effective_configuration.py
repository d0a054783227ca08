"""Which configuration counts: the file that is named, else a live cluster's own, else the defaults.

Admission follows a ConfigMap, and a command about its cluster that did not would say something
else. Knows nothing of what fields mean.
"""

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from cli import codes, config, live_cluster
from cli.live_cluster import UnreadableError
from cli.streams import Streams
from config.model import Configuration
from documents.document import Located, Source
from documents.paths import get
from documents.values import Value
from dra.names import CONFIGURATION_CONFIG_MAP, NAMESPACE

if TYPE_CHECKING:
    from cluster.session import Session

# As the manifests have it; where else it may be is said by the webhook's own registration.
KEY: Final = "config.yaml"
WEBHOOK: Final = "drawbridge"
_FORBIDDEN: Final = 403


class Settled(NamedTuple):
    """The configuration, None where it is refused; and what is told of that."""

    wanted: Configuration | None
    told: tuple[Located, ...] = ()


def settled(options: argparse.Namespace, streams: Streams, *, asks_cluster: bool) -> Settled:
    """Read the configuration that counts; without `--config` a live cluster is asked."""
    if options.config is not None or not asks_cluster:
        return _settled(config.configuration(options.config, streams))
    try:
        return live_cluster.reading(options, _of_cluster)
    except UnreadableError as error:
        return Settled(None, (error.located,))


def _settled(read: Configuration | tuple[Located, ...], told: tuple[Located, ...] = ()) -> Settled:
    if isinstance(read, Configuration):
        return Settled(read, told)
    return Settled(None, (*told, *read))


async def _of_cluster(session: "Session") -> Settled:
    from cluster import resources  # noqa: PLC0415  # as `cli.live` does
    from cluster.session import ApiError  # noqa: PLC0415

    namespace = await _namespace(session)
    if not namespace:
        return Settled(Configuration())
    try:
        found = await live_cluster.one(
            session, resources.CONFIG_MAPS, CONFIGURATION_CONFIG_MAP, namespace
        )
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        return _unread(error.message)
    text = get(found, ("data", KEY)) if found else None
    if not isinstance(text, str):
        return _unread(f"there is no ConfigMap {namespace}/{CONFIGURATION_CONFIG_MAP} with {KEY}")
    return _settled(config.read(Source(f"{namespace}/{CONFIGURATION_CONFIG_MAP}", text.encode())))


async def _namespace(session: "Session") -> str:
    """Say where Drawbridge is installed; empty where it is not."""
    from cluster import resources  # noqa: PLC0415  # as `cli.live` does
    from cluster.session import ApiError  # noqa: PLC0415

    try:
        found = await live_cluster.one(session, resources.MUTATING_WEBHOOKS, WEBHOOK)
    except ApiError as error:
        if error.code != _FORBIDDEN:
            raise
        # Who may not look at registrations may well read the ConfigMap at its usual place.
        return NAMESPACE
    if found is None:
        return ""
    said: Value = get(found, ("webhooks", 0, "clientConfig", "service", "namespace"))
    return said if isinstance(said, str) and said else NAMESPACE


def _unread(why: str) -> Settled:
    finding = codes.CONFIGURATION_UNREAD.at("", f"{why}; the defaults count")
    return Settled(Configuration(), (Located(finding, "", 0, 0),))
