"""The configuration is reviewed in a process that ends with the review."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from drawbridge.names import CONFIGURATION_CONFIG_MAP, CONFIGURATION_KEY
from tests.cluster.fake.configuration import HEAD
from webhook.server.configuration_reviews import MAX_WAITING, ConfigurationReviews

pytestmark = pytest.mark.asyncio


def body(placement: str) -> bytes:
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "operation": "UPDATE",
        "namespace": "drawbridge-system",
        "name": CONFIGURATION_CONFIG_MAP,
        "object": {"data": {CONFIGURATION_KEY: f"{HEAD}placement: {placement}\n"}},
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "request": request}).encode()


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


async def test_a_refused_configuration_is_denied_and_no_process_is_left() -> None:
    before, reviews = children(), ConfigurationReviews()
    denied = await reviews.review(body("natve"), 4.0)
    assert (denied.outcome, b"placement" in denied.body) == ("denied", True)
    assert (await reviews.review(body("native"), 4.0)).outcome == "allowed"
    assert children() == before


async def test_a_configuration_beyond_those_that_wait_is_allowed_unchecked() -> None:
    reviews = ConfigurationReviews()
    waiting = [
        asyncio.create_task(reviews.review(body("natve"), 4.0)) for _ in range(MAX_WAITING + 1)
    ]
    await asyncio.sleep(0)
    reply = await reviews.review(body("natve"), 4.0)
    assert (reply.outcome, b"was not checked" in reply.body) == ("error", True)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
