"""JSON of others that the decoder refuses: halves of surrogate pairs, other bytes, many levels."""

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from allocator.decisions.pod_requests import read_claims
from allocator.scheduler.protocol import PreFilterRequest
from drawbridge.cluster import client
from drawbridge.cluster.resources import CLAIMS
from drawbridge.cluster.store import EVENT_DECODER, PAGE_DECODER, ObjectIndex, read_header
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder, without_deep_parts
from drawbridge.process.review import (
    AdmissionRequest,
    decode_object,
    decode_review,
    decode_review_object,
)
from tests.thorough import drawn

decode_any = ForeignDecoder[Any]().decode
PIECES = [*(f"\\u{each}" for each in ("d800", "DBFF", "dc00", "DFFF", "d7ff", "e000", "0041"))]
PIECES += ["\\\\", "\\n", "u", "d", '\\"', "x", "\u00e9", "\N{GRINNING FACE}", "\u2028"]
CASES = [
    ("[]", "[]"),
    ('{"a":[1,{"b":2}]}', '{"a":[1,null]}'),
    ('[[[1],[2]],3,[{"a":{}}]]', "[[null,null],3,[null]]"),
    ('{"a":"[[[{","b":["]\\"["]}', '{"a":"[[[{","b":["]\\"["]}'),
    ('[[["]]]"]]]', "[[null]]"),
]


@pytest.mark.parametrize(("raw", "cut"), CASES)
def test_parts_below_two_levels_become_null(raw: str, cut: str) -> None:
    shortened = without_deep_parts(raw.encode(), 2)
    assert shortened.decode() == cut
    json.loads(shortened)


def test_what_is_not_closed_is_left_for_the_decoder_to_refuse() -> None:
    raw = b"[" * 5000
    assert without_deep_parts(raw) == raw
    with pytest.raises((RecursionError, msgspec.DecodeError)):
        ForeignDecoder(list, any_depth=True).decode(raw)


def test_everything_above_the_deep_part_is_decoded() -> None:
    raw = b'{"name":"x","deep":%b,"last":1}' % (b"[" * 5000 + b"]" * 5000)
    decoded = ForeignDecoder(dict, any_depth=True).decode(raw)
    assert (decoded["name"], decoded["last"]) == ("x", 1)


def _read_claim(raw: bytes) -> Claim:
    claim = claim_reader().read(raw)
    if isinstance(claim, tuple):
        raise ValueError(claim)  # noqa: TRY004  # what cannot be decoded
    return claim


@pytest.mark.parametrize("place", ["spec", "allocation", "managedFields"])
def test_a_claim_is_kept_with_its_devices_however_deep_its_other_parts_are(place: str) -> None:
    """No tenant makes an allocation unknown by parameters that one decoder reads and one not."""
    index = ObjectIndex(CLAIMS, _read_claim, keep_raw=False)
    for levels in range(900, 1010):
        deep = '{"a":' * levels + "1" + "}" * levels
        at = {name: deep if name == place else "{}" for name in ("spec", "allocation")}
        driver = {name: f'{{"driver":"d","parameters":{text}}}' for name, text in at.items()}
        fields = deep if place == "managedFields" else "{}"
        raw = f"""{{"metadata":{{"name":"c","namespace":"n","uid":"u{levels}",
        "resourceVersion":"5","managedFields":[{{"fieldsV1":{fields}}}]}},
        "spec":{{"devices":{{"config":[{{"opaque":{driver["spec"]}}}]}}}},
        "status":{{"allocation":{{"devices":{{
        "results":[{{"request":"r","driver":"d","pool":"p","device":"x"}}],
        "config":[{{"source":"FromClaim","opaque":{driver["allocation"]}}}]}}}}}}}}"""
        event = EVENT_DECODER.decode(f'{{"type":"MODIFIED","object":{raw}}}'.encode())
        kept = index.read(read_header(event.object), bytes(event.object)).kept
        assert kept is not None, levels
        allocation = kept.value.status.allocation
        assert allocation is not None
        assert [each.device for each in allocation.devices.results] == ["x"]


# What Go's decoder and the API server accept within a string, and what they read.
READ_BY_GO = [
    (rb"\ud800", "\ufffd"),
    (rb"\uDFFFx", "\ufffdx"),
    (rb"\ude00\ud83d", "\ufffd\ufffd"),
    (rb"\ud800\ud83d\ude00\udc00", "\ufffd\N{GRINNING FACE}\ufffd"),
    (rb"\ud800\u0041", "\ufffdA"),
    (rb"\\ud800", r"\ud800"),
    (rb"\\\ud800\\\\udc00", "\\\ufffd\\\\udc00"),
    (rb"\"\ud800\"", '"\ufffd"'),
    (b"\xff", "\ufffd"),
    (b"\xff\\ud800", "\ufffd\ufffd"),
    (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    (rb"\u0000\ud800", "\0\ufffd"),
    ("\u2028\x7f".encode(), "\u2028\x7f"),
    (rb"\/\ud83d\ude00", "/\N{GRINNING FACE}"),
]
# Values beside such strings.
VALUES = [
    b"-0",
    b"1e-400",
    b"1" * 300,
    b'{"a":1,"a":2}',
    b" [ 1 ,\t2 ]\r\n",
    b'{"\\ud800":1,"\xff":2}',
    b"[" * 150 + b"]" * 150,
]
REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u",'
    b'"kind":{"kind":"ResourceClaim"},"operation":"CREATE","object":%b}}'
)


