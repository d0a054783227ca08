"""Generated requests: the API answers what its document says, and tells no secret."""

import asyncio
import json
from pathlib import Path

import pytest

from allocator.api.openapi import openapi_document, render_openapi
from tests.allocator.api_fuzz import (
    RIGHTS,
    SECRETS,
    RequestMaker,
    ResponseChecker,
    SentRequest,
    make_cluster,
    send,
)
from tests.allocator.api_served import ReviewServer, serving_api

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"


@pytest.mark.parametrize("seed", range(4))
def test_responses_match_the_document_and_no_request_is_a_server_error(seed: int) -> None:
    maker = RequestMaker(openapi_document(), seed)

    async def run() -> dict[int, int]:
        reviews = ReviewServer({name: name for name in RIGHTS}, RIGHTS)
        async with serving_api(make_cluster(), reviews) as served:
            return await send(served, (maker.make() for _ in range(150)))

    seen = asyncio.run(run())
    assert {200, 400, 401, 403} <= seen.keys()


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (500, {"code": "Bug", "message": "m"}, "status 500"),
        (418, {}, "not documented"),
        (200, {"items": 3}, "does not match"),
        (200, {"items": [], "leading": True, "continue": SECRETS[0]}, "is told"),
    ],
)
def test_the_checker_finds_what_is_wrong(status: int, body: object, problem: str) -> None:
    checker = ResponseChecker(openapi_document())
    sent = SentRequest("GET", "/v1/allocations", "/v1/allocations", {}, None)
    (first, *_) = checker.problems(sent, status, json.dumps(body).encode())
    assert problem in first


def test_the_committed_document_is_what_the_api_serves() -> None:
    async def run() -> object:
        async with serving_api(make_cluster(), ReviewServer({}, {}), is_local=True) as served:
            return (await served.send("GET /v1/openapi.json"))[1]

    assert asyncio.run(run()) == json.loads(DOCUMENT.read_text())
    assert DOCUMENT.read_text() == render_openapi()
