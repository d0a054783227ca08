"""A remembered answer is the one that would be given afresh, and nobody else's."""

import asyncio
import json
import random
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webhook.admission.pods
from runtime.review import Malformed, Request, decode
from tests.tables import Plain
from tests.webhook.admission.harness import Town, pod, review
from webhook.admission import answer_cache
from webhook.admission.answer_cache import Memory
from webhook.admission.created_pod import bare
from webhook.admission.pods import Answer, Outcome, Said

FACTS = {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}


def of_owner(kind: str, number: int, pod: Plain, seed: int) -> Plain:
    """Write a pod as the owner's controller and the API server do, with what is its own."""
    random_ = random.Random(seed)
    token = "kube-api-access-" + "".join(random_.choices(string.ascii_lowercase, k=5))
    made = json.loads(json.dumps(pod))
    metadata, spec = made["metadata"], made["spec"]
    name = f"db-{number}" if kind == "StatefulSet" else ""
    generated = f"train-{number}-" if kind == "Job" else "web-6b7f5c4d9-"
    metadata.pop("name", None)
    metadata |= {"name": name} if name else {"generateName": generated}
    metadata["ownerReferences"] = [{"kind": kind, "name": "o", "uid": "1", "controller": True}]
    metadata["managedFields"] = [{"manager": "m", "time": f"2026-01-01T00:00:{seed % 60:02}Z"}]
    if kind == "StatefulSet":
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": f"{number}",
        }
        metadata["labels"] = {**metadata.get("labels", {}), **labels}
        spec["hostname"] = name
        claim = {"persistentVolumeClaim": {"claimName": f"data-{name}"}}
        spec.setdefault("volumes", []).append({"name": "data", **claim})
    if kind == "Job":
        index = {"batch.kubernetes.io/job-completion-index": f"{number}"}
        for part in ("labels", "annotations"):
            metadata[part] = {**metadata.get(part, {}), **index}
        spec["hostname"] = f"train-{number}"
    spec.setdefault("volumes", []).append({"name": token, "projected": {"sources": []}})
    for each in spec["containers"]:
        each.setdefault("volumeMounts", []).append({"name": token, "mountPath": "/var/run"})
    return made


ASKS: st.SearchStrategy[Plain] = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/gpumem", "cpu", "koordinator.sh/gpu"]),
    st.sampled_from(["1", "2", "100", "x"]),
    max_size=3,
)
NOTES = st.dictionaries(
    st.sampled_from(["nvidia.com/use-gputype", "mine", "nvidia.com/use-gpuuuid"]),
    st.sampled_from(["A100", "db-1", "web", "kube-api-access-abcde"]),
    max_size=2,
)
ENV = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "hostname", "CUDA_VISIBLE_DEVICES"]),
            "value": st.sampled_from(
                ["db-0", "db-1", "all", '"hostname":"db-1"', "kube-api-access-aaaaa"]
            ),
        }
    ),
    max_size=2,
)


@st.composite
def pods(draw: st.DrawFn) -> Plain:
    made = pod(draw(ASKS))
    made["spec"]["containers"][0]["env"] = draw(ENV)
    made["spec"]["containers"][0]["name"] = draw(st.sampled_from(["main", "db-1"]))
    if notes := draw(NOTES):
        made["metadata"]["annotations"] = notes
    if draw(st.booleans()):
        made["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "db-1", "hostname": "db-0"}
    return made


@settings(deadline=None, max_examples=30)
@given(
    pods(), pods(), st.sampled_from(["ReplicaSet", "StatefulSet", "Job", "DaemonSet"]), st.data()
)
def test_a_remembered_answer_is_what_a_fresh_one_would_be(
    one: Plain, other: Plain, kind: str, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, 12), min_size=4, max_size=4))
    asked = [
        of_owner(kind, number, one if i % 2 else other, seed)
        for i, (number, seed) in enumerate(zip(numbers, range(4), strict=True))
    ]

    async def compare() -> None:
        town, fresh = Town(), []
        for each in asked:
            alone = Town()
            alone.decides({}, FACTS)
            fresh.append(await alone.pod(each))
        town.decides({}, FACTS)
        assert [await town.pod(each) for each in asked] == fresh

    asyncio.run(compare())


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
def test_pods_of_one_owner_are_translated_once(kind: str) -> None:
    async def ask() -> Town:
        town = Town()
        for number in range(5):
            answer = await town.pod(of_owner(kind, number, pod({"nvidia.com/gpu": "1"}), number))
            assert answer.patch
        return town

    town = asyncio.run(ask())
    # One entry for pods of these bytes, and one for all that ask alike.
    assert (town.memory.misses, town.memory.hits, len(town.memory)) == (1, 4, 2)


