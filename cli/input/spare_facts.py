"""Decides whether published facts take the place of objects that a person may not list."""

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from cli.input import codes
from cli.input.server_features import ServerFeatures
from drawbridge.names import NAMESPACE

if TYPE_CHECKING:
    from drawbridge.facts.model import Facts

_INSTEAD: Final = "the published facts decide{}, and claims are compared with no devices"
_OF_INSTALLED: Final = " (computed with the installed configuration, and not with that of --config)"


class SpareFacts(NamedTuple):
    """The published facts and what is told of them; or why there are none, and what to do."""

    facts: "Facts | None" = None
    reason: str = ""
    remedy: str = codes.ASK_FOR_READER


def find_spare_facts(server: ServerFeatures, options: argparse.Namespace) -> SpareFacts:
    """Return the published facts, unless the options ask for what these do not have."""
    if options.cluster:
        return SpareFacts(reason="the published facts do not have the objects of --cluster")
    if options.kubernetes_version or options.feature_gates:
        reason = "the published facts are not those of --kubernetes-version or --feature-gates"
        return SpareFacts(reason=reason, remedy=codes.ASK_WITHOUT_GATES)
    if server.published is not None:
        configured = _OF_INSTALLED if options.config is not None else ""
        return SpareFacts(server.published, _INSTEAD.format(configured))
    if server.is_forbidden:
        where = f"namespace {server.namespace}"
        if not server.namespace:
            where = f"the namespace of Drawbridge ({NAMESPACE} by default)"
        remedy = codes.ASK_FOR_FACTS.format(where=where)
    elif server.is_installed:
        remedy = codes.ASK_ABOUT_FACTS
    else:
        remedy = codes.ASK_FOR_LISTS
    reason = f"there are no published facts instead: {server.reason}"
    return SpareFacts(reason=reason, remedy=remedy)
