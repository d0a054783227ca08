"""Equal values of many objects are kept once, and stay what each object says."""

import json
import tracemalloc

import pytest

from drawbridge.dra import shared_values
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.dra.slices import Slice, slice_reader
from tests.dra.test_opaque_json import CONFIGS, claim_text
from tests.tables import YamlValue

DEVICES = 1


def slice_text(number: int) -> bytes:
    """Write a slice of a node whose devices differ from others in their identity only."""
    common: dict[str, YamlValue] = {f"model{i}": {"string": f"{'x' * 20}{i}"} for i in range(10)}
    devices: list[YamlValue] = [
        {"name": f"d{i}", "attributes": {**common, "uuid": {"string": f"{number}-{i}"}}}
        for i in range(DEVICES)
    ]
    spec: YamlValue = {
        "driver": "x.io",
        "pool": {"name": f"n{number}", "generation": 1, "resourceSliceCount": 1},
        "nodeName": f"n{number}",
        "devices": devices,
    }
    return json.dumps({"metadata": {"name": f"s{number}"}, "spec": spec}).encode()


def test_devices_with_equal_attributes_take_much_less_memory() -> None:
    texts = [slice_text(number) for number in range(200)]
    reader = slice_reader()

    def kept(*, shared: bool) -> int:
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            read = [(reader if shared else slice_reader()).read(text) for text in texts]
            assert all(isinstance(each, Slice) for each in read)
            return tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

    reader.read(texts[0])
    assert kept(shared=True) < kept(shared=False) * 0.6


def test_each_device_keeps_what_it_publishes() -> None:
    reader = slice_reader()
    for number in range(20):
        read = reader.read(slice_text(number))
        assert isinstance(read, Slice)
        uuids = [each.attributes["uuid"].string for each in read.devices]
        assert uuids == [f"{number}-{i}" for i in range(DEVICES)]
        assert read == slice_reader().read(slice_text(number))


def test_claims_with_equal_parameters_keep_them_once() -> None:
    reader, parameters = claim_reader(), json.dumps({"a": "x" * 9000})
    texts = [claim_text(parameters, number) for number in range(20)]
    reader.read(texts[0])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        read = [reader.read(text) for text in texts]
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert all(isinstance(each, Claim) for each in read)
    assert kept < len(texts) * len(parameters)  # of CONFIGS times as much
    assert CONFIGS > 1


def test_values_without_end_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_values, "MAX_ATTRIBUTES", 10)
    monkeypatch.setattr(shared_values, "MAX_PARAMETERS", 10)
    values = shared_values.SharedValues()
    for number in range(20):
        read, claim = (
            slice_reader().read(slice_text(number)),
            claim_reader().read(claim_text(json.dumps({"a": number}))),
        )
        assert isinstance(read, Slice)
        assert isinstance(claim, Claim)
        values.share_attributes(read.devices)
        values.share_parameters(claim.spec.devices.config)
    assert len(values) == 20
