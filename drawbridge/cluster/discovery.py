"""Finds out which version of a resource the API server serves, and when that has changed."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from drawbridge.api_error import ApiError
from drawbridge.cluster.errors import decode_response
from drawbridge.cluster.resources import TAINT_RULE_VERSIONS, TAINT_RULES, Resource
from drawbridge.cluster.session import Session

T = TypeVar("T")
# The pauses between two questions.
ASK_SECONDS: Final = (45.0, 75.0)
# While a control plane is upgraded, servers of two versions answer: by turns, or one for as long as
# a load balancer keeps a connection to it. A process that ends then could soon end again.
SAME_ANSWERS: Final = 10


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


async def wait_until_changed(
    find: Callable[[], Awaitable[T]],
    before: T,
    count_needed: Callable[[], int] = lambda: SAME_ANSWERS,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Return what is served once enough answers in a row differ from what was served before.

    An error says nothing about it, so that the count starts again.
    """
    differing = 0
    while True:
        await pause(random.uniform(*ASK_SECONDS))  # noqa: S311  # jitter
        try:
            served = await find()
        except ApiError:
            served = before
        differing = differing + 1 if served != before else 0
        if differing >= count_needed():
            return served
