"""JSON for drivers is kept as text, and decoded where somebody needs it."""

import datetime as dt
import tracemalloc
from typing import Any

import msgspec
import pytest
from msgspec.structs import force_setattr

from drawbridge.dra.allocation import AllocatedConfig, AllocatedDevices, Allocation, Opaque, to_json
from drawbridge.dra.claim import Claim, Config, claim_reader, read_claim
from drawbridge.dra.fatal_configs import find_fatal_configs
from drawbridge.dra.opaque_json import Fields, OpaqueJSON
from drawbridge.finding import Finding
from tests.tables import YamlValue, every_row

CONFIGS, MOST_PARAMETERS = 32, 10 * 1024
PARTS = ('{"":{}}', "{}", "[]", "1", '"\\u0001"', '"\U0001f600"')


def claim_text(parameters: str, number: int = 0) -> bytes:
    """Write a claim with as many configurations as it can have."""
    config = f'{{"opaque":{{"driver":"x.io","parameters":{parameters}}}}}'
    configs = ",".join([config] * CONFIGS)
    status = f'{{"devices":[{{"driver":"x.io","pool":"p","device":"d","data":{parameters}}}]}}'
    return (
        f'{{"metadata":{{"name":"c{number}"}},"spec":{{"devices":{{"config":[{configs}]}}}},'
        f'"status":{status}}}'
    ).encode()


@every_row("part", PARTS)
def test_parameters_take_no_more_memory_than_their_text(part: str) -> None:
    many = MOST_PARAMETERS // (len(part.encode()) + 1)
    text = claim_text(f'{{"a":[{",".join([part] * many)}]}}')
    reader = claim_reader()
    reader.read(text)  # what the decoder allocates once
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        read = reader.read(text)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert isinstance(read, Claim)
    assert kept < 1.2 * len(text)


@every_row(
    "value",
    [
        {"a": [1, 2.5, True, None, "x"]},
        {"z": 1, "a": {"": {}}},
        {"large": 2**200, "small": -(2**70)},
        {"text": "\u0001\U0001f600\\"},
        [],
        "text",
    ],
)
def test_a_value_is_the_same_after_it_was_kept(value: Any) -> None:  # noqa: ANN401  # any JSON value
    kept = OpaqueJSON.of(value)
    assert kept.decode() == value
    assert (kept == OpaqueJSON.of(value), hash(kept) == hash(OpaqueJSON.of(value))) == (True, True)
    assert kept != OpaqueJSON.of({"other": value})


def test_parameters_that_are_no_utf_8_do_not_hide_a_claim() -> None:
    read = read_claim(claim_text('{"a":"?"}').replace(b"?", b"\xff"))
    assert isinstance(read, Claim)
    opaque = read.spec.devices.config[0].opaque
    assert opaque is not None
    assert opaque.parameters is not None
    assert opaque.parameters.decode() == {"a": "\ufffd"}


def test_reading_a_claim_decodes_no_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpaqueJSON, "decode", pytest.fail)
    read = read_claim(claim_text('{"a":[1]}'))
    assert isinstance(read, Claim)
    opaque = read.spec.devices.config[0].opaque
    assert opaque is not None
    assert bytes(opaque.sent) == b'{"a":[1]}'


@every_row("value", [{"a": dt.date(2026, 1, 1)}, {"a": "\ud800"}, {"a": {1, 2}}])
def test_a_value_that_is_not_json_is_refused(value: Any) -> None:  # noqa: ANN401  # any value
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        OpaqueJSON.of(value)


@every_row("as_bytes", [True, False])
def test_a_claim_keeps_parameters_as_they_were_sent(*, as_bytes: bool) -> None:
    parameters: YamlValue = {"kind": "X", "list": [1, {"a": None}]}
    plain: YamlValue = {
        "metadata": {"name": "c"},
        "spec": {"devices": {"config": [{"opaque": {"driver": "x.io", "parameters": parameters}}]}},
    }
    read = read_claim(msgspec.json.encode(plain) if as_bytes else plain)
    assert isinstance(read, Claim)
    (config,) = read.spec.devices.config
    assert config.opaque is not None
    assert config.opaque.parameters == OpaqueJSON.of(parameters)


def test_a_date_in_the_parameters_of_a_file_is_a_finding_with_its_place() -> None:
    plain: YamlValue = {
        "metadata": {"name": "c"},
        "spec": {
            "devices": {
                "config": [{"opaque": {"driver": "x.io", "parameters": {"a": dt.date(2026, 1, 1)}}}]
            }
        },
    }
    findings = read_claim(plain)
    assert isinstance(findings, tuple)
    (finding,) = findings
    assert isinstance(finding, Finding)
    assert finding.path == "spec.devices.config[0].opaque.parameters"
    assert "cannot be written as JSON" in finding.message


def test_an_allocation_is_written_with_its_parameters() -> None:
    opaque = Opaque("x.io", msgspec.Raw(b'{"a": [1]}'))
    allocation = Allocation(AllocatedDevices(config=(AllocatedConfig("FromClaim", (), opaque),)))
    assert to_json(allocation)["devices"]["config"] == [
        {"source": "FromClaim", "opaque": {"driver": "x.io", "parameters": {"a": [1]}}}
    ]


