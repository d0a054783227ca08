"""Reviews of every kind of damage: each gets the answer that fits, and none an exception."""

import asyncio
import copy
import json
import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.review import Malformed, Request, decode
from tests.tables import Plain
from tests.webhook.admission.harness import Known, Town, pod, review
from webhook.admission.handler import Reply

GOOD = review(pod({"nvidia.com/gpu": "1"}))
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


async def asked(body: bytes) -> tuple[Reply, Reply]:
    town = Town(Known(namespaces={"team": {"drawbridge.dev/translate": "enforce"}, "": {}}))
    return await town.admission.pods(body), await town.admission.workloads(body)


def right(reply: Reply) -> None:
    """Check that an answer is one that the API server can read."""
    if reply.status == 400:
        assert not reply.uid
        assert reply.body
        assert reply.outcome == "error"
        return
    assert reply.status == 200
    answer = msgspec.json.decode(reply.body)
    response = answer["response"]
    assert response["uid"] == reply.uid != ""
    if not response["allowed"]:
        status = response["status"]
        assert status["code"] in {400, 403, 422, 503}
        assert status["message"]
        assert status["reason"]


def replies(body: bytes) -> tuple[Reply, Reply]:
    both = asyncio.run(asked(body))
    for each in both:
        right(each)
    return both


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.admission.handler._STEP", 1e-9)


def test_a_pod_without_a_namespace_is_refused_by_that() -> None:
    whole = msgspec.json.decode(GOOD)
    del whole["request"]["namespace"]
    reply, _ = replies(msgspec.json.encode(whole))
    status = msgspec.json.decode(reply.body)["response"]["status"]
    assert (reply.outcome, status["code"]) == ("error", 400)
    assert "request.namespace" in status["message"]


def test_a_good_one_is_translated() -> None:
    assert replies(GOOD)[0].outcome == "translated"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"\xff\xfe",
        b"{" * 100_000,
        b"[" * 1_000_000,
        b'{"request":' * 20_000,
        GOOD[:-1],
        GOOD + b"}",
        GOOD.replace(b'"uid":"7', b'"uid":7'),
        GOOD.replace(UID.encode(), b""),
        GOOD.replace(b'"request":', b'"requests":'),
    ],
)
def test_what_is_no_review_is_no_request(body: bytes) -> None:
    for each in replies(body):
        assert each.status == 400


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
        (b'"AdmissionReview"', b'"Review"'),
        (b'"operation":"CREATE"', b'"operation":7'),
        (b'"operation":"CREATE"', b'"operation":"create"'),
        (b'"operation":"CREATE"', b'"operation":"' + b"x" * 999 + b'"'),
        (b'"operation":"CREATE"', b'"operations":"CREATE"'),
        (b'"kind":{"group"', b'"kinds":{"group"'),
        (b'"dryRun":false', b'"dryRun":"no"'),
        (
            b'"namespace":"team","name":"p","operation"',
            b'"namespace":["team"],"name":"p","operation"',
        ),
    ],
)
def test_what_is_wrong_around_a_uid_is_refused_by_it(old: bytes, new: bytes) -> None:
    assert old in GOOD
    for each in replies(GOOD.replace(old, new)):
        assert each.uid == UID
        assert msgspec.json.decode(each.body)["response"]["status"]["code"] == 400


def test_of_a_key_twice_the_last_counts_as_for_the_api_server() -> None:
    twice = GOOD.replace(b'"operation":"CREATE"', b'"operation":"DELETE","operation":"CREATE"')
    assert replies(twice)[0].outcome == "translated"


def test_invalid_utf_8_within_the_pod_is_refused() -> None:
    for reply in replies(GOOD.replace(b'"image":"x"', b'"image":"\xff"')):
        assert reply.uid == UID or reply.status == 400
        assert reply.outcome == "error"


def test_a_pod_nested_without_end_is_refused() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    body = GOOD.replace(b'"image":"x"', b'"image":' + deep)
    for reply in replies(body):
        assert reply.outcome == "error"


def test_a_huge_pod_is_translated_and_its_bytes_forgotten() -> None:
    big = pod({"nvidia.com/gpu": "1"})
    big["spec"]["containers"][0]["env"] = [
        {"name": f"V{i}", "value": "v" * 1000} for i in range(5000)
    ]
    town = Town()
    reply = asyncio.run(town.admission.pods(review(big)))
    assert reply.outcome == "translated"
    assert len(town.memory) == 1, "what it asks is remembered, its bytes are not"


def places(value: Plain, path: tuple[Plain, ...] = ()) -> Iterator[tuple[Plain, ...]]:
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*path, key))
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from places(each, (*path, number))


WHOLE = json.loads(GOOD)
PLACES = [path for path in places(WHOLE) if path]
WRONG: Plain = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "",
    "text",
    [],
    [None],
    {},
    {"": None},
    [[]],
    "\u0000",
]


