"""Finds out which version of a resource the API server serves."""

from collections.abc import Sequence

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import decode_response
from drawbridge.cluster.resources import TAINT_RULE_VERSIONS, TAINT_RULES, Resource
from drawbridge.cluster.session import Session


class _Served(msgspec.Struct):
    name: str


class _ServedResources(msgspec.Struct):
    resources: list[_Served] = []


async def find_served(
    session: Session, resource: Resource, versions: Sequence[str]
) -> Resource | None:
    """Return the resource at the first of these versions that is served; None without any."""
    for version in versions:
        candidate = resource.at_version(version)
        try:
            response = await session.call("GET", candidate.root)
        except ApiError as error:
            if error.not_found:
                continue
            raise
        served = decode_response(response, _ServedResources)
        if any(each.name == resource.plural for each in served.resources):
            return candidate
    return None


async def find_taint_rules(session: Session) -> Resource | None:
    """Return DeviceTaintRules at the newest version that is served; None without any."""
    return await find_served(session, TAINT_RULES, TAINT_RULE_VERSIONS)
