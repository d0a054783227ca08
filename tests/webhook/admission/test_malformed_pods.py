"""Pods of the tables with something wrong anywhere in them: each answer fits the pod it is about.

The API server sends nothing of the kind; whoever else does must meet neither a bug nor a patch that
cannot be applied.
"""

import copy
import random
from collections.abc import Iterator

import pytest

from documents.paths import Path, get
from tests.tables import Plain
from tests.translate.test_interest import pods
from tests.webhook.admission.harness import ENFORCE, Known, Town

JUNK: tuple[Plain, ...] = (
    None, 1, -1, 1.5, True, "text", "\u2028", [], {}, [None], [{}], [1, "a"], {"a": None},
    [{"name": "main"}], [{"name": 1}], [{"matchExpressions": None}], [{"matchExpressions": []}, {}],
)  # fmt: skip
PLUGIN = [{"name": "nvidia.com/gpu", "nodes": 3, "devices": 24, "most": 8}]
FACTS: tuple[Plain, ...] = (
    None,
    {"classes": [{"name": "gpu.nvidia.com"}, {"name": "dra.net"}]},
    {"classes": [{"name": "gpu.nvidia.com"}], "names": PLUGIN},
)
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}


def places(value: Plain, path: Path = ()) -> Iterator[Path]:
    """Every place below the top of a value."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def spoil(pod: Plain, chance: random.Random) -> Plain:
    """Take something out of a pod, or put something else in its place, once or thrice."""
    pod = copy.deepcopy(pod)
    for _ in range(chance.randint(1, 3)):
        # The kind is of the envelope as well.
        found = [each for each in places(pod) if each[0] not in ("kind", "apiVersion")]
        if not found:
            break
        path = chance.choice(found)
        held: Plain = get(pod, path[:-1])
        if chance.random() < 0.3:
            del held[path[-1]]
        else:
            held[path[-1]] = copy.deepcopy(chance.choice(JUNK))
    return pod


def town(chance: random.Random) -> Town:
    found = Town(Known(namespaces={"team": ENFORCE}))
    found.decides({}, chance.choice(FACTS))
    return found


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(8))
async def test_what_is_patched_can_be_and_a_second_time_nothing_is(seed: int) -> None:
    chance = random.Random(seed)
    there = town(chance)
    translated = 0
    for _ in range(100):
        pod = spoil({**chance.choice(pods()), "kind": "Pod"}, chance)
        answer = await there.pod(pod, name="p")
        if answer.patch:
            translated += 1
            assert not (await there.pod(answer.after, name="p")).patch, pod
    assert translated


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(4))
async def test_an_update_of_a_translated_pod_is_patched_as_it_can_be(seed: int) -> None:
    chance = random.Random(seed)
    there = town(chance)
    for _ in range(100):
        asked = {**chance.choice(pods()), "kind": "Pod"}
        stands = (await there.pod(asked, name="p")).after
        old = stands if chance.random() < 0.6 else spoil(stands, chance)
        update = spoil(chance.choice((asked, stands)), chance)
        await there.pod(update, name="p", operation="UPDATE", old=old)


@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(4))
async def test_a_workload_has_an_answer_whatever_it_makes(seed: int) -> None:
    chance = random.Random(seed)
    there = town(chance)
    for _ in range(100):
        spec = {"template": chance.choice(pods())}
        workload = spoil({**DEPLOYMENT, "spec": spec}, chance)
        answer = await there.workload({**workload, **DEPLOYMENT}, name="w")
        assert not answer.patch
