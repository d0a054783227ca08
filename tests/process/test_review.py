"""Damaged reviews get the check_reply response, and never cause an exception."""

import asyncio
import base64
import copy
import json
import random
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawbridge.process.review import (
    AdmissionRequest,
    Malformed,
    decode_object,
    decode_review,
    decode_review_object,
)
from tests.tables import YamlValue, every_row
from tests.thorough import drawn
from tests.webhook.admission.harness import (
    ENFORCE,
    SECONDS,
    AdmissionHarness,
    FakeClusterView,
    pod,
    review,
)
from webhook.admission.replies import Reply, await_reply

GOOD = review(pod({"nvidia.com/gpu": "1"}))
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


async def review_both(body: bytes) -> tuple[Reply, Reply]:
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": ENFORCE, "": {}}))
    return await await_reply(
        harness.admission.review_pod(body, SECONDS)
    ), await harness.admission.review_workload(body, SECONDS)


def check_reply(reply: Reply) -> None:
    """Check that the API server can read a response."""
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
    both = asyncio.run(review_both(body))
    for reply in both:
        check_reply(reply)
    return both


def test_a_pod_without_a_namespace_is_denied() -> None:
    body = msgspec.json.decode(GOOD)
    del body["request"]["namespace"]
    reply, _ = replies(msgspec.json.encode(body))
    status = msgspec.json.decode(reply.body)["response"]["status"]
    assert (reply.outcome, status["code"]) == ("error", 400)
    assert "request.namespace" in status["message"]


def test_a_valid_review_is_translated() -> None:
    assert replies(GOOD)[0].outcome == "translated"