def test_equal_specs_have_one_short_digest() -> None:
    first, second = (read_claim(claim_text('{"a":1}', number)) for number in range(2))
    other = read_claim(claim_text('{"a":2}'))
    assert isinstance(first, Claim)
    assert isinstance(second, Claim)
    assert isinstance(other, Claim)
    assert first.spec.digest == second.spec.digest != other.spec.digest
    assert len(first.spec.digest) == 32


def test_an_integer_that_python_does_not_convert_is_a_float() -> None:
    digits = "1" * 5000
    kept = OpaqueJSON(f'{{"a":{digits},"b":{"1" * 300}}}'.encode())
    assert kept.decode() == {"a": float(digits), "b": int("1" * 300)}
    assert kept.decode_fields() == (("a", float(digits)), ("b", float("1" * 300)))


def test_fields_that_repeat_are_decoded_in_their_order() -> None:
    kept = OpaqueJSON(b'{"a":1,"b":[{"c":null,"c":{}}],"a":"x"}')
    assert kept.decode_fields() == (
        ("a", 1.0),
        ("b", [Fields((("c", None), ("c", Fields())))]),
        ("a", "x"),
    )
    assert kept.decode() == {"a": "x", "b": [{"c": {}}]}


def list_names(value: object) -> list[str]:
    """Return the names of all fields in a decoded value that repeat in their object."""
    if isinstance(value, list):
        return [name for each in value for name in list_names(each)]
    if not isinstance(value, Fields):
        return []
    names = [name for name, _ in value]
    repeated = [name for name in names if names.count(name) > 1]
    return repeated + [name for _, each in value for name in list_names(each)]


def test_no_field_repeats_in_an_allocation_that_is_written() -> None:
    """The driver reads what was judged, by a decoder that treats such fields in another way."""
    sent = b'{"a":{"b":"x"},"a":{},"c":[{"d":1,"d":null}]}'
    assert list_names(OpaqueJSON(sent).decode_fields()) == ["a", "a", "d", "d"]
    opaque = Opaque("x.io", msgspec.Raw(sent))
    allocation = Allocation(AllocatedDevices(config=(AllocatedConfig("FromClaim", (), opaque),)))
    written = OpaqueJSON(msgspec.json.encode(to_json(allocation)))
    assert list_names(written.decode_fields()) == []


def find_fatal(driver: str, parameters: bytes) -> list[str]:
    config = Config(opaque=Opaque(driver, msgspec.Raw(parameters)))
    return [each.path for each in find_fatal_configs([config])]


@every_row(
    "fields",
    [
        '"cpuConfig":{"cpuset":"0-99999"},"cpuConfig":{}',
        '"cpuConfig":{"cpuset":"0-99999"},"cpuConfig":null',
        '"cpuConfig":{"cpuset":"0-99999"},"CPUConfig":{"cpuset":null}',
        '"cpuConfig":{"cpuset":"0-99999","cpuset":null}',
        '"cpuConfig":{"cpuSet":"0-99999","cpuset":"0-3"}',
        '"cpuConfig":{"cpuset":"0-3"},"cpuConfig":{"cpuset":"0-99999"}',
    ],
)
def test_a_field_that_repeats_does_not_hide_a_long_range(fields: str) -> None:
    paths = find_fatal("dra.cpu", f'{{"apiVersion":"v1alpha1",{fields}}}'.encode())
    assert paths == ["opaque.parameters.cpuConfig.cpuset"]


@every_row(
    "sharing, is_fatal",
    [
        ('"sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{}},"sharing":{}', True),
        ('"sharing":{"strategy":"TimeSlicing"},"sharing":{"timeSlicingConfig":{}}', True),
        ('"sharing":{"strategy":"TimeSlicing","strategy":null,"timeSlicingConfig":{}}', True),
        (
            '"sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long","interval":null}}',
            True,
        ),
        (
            '"sharing":{"strategy":"TimeSlicing","timeSlicingConfig":{"interval":"Long"}},"sharing":{}',
            False,
        ),
        ('"sharing":{"strategy":"MPS","timeSlicingConfig":{}},"sharing":{}', False),
    ],
)
def test_a_field_that_repeats_does_not_hide_settings_without_an_interval(
    sharing: str, *, is_fatal: bool
) -> None:
    head = '"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig"'
    path = "opaque.parameters.sharing.timeSlicingConfig"
    expected = [path] if is_fatal else []
    assert find_fatal("gpu.nvidia.com", f"{{{head},{sharing}}}".encode()) == expected


def test_what_is_nested_too_deep_to_be_read_counts_as_fatal() -> None:
    opaque = Opaque("dra.cpu", msgspec.Raw(b'{"cpuConfig":{"cpuset":"0"}}'))
    deep = b'{"cpuConfig":{"cpuset":"0"},"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    force_setattr(opaque, "sent", msgspec.Raw(deep))
    assert [each.number for each in find_fatal_configs([Config(opaque=opaque)])] == [0]


def test_escapes_do_not_hide_a_configuration_that_ends_its_driver() -> None:
    sent = rb'{"cpuCon\u0066ig":{"cp\u0075set":"0-99999"}}'
    config = Config(opaque=Opaque("dra.cpu", msgspec.Raw(sent)))
    assert [each.number for each in find_fatal_configs([config])] == [0]