def test_pods_without_an_owner_are_translated_once_whatever_their_names() -> None:
    async def ask() -> Town:
        town = Town()
        answers = [
            await town.pod({**pod({"nvidia.com/gpu": "1"}), "metadata": {"name": f"pod-{number}"}})
            for number in range(5)
        ]
        assert answers[0].patch
        assert all(each.patch == answers[0].patch for each in answers)
        return town

    town = asyncio.run(ask())
    assert (town.memory.misses, town.memory.hits, len(town.memory)) == (1, 4, 2)


def test_pods_that_ask_alike_are_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Plain] = []
    decide = webhook.admission.pods.decide

    def counting(*args: Plain) -> Outcome:
        asked.append(args)
        return decide(*args)

    monkeypatch.setattr("webhook.admission.pods.decide", counting)

    async def ask() -> None:
        town = Town()
        for number in range(5):
            one = of_owner("ReplicaSet", number, pod({"nvidia.com/gpu": "1"}), number)
            one["spec"]["containers"][0]["image"] = f"image:{number}"
            assert (await town.pod(one)).patch
        assert (town.memory.hits, len(asked)) == (0, 1)

    asyncio.run(ask())


def test_the_name_of_one_pod_is_not_told_to_another() -> None:
    many = pod(
        containers=[
            {
                "name": f"c{i}",
                "resources": {"limits": {"nvidia.com/gpu": 1}},
                "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "v" * 300}],
            }
            for i in range(16)
        ]
    )

    async def ask() -> None:
        town = Town()
        for name in ("first", "second"):
            answer = await town.pod({**many, "metadata": {"name": name}})
            assert answer.warnings[-1] == f"all of it: kubectl drawbridge explain {name} -n team"
        assert town.memory.hits == 0
        await town.pod({**many, "metadata": {"name": "first"}})
        assert town.memory.hits == 1

    asyncio.run(ask())


def test_other_facts_and_other_settings_forget_what_was_said() -> None:
    async def ask() -> None:
        town = Town()
        before = await town.pod(pod({"nvidia.com/gpu": "1"}))
        town.decides({"findings": {"TolerationAdded": "off"}}, FACTS)
        after = await town.pod(pod({"nvidia.com/gpu": "1"}))
        assert before.warnings != after.warnings
        assert town.memory.hits == 0

    asyncio.run(ask())


def said(text: str) -> Answer:
    return Answer(Outcome(), Said(text.encode(), "allowed"))


def key_of(object_: Plain) -> answer_cache.Key:
    request = decode(review(object_))
    assert isinstance(request, Request)
    read = bare(request.object)
    assert not isinstance(read, Malformed)
    return answer_cache.key(read, "team", "enforce")


def test_what_is_used_least_goes_first() -> None:
    kept = Memory(entries=2)
    one, two, three = (key_of(pod({"cpu": f"{i}"})) for i in range(3))
    kept.put(one, said("1"), 1)
    kept.put(two, said("2"), 1)
    assert kept.get(one) == said("1")
    kept.put(three, said("3"), 1)
    assert [kept.get(each) for each in (one, two, three)] == [said("1"), None, said("3")]


def test_memory_is_bounded_in_bytes() -> None:
    kept = Memory(entries=1000, most=100_000)
    for i in range(200):
        kept.put(key_of(pod({"cpu": f"{i}"}, hostname="h" * 5000)), said("x"), 100)
    assert 5 < len(kept) < 20
    kept.put(key_of(pod({"cpu": "1"}, hostname="h" * 50_000)), said("x"), 1)
    assert len(kept) < 20


def test_bytes_that_are_put_again_are_not_counted_twice() -> None:
    kept: Any = Memory(entries=1000, most=1_000_000)
    for _ in range(1000):
        kept.put(key_of(pod({"cpu": "1"})), said("x"), 50_000)
    assert len(kept) == 1
    kept.put(key_of(pod({"cpu": "2"})), said("x"), 50_000)
    assert len(kept) == 2
