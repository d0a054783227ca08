"""The answer cache returns the same responses as a new translation."""

import asyncio
import json
import random
import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import webhook.admission.pods
from drawbridge.agreement.scope import Mode
from drawbridge.process.review import AdmissionRequest, Malformed, decode_review
from tests.tables import YamlValue
from tests.thorough import drawn
from tests.webhook.admission.harness import AdmissionHarness, pod, review
from webhook.admission import answer_cache
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.created_pod import decode_pod, join_metadata
from webhook.admission.namespace_scopes import NamespaceDecision
from webhook.admission.pod_responses import PodResponse
from webhook.admission.pods import PodDecision
from webhook.admission.responses import PartialResponse

FACTS = {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}


def create_owned_pod(kind: str, number: int, pod: YamlValue, seed: int) -> YamlValue:
    """Return a pod of an owner, with the values that are unique to the pod."""
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
    for container in spec["containers"]:
        container.setdefault("volumeMounts", []).append({"name": token, "mountPath": "/var/run"})
    return made


ASKS: st.SearchStrategy[YamlValue] = st.dictionaries(
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
def pods(draw: st.DrawFn) -> YamlValue:
    made = pod(draw(ASKS))
    made["spec"]["containers"][0]["env"] = draw(ENV)
    made["spec"]["containers"][0]["name"] = draw(st.sampled_from(["main", "db-1"]))
    if notes := draw(NOTES):
        made["metadata"]["annotations"] = notes
    if draw(st.booleans()):
        made["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "db-1", "hostname": "db-0"}
    return made


@settings(max_examples=drawn(10, thorough=30))
@given(
    pods(), pods(), st.sampled_from(["ReplicaSet", "StatefulSet", "Job", "DaemonSet"]), st.data()
)
def test_cached_responses_equal_new_responses(
    first: YamlValue, other: YamlValue, kind: str, data: st.DataObject
) -> None:
    numbers = data.draw(st.lists(st.integers(0, 12), min_size=4, max_size=4))
    requested = [
        create_owned_pod(kind, number, first if i % 2 else other, seed)
        for i, (number, seed) in enumerate(zip(numbers, range(4), strict=True))
    ]

    async def compare() -> None:
        harness, fresh = AdmissionHarness(), []
        for request in requested:
            single = AdmissionHarness()
            single.configure({}, FACTS)
            fresh.append(await single.pod(request))
        harness.configure({}, FACTS)
        assert [await harness.pod(each) for each in requested] == fresh

    asyncio.run(compare())


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
def test_pods_of_one_owner_are_translated_once(kind: str) -> None:
    async def ask() -> AdmissionHarness:
        harness = AdmissionHarness()
        for number in range(5):
            answer = await harness.pod(
                create_owned_pod(kind, number, pod({"nvidia.com/gpu": "1"}), number)
            )
            assert answer.patch
        return harness

    harness = asyncio.run(ask())
    # One entry for these bytes, and one for the essence of the pod.
    assert (harness.answers.misses, harness.answers.hits, len(harness.answers)) == (1, 4, 2)


def test_pods_without_an_owner_are_translated_once_for_all_names() -> None:
    async def ask() -> AdmissionHarness:
        harness = AdmissionHarness()
        answers = [
            await harness.pod(
                {**pod({"nvidia.com/gpu": "1"}), "metadata": {"name": f"pod-{number}"}}
            )
            for number in range(5)
        ]
        assert answers[0].patch
        assert all(each.patch == answers[0].patch for each in answers)
        return harness

    harness = asyncio.run(ask())
    assert (harness.answers.misses, harness.answers.hits, len(harness.answers)) == (1, 4, 2)


def test_pods_with_equal_requests_are_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[YamlValue] = []
    decide = webhook.admission.pods.decide

    def counting(*args: YamlValue, **options: YamlValue) -> PodDecision:
        requested.append(args)
        return decide(*args, **options)

    monkeypatch.setattr("webhook.admission.pods.decide", counting)

    async def ask() -> None:
        harness = AdmissionHarness()
        for number in range(5):
            owned = create_owned_pod("ReplicaSet", number, pod({"nvidia.com/gpu": "1"}), number)
            owned["spec"]["containers"][0]["image"] = f"image:{number}"
            assert (await harness.pod(owned)).patch
        assert (harness.answers.hits, len(requested)) == (0, 1)

    asyncio.run(ask())


def test_a_response_that_is_cut_is_used_for_other_pods() -> None:
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
        harness = AdmissionHarness()
        answers = [
            await harness.pod({**many, "metadata": {"name": name}}) for name in ("first", "second")
        ]
        assert answers[0].warnings == answers[1].warnings
        assert answers[0].warnings[-1].startswith("details: ")
        assert harness.answers.hits == 1

    asyncio.run(ask())


def test_new_facts_and_settings_clear_the_cache() -> None:
    async def ask() -> None:
        harness = AdmissionHarness()
        before = await harness.pod(pod({"nvidia.com/gpu": "1"}))
        harness.configure({"findings": {"TolerationAdded": "off"}}, FACTS)
        after = await harness.pod(pod({"nvidia.com/gpu": "1"}))
        assert before.warnings != after.warnings
        assert harness.answers.hits == 0

    asyncio.run(ask())


def response(text: str) -> PodResponse:
    return PodResponse(PodDecision(), PartialResponse(text.encode(), "allowed"))


def build_key(object_: YamlValue) -> answer_cache.AnswerKey:
    request = decode_review(review(object_))
    assert isinstance(request, AdmissionRequest)
    read = decode_pod(request.object)
    assert not isinstance(read, Malformed)
    namespace = NamespaceDecision(Mode.ENFORCE, (), admin_access=False, labels={})
    return answer_cache.build_key(read, join_metadata(read), "team", namespace)


def test_the_least_recently_used_entry_is_evicted_first() -> None:
    cache = AnswerCache(max_entries=2)
    first, two, three = (build_key(pod({"cpu": f"{i}"})) for i in range(3))
    cache.put(first, response("1"), 1)
    cache.put(two, response("2"), 1)
    assert cache.get(first) == response("1")
    cache.put(three, response("3"), 1)
    assert [cache.get(each) for each in (first, two, three)] == [response("1"), None, response("3")]


def test_the_cache_is_bounded_in_bytes() -> None:
    cache = AnswerCache(max_entries=1000, max_bytes=100_000)
    for i in range(200):
        cache.put(build_key(pod({"cpu": f"{i}"}, hostname="h" * 5000)), response("x"), 100)
    assert 5 < len(cache) < 20
    cache.put(build_key(pod({"cpu": "1"}, hostname="h" * 50_000)), response("x"), 1)
    assert len(cache) < 20


def test_a_replaced_entry_is_not_counted_twice() -> None:
    cache: Any = AnswerCache(max_entries=1000, max_bytes=1_000_000)
    for _ in range(1000):
        cache.put(build_key(pod({"cpu": "1"})), response("x"), 50_000)
    assert len(cache) == 1
    cache.put(build_key(pod({"cpu": "2"})), response("x"), 50_000)
    assert len(cache) == 2