def with_instead(path: tuple[Plain, ...], value: Plain) -> bytes:
    whole = copy.deepcopy(WHOLE)
    holder = whole
    for each in path[:-1]:
        holder = holder[each]
    holder[path[-1]] = value
    return json.dumps(whole).encode()


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_value_at_any_place_gets_an_answer(path: tuple[Plain, ...]) -> None:
    async def ask() -> None:
        for value in WRONG:
            for reply in await asked(with_instead(path, value)):
                right(reply)

    asyncio.run(ask())


@settings(deadline=None, max_examples=50)
@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.binary(max_size=6))
def test_damaged_bytes_get_an_answer(at: int, to: int, instead: bytes) -> None:
    begin, end = sorted((at, to))
    replies(GOOD[:begin] + instead + GOOD[min(end, begin + 12) :])
    replies(GOOD[:begin])


JSON: Plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3)
    ),
    max_leaves=8,
)
PODS: Plain = st.fixed_dictionaries(
    {},
    optional={
        "metadata": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "annotations": JSON
                | st.dictionaries(
                    st.sampled_from(
                        ["drawbridge.dev/original", "gpu-fraction", "k8s.v1.cni.cncf.io/networks"]
                    ),
                    JSON,
                ),
                "labels": JSON,
                "ownerReferences": JSON,
                "name": JSON,
            },
        ),
        "spec": JSON
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": JSON
                | st.lists(
                    st.fixed_dictionaries(
                        {},
                        optional={
                            "name": JSON,
                            "env": JSON,
                            "resources": JSON
                            | st.fixed_dictionaries(
                                {},
                                optional={
                                    "limits": JSON
                                    | st.dictionaries(
                                        st.sampled_from(["nvidia.com/gpu", "x.com/y"]), JSON
                                    ),
                                    "claims": JSON,
                                    "requests": JSON,
                                },
                            ),
                        },
                    ),
                    max_size=2,
                ),
                "resourceClaims": JSON,
                "tolerations": JSON,
                "affinity": JSON,
                "nodeSelector": JSON,
                "schedulerName": JSON,
            },
        ),
    },
)


@settings(deadline=None, max_examples=50)
@given(PODS, PODS, st.sampled_from(["CREATE", "UPDATE", "DELETE", "X", ""]))
def test_any_object_gets_an_answer(new: Plain, old: Plain, operation: str) -> None:
    if isinstance(old.get("metadata"), dict):
        notes = {"drawbridge.dev/original": '[{"op":"remove","path":"/spec/resourceClaims"}]'}
        old["metadata"] = {**old["metadata"], "annotations": notes}
    whole = {
        **WHOLE,
        "request": {**WHOLE["request"], "operation": operation, "object": new, "oldObject": old},
    }
    replies(json.dumps(whole).encode())


def test_what_is_decoded_says_what_was_asked() -> None:
    found = decode(review(pod(), dryRun=True, subResource="resize", operation="UPDATE", old=pod()))
    assert isinstance(found, Request)
    assert (found.uid, found.operation, found.dry_run) == (UID, "UPDATE", True)
    assert (found.kind.kind, found.sub_resource, found.namespace) == ("Pod", "resize", "team")
    assert isinstance(decode(b"no"), Malformed)


def damaged(random_: random.Random, old: Plain) -> bytes:
    """Damage a review of a pod with a bit of everything, at up to three places."""
    whole = json.loads(review(RICH, operation=random_.choice(["CREATE", "UPDATE"]), old=old))
    for _ in range(random_.randint(1, 3)):
        path = random_.choice([each for each in places(whole) if each])
        holder = whole
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = copy.deepcopy(random_.choice(WRONG))
    return json.dumps(whole).encode()


RICH: Plain = pod(
    {"nvidia.com/gpu": "1", "cpu": "1"},
    initContainers=[{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    resourceClaims=[{"name": "drawbridge", "resourceClaimTemplateName": "mine"}],
    tolerations=[{"key": "a"}],
    nodeSelector={"nvidia.com/gpu.product": "A100"},
    volumes=[{"name": "kube-api-access-abcde"}, {"hostPath": {"path": "/dev/infiniband"}}],
)
RICH["metadata"] |= {
    "labels": {"app": "x"},
    "annotations": {"nvidia.com/use-gputype": "A100", "drawbridge.dev/original": "[]"},
    "ownerReferences": [{"kind": "StatefulSet", "name": "p"}],
}
RICH["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


def test_reviews_damaged_at_several_places_get_an_answer() -> None:
    async def ask() -> None:
        town, random_ = Town(), random.Random(8)
        made = await town.pod(RICH)
        assert made.reply.outcome == "translated"
        for _ in range(300):
            body = damaged(random_, made.after)
            right(await town.admission.pods(body))
            right(await town.admission.workloads(body))

    asyncio.run(ask())
