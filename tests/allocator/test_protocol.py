"""The protocol: versions, messages, and the conformance cases against the schema."""

from typing import Any

import jsonschema
import msgspec
import pytest

from allocator.scheduler import protocol
from allocator.scheduler.protocol import ErrorCode, ProtocolError, check_version, shorten_message
from tests.allocator.conformance import CASES, Case
from tests.tables import every_row

SCHEMA = protocol.protocol_schema()


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{name}"})


def message_names(case: Case) -> tuple[str | None, str | None]:
    """The messages of the request and of the reply of a case."""
    for call in SCHEMA["x-calls"]:
        if (call["method"], call["path"]) == (case.request["method"], case.request["path"]):
            request = call["request"]
            names = [each and each["$ref"].rpartition("/")[2] for each in (request, call["reply"])]
            return names[0], names[1]
    return None, None


def test_the_schema_is_valid() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@every_row("case", CASES, ids=str)
def test_a_case_contains_messages_of_the_schema(case: Case) -> None:
    request, reply = message_names(case)
    status = case.reply["status"]
    if request is not None and "body" in case.request and status == 200:
        validator(request).validate(case.request["body"])
    if status != 200:
        assert case.reply["body"]["error"]["code"] in list(ErrorCode)
    elif reply is not None:
        for body in case.reply.get("lines", [case.reply.get("body")]):
            validator(reply).validate(body)


def test_case_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 30


@pytest.mark.parametrize("version", ["1.2", "1.3", "1.4"])
def test_the_same_major_and_a_near_minor_version_are_accepted(version: str) -> None:
    check_version(version)


@every_row("version", [None, "", "1", "1.1", "1.5", "2.0", "0.9", "1.0.0", "x" * 9999])
def test_another_version_is_refused_with_both_versions(version: str | None) -> None:
    with pytest.raises(ProtocolError, match=r"the allocator speaks 1\.3") as caught:
        check_version(version)
    assert caught.value.code is ErrorCode.VERSION
    assert len(caught.value.message) < 300


def test_a_message_is_one_line_with_a_bounded_size() -> None:
    assert shorten_message(" two\n lines ") == "two lines"
    long = shorten_message("ü" * 2000)
    assert len(long.encode()) <= 1024
    assert long.endswith("ü...")


def test_null_means_empty_as_in_go() -> None:
    body: dict[str, Any] = {"pod": {"namespace": "a", "name": "b", "uid": "c"}, "claims": None}
    body["pod"] |= {"nodeSelector": None, "nodeAffinity": None, "tolerations": None}
    read = msgspec.convert(body, protocol.PreFilterRequest)
    assert read.claims is None
    assert read.pod.tolerations is None
