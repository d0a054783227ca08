"""JSON that is nested deeper than the decoder allows."""

import json

import msgspec
import pytest

from drawbridge.cluster.nesting import DeepDecoder, without_deep_parts

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
