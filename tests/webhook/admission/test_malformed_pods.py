"""Malformed pods get a response, and each patch applies to its pod.

The API server does not send such pods. Other clients must not cause an exception or a patch that
cannot be applied.
"""

import copy
import random
import sys
from collections.abc import Iterator

import pytest

from drawbridge.documents.paths import Path, get_value
from tests.tables import YamlValue
from tests.translate.test_interest import pods
from tests.webhook.admission.harness import (
    ENFORCE,
    SECONDS,
    AdmissionHarness,
    FakeClusterView,
    review,
)
from webhook.admission.replies import await_reply

WRONG_VALUES: tuple[YamlValue, ...] = (
    None, 1, -1, 1.5, True, "text", "\u2028", [], {}, [None], [{}], [1, "a"], {"a": None},
    [{"name": "main"}], [{"name": 1}], [{"matchExpressions": None}], [{"matchExpressions": []}, {}],
)  # fmt: skip
PLUGIN = [{"name": "nvidia.com/gpu", "nodes": 3, "devices": 24, "most": 8}]
FACTS: tuple[YamlValue, ...] = (
    None,
    {"classes": [{"name": "gpu.nvidia.com"}, {"name": "dra.net"}]},
    {"classes": [{"name": "gpu.nvidia.com"}], "names": PLUGIN},
)
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}


def find_paths(value: YamlValue, path: Path = ()) -> Iterator[Path]:
    """Yield every path below the root of a value."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*path, key)
        yield from find_paths(value[key], (*path, key))


def damage(pod: YamlValue, random_: random.Random) -> YamlValue:
    """Remove or replace up to three values of a pod."""
    pod = copy.deepcopy(pod)
    for _ in range(random_.randint(1, 3)):
        # The kind is in the envelope too.
        paths = [each for each in find_paths(pod) if each[0] not in ("kind", "apiVersion")]
        if not paths:
            break
        path = random_.choice(paths)
        parent: YamlValue = get_value(pod, path[:-1])
        if random_.random() < 0.3:
            del parent[path[-1]]
        else:
            parent[path[-1]] = copy.deepcopy(random_.choice(WRONG_VALUES))
    return pod


def create_harness(random_: random.Random) -> AdmissionHarness:
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": ENFORCE}))
    harness.configure({}, random_.choice(FACTS))
    return harness


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(8))
async def test_patches_apply_and_a_second_review_changes_nothing(seed: int) -> None:
    random_ = random.Random(seed)
    harness = create_harness(random_)
    translated = 0
    for _ in range(100):
        pod = damage({**random_.choice(pods()), "kind": "Pod"}, random_)
        response = await harness.pod(pod, name="p")
        if response.patch:
            translated += 1
            assert not (await harness.pod(response.after, name="p")).patch, pod
    assert translated


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(4))
async def test_patches_of_malformed_updates_apply(seed: int) -> None:
    random_ = random.Random(seed)
    harness = create_harness(random_)
    for _ in range(100):
        original = {**random_.choice(pods()), "kind": "Pod"}
        current = (await harness.pod(original, name="p")).after
        old = current if random_.random() < 0.6 else damage(current, random_)
        update = damage(random_.choice((original, current)), random_)
        await harness.pod(update, name="p", operation="UPDATE", old=old)


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(4))
async def test_malformed_workloads_get_a_response(seed: int) -> None:
    random_ = random.Random(seed)
    harness = create_harness(random_)
    for _ in range(100):
        spec = {"template": random_.choice(pods())}
        workload = damage({**DEPLOYMENT, "spec": spec}, random_)
        response = await harness.workload({**workload, **DEPLOYMENT}, name="w")
        assert not response.patch


def nest(depth: int) -> YamlValue:
    value: YamlValue = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.asyncio
async def test_updates_that_are_nested_too_deeply_get_a_response() -> None:
    harness = AdmissionHarness()
    # Other tests can have changed the limit: Hypothesis does.
    deep = {"schedulerName": nest(sys.getrecursionlimit() - 200)}
    before = {"metadata": {"annotations": {"drawbridge.dev/original": "[]"}}, "spec": deep}
    reply = await await_reply(
        harness.admission.review_pod(review(before, operation="UPDATE", old=before), SECONDS)
    )
    assert b'"message":"the object is nested too deeply"' in reply.body
    workload = {**DEPLOYMENT, "spec": {"template": {"spec": deep}}}
    body = review(workload, operation="UPDATE", old=workload)
    reply = await harness.admission.review_workload(body, SECONDS)
    assert b'"message":"the object is nested too deeply"' in reply.body
