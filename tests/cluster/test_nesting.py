"""JSON that is nested deeper than the decoder allows."""

import json

import msgspec
import pytest

from drawbridge.cluster.nesting import DeepDecoder, without_deep_parts
from drawbridge.cluster.resources import CLAIMS
from drawbridge.cluster.store import EVENT_DECODER, ObjectIndex, read_header
from drawbridge.dra.claim import Claim, claim_reader

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
        DeepDecoder(list).decode(raw)


def test_everything_above_the_deep_part_is_decoded() -> None:
    raw = b'{"name":"x","deep":%b,"last":1}' % (b"[" * 5000 + b"]" * 5000)
    decoded = DeepDecoder(dict).decode(raw)
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
        kept = index.read(read_header(event.object), bytes(event.object))
        assert kept is not None, levels
        allocation = kept.value.status.allocation
        assert allocation is not None
        assert [each.device for each in allocation.devices.results] == ["x"]