@every_row(
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
def test_an_invalid_review_gets_status_400(body: bytes) -> None:
    for reply in replies(body):
        assert reply.status == 400


@every_row(
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
def test_a_malformed_review_with_a_uid_is_denied(old: bytes, new: bytes) -> None:
    assert old in GOOD
    for reply in replies(GOOD.replace(old, new)):
        assert reply.uid == UID
        assert msgspec.json.decode(reply.body)["response"]["status"]["code"] == 400


def test_the_last_of_duplicate_keys_is_used() -> None:
    twice = GOOD.replace(b'"operation":"CREATE"', b'"operation":"DELETE","operation":"CREATE"')
    assert replies(twice)[0].outcome == "translated"


@pytest.mark.parametrize("odd", [b"\xff", rb"\ud800"])
def test_a_text_that_is_not_unicode_is_read_as_the_api_server_reads_it(odd: bytes) -> None:
    read, other = (
        replies(GOOD.replace(b'"image":"x"', b'"image":"%b"' % each))
        for each in (odd, "\N{REPLACEMENT CHARACTER}".encode())
    )
    assert [each.outcome for each in read] == ["translated", "reported"]
    assert [each.body for each in read] == [each.body for each in other]
    patch = base64.b64decode(msgspec.json.decode(read[0].body)["response"]["patch"])
    assert "\N{REPLACEMENT CHARACTER}" not in patch.decode()


def test_a_deeply_nested_pod_is_rejected() -> None:
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    body = GOOD.replace(b'"image":"x"', b'"image":' + deep)
    for reply in replies(body):
        assert reply.outcome == "error"


def test_a_huge_pod_is_translated_but_its_bytes_are_not_cached() -> None:
    big = pod({"nvidia.com/gpu": "1"})
    big["spec"]["containers"][0]["env"] = [
        {"name": f"V{i}", "value": "v" * 1000} for i in range(5000)
    ]
    harness = AdmissionHarness()
    reply = asyncio.run(await_reply(harness.admission.review_pod(review(big), SECONDS)))
    assert reply.outcome == "translated"
    assert len(harness.answers) == 1, "the essence is cached, the bytes are not"


@pytest.mark.parametrize("value", [b"[]", b"[{}]", b"1", b'"text"', b"true"])
def test_a_value_that_is_not_an_object_is_malformed(value: bytes) -> None:
    malformed = Malformed("the object is not a JSON object")
    assert decode_object(msgspec.Raw(value)) == malformed
    assert decode_review_object(b'{"request":{"object":' + value + b"}}") == malformed


def find_paths(
    value: YamlValue, path: tuple[YamlValue, ...] = ()
) -> Iterator[tuple[YamlValue, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from find_paths(inner, (*path, key))
    if isinstance(value, list):
        for number, element in enumerate(value):
            yield from find_paths(element, (*path, number))


GOOD_VALUE = json.loads(GOOD)
PATHS = [path for path in find_paths(GOOD_VALUE) if path]
WRONG_VALUES: YamlValue = [
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


def replace_value(path: tuple[YamlValue, ...], value: YamlValue) -> bytes:
    body = copy.deepcopy(GOOD_VALUE)
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return json.dumps(body).encode()


@every_row("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_a_wrong_value_at_any_path_gets_a_response(path: tuple[YamlValue, ...]) -> None:
    async def ask() -> None:
        for value in WRONG_VALUES:
            for reply in await review_both(replace_value(path, value)):
                check_reply(reply)

    asyncio.run(ask())


@settings(max_examples=drawn(16, thorough=50))
@given(st.integers(0, len(GOOD)), st.integers(0, len(GOOD)), st.binary(max_size=6))
def test_damaged_bytes_get_a_response(at: int, to: int, instead: bytes) -> None:
    begin, end = sorted((at, to))
    replies(GOOD[:begin] + instead + GOOD[min(end, begin + 12) :])
    replies(GOOD[:begin])


JSON: YamlValue = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3)
    ),
    max_leaves=8,
)
PODS: YamlValue = st.fixed_dictionaries(
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


@settings(max_examples=drawn(16, thorough=50))
@given(PODS, PODS, st.sampled_from(["CREATE", "UPDATE", "DELETE", "X", ""]))
def test_any_object_gets_a_response(new: YamlValue, old: YamlValue, operation: str) -> None:
    if isinstance(old.get("metadata"), dict):
        notes = {"drawbridge.dev/original": '[{"op":"remove","path":"/spec/resourceClaims"}]'}
        old["metadata"] = {**old["metadata"], "annotations": notes}
    body = {
        **GOOD_VALUE,
        "request": {
            **GOOD_VALUE["request"],
            "operation": operation,
            "object": new,
            "oldObject": old,
        },
    }
    replies(json.dumps(body).encode())


def test_a_decoded_review_has_the_fields_of_the_request() -> None:
    decoded = decode_review(
        review(pod(), dryRun=True, subResource="resize", operation="UPDATE", old=pod())
    )
    assert isinstance(decoded, AdmissionRequest)
    assert (decoded.uid, decoded.operation, decoded.dry_run) == (UID, "UPDATE", True)
    assert (decoded.kind.kind, decoded.sub_resource, decoded.namespace) == ("Pod", "resize", "team")
    assert isinstance(decode_review(b"no"), Malformed)


def damage_review(random_: random.Random, old: YamlValue) -> bytes:
    """Damage the review of a complex pod at up to three paths."""
    body = json.loads(review(COMPLEX_POD, operation=random_.choice(["CREATE", "UPDATE"]), old=old))
    for _ in range(random_.randint(1, 3)):
        path = random_.choice([each for each in find_paths(body) if each])
        parent = body
        for step in path[:-1]:
            parent = parent[step]
        parent[path[-1]] = copy.deepcopy(random_.choice(WRONG_VALUES))
    return json.dumps(body).encode()


COMPLEX_POD: YamlValue = pod(
    {"nvidia.com/gpu": "1", "cpu": "1"},
    initContainers=[{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    resourceClaims=[{"name": "drawbridge", "resourceClaimTemplateName": "mine"}],
    tolerations=[{"key": "a"}],
    nodeSelector={"nvidia.com/gpu.product": "A100"},
    volumes=[{"name": "kube-api-access-abcde"}, {"hostPath": {"path": "/dev/infiniband"}}],
)
COMPLEX_POD["metadata"] |= {
    "labels": {"app": "x"},
    "annotations": {"nvidia.com/use-gputype": "A100", "drawbridge.dev/original": "[]"},
    "ownerReferences": [{"kind": "StatefulSet", "name": "p"}],
}
COMPLEX_POD["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]


def test_reviews_with_several_damaged_values_get_a_response() -> None:
    async def ask() -> None:
        harness, random_ = AdmissionHarness(), random.Random(8)
        made = await harness.pod(COMPLEX_POD)
        assert made.reply.outcome == "translated"
        for _ in range(300):
            body = damage_review(random_, made.after)
            check_reply(await await_reply(harness.admission.review_pod(body, SECONDS)))
            check_reply(await harness.admission.review_workload(body, SECONDS))

    asyncio.run(ask())