def _at_page(raw: bytes) -> object:
    head = b'"kind":"ResourceClaimList","metadata":{"resourceVersion":"9"}'
    page = PAGE_DECODER.decode(b'{%b,"items":[%b]}' % (head, raw))
    assert page.items is not None
    return page.items[0]


def _at_review(raw: bytes) -> object:
    review = decode_review(REVIEW % raw)
    assert isinstance(review, AdmissionRequest), review
    assert decode_review_object(REVIEW % raw) == decode_object(review.object)
    return review.object


def _at_prefilter(raw: bytes) -> object:
    body = b'{"pod":{"namespace":"n","name":"p","uid":"u"},"maxNodes":1,"claims":[%b]}' % raw
    request = ForeignDecoder[PreFilterRequest](PreFilterRequest).decode(body)
    assert request.claims is not None
    (received,) = read_claims(request.claims, {})
    assert received.claim.metadata.name == "c"
    return request.claims[0]


# Where JSON of others arrives, as whole texts and as parts that stay undecoded at first.
PLACES: dict[str, Callable[[bytes], object]] = {
    "page": _at_page,
    "event": lambda raw: EVENT_DECODER.decode(b'{"type":"ADDED","object":%b}' % raw).object,
    "get": lambda raw: raw,
    "review": _at_review,
    "call of the scheduler": _at_prefilter,
}


def _claim(text: bytes, value: bytes) -> bytes:
    data = b'{"text":"%b","value":%b}' % (text, value)
    return b"""{"metadata":{"name":"c","namespace":"n","uid":"u","resourceVersion":"5"},
    "spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":%b}}]}},
    "status":{"devices":[{"driver":"d","pool":"p","device":"x","data":%b}],"allocation":{"devices":{
    "results":[{"request":"r","driver":"d","pool":"p","device":"x"}],
    "config":[{"source":"FromClaim","opaque":{"driver":"d","parameters":%b}}]}}}}""" % ((data,) * 3)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("text", "read"), READ_BY_GO)
def test_what_go_reads_is_read(place: str, text: bytes, read: str, value: bytes) -> None:
    """One object of a tenant stops no list, no watch and no request."""
    raw: Any = PLACES[place](_claim(text, value))
    if place != "get":
        bytes(raw).decode()  # also for whoever decodes this part later
    assert read_header(raw).metadata.name == "c"
    claim = claim_reader().read(raw)
    assert isinstance(claim, Claim), claim
    allocation = claim.status.allocation
    assert allocation is not None
    assert [each.device for each in allocation.devices.results] == ["x"]
    parameters = claim.spec.devices.config[0].opaque
    assert parameters is not None
    assert parameters.parameters is not None
    assert parameters.parameters.decode()["text"] == read
    whole = client.decode_object(bytes(raw))
    assert whole["status"]["devices"][0]["data"]["text"] == read


@pytest.mark.parametrize("text", [b"\x01", b"\t", rb"\ud8zz", rb"\x", b'"'])
def test_what_go_refuses_is_refused(text: bytes) -> None:
    for decode in (client.decode_object, PAGE_DECODER.decode, decode_any):
        with pytest.raises(msgspec.DecodeError):
            decode(_claim(text + rb"\ud800", b"1"))
    assert not isinstance(decode_review(REVIEW % _claim(text, b"1")), AdmissionRequest)


@given(st.lists(st.sampled_from(PIECES)), st.integers(0, 5))
@settings(max_examples=drawn(300, 20_000), deadline=None)
def test_any_string_is_read_as_another_decoder_reads_it(pieces: list[str], cut: int) -> None:
    text = f'"{"".join(pieces)[cut:]}"'
    try:
        expected = json.loads(text)
    except ValueError:
        reject()
    halves = expected.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    read = decode_any(text.encode())
    assert read == halves


def test_a_long_text_takes_a_time_that_is_linear_in_its_length() -> None:
    for piece in (rb"\ud800", rb"\ud800x", rb"\\", rb"\"", b"\xff", b"[", b'"', b'"\\'):
        took = []
        for number in (12_500, 50_000):
            raw = b'{"a":"' + piece * number
            started = time.process_time()
            with contextlib.suppress(*UNDECODABLE):
                ForeignDecoder(dict, any_depth=True).decode(raw + b'\\ud800"}')
            without_deep_parts(raw)
            took.append(time.process_time() - started)
        assert took[1] < 8 * took[0] + 0.1, piece
