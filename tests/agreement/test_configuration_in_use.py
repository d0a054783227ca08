"""What the controller publishes as the configuration in use, and what processes read of it."""

from typing import Any

import msgspec

from drawbridge.agreement.configuration_in_use import (
    ConfigurationConfigMap,
    compose_in_use,
    read_condition,
    read_in_use,
)
from drawbridge.agreement.offered_configuration import read_offered
from drawbridge.names import CONDITIONS_ANNOTATION, CONFIGURATION_KEY
from tests.cluster.fake.configuration import HEAD, accept, offer
from tests.tables import every_row

NATIVE = f"{HEAD}placement: native\n"
WRONG = f"{HEAD}placement: natve\n"


def decode(value: dict[str, Any]) -> ConfigurationConfigMap:
    return msgspec.json.decode(msgspec.json.encode(value), type=ConfigurationConfigMap)


def test_the_text_is_copied_byte_for_byte() -> None:
    text = f"# a comment\r\n{NATIVE}  \n"
    assert accept(text)["data"] == {CONFIGURATION_KEY: text}
    reading = read_in_use(decode(accept(text)))
    assert reading.text == text
    assert reading.configuration is not None
    assert not reading.refusal


@every_row(("text", "number"), [("", 0), ("# nothing\n---\n", 0), (f"{NATIVE}---\n{NATIVE}", 2)])
def test_a_text_must_contain_one_configuration(text: str, number: int) -> None:
    (finding,) = read_offered(decode(offer(text))).findings
    assert finding.code == "ConfigurationNotOne"
    assert f"has {number} documents" in finding.message


def test_the_copy_of_the_largest_config_map_has_no_more_data() -> None:
    text = NATIVE + "#" * (1024 * 1024 - len(NATIVE))
    assert sum(map(len, accept(text)["data"].values())) == 1024 * 1024


def test_a_refused_configuration_changes_the_condition_only() -> None:
    before = accept(NATIVE)
    offered = read_offered(decode(offer(WRONG)))
    after = compose_in_use(NATIVE, offered, before, "later")
    assert after is not None
    assert after["data"] == before["data"]
    condition = read_condition(decode(after))
    assert condition is not None
    assert (condition.type, condition.status) == ("Accepted", "False")
    assert condition.last_transition_time == "later"
    assert "placement" in condition.message
    reading = read_in_use(decode(after))
    assert reading.configuration is not None
    assert reading.refusal == condition.message


def test_nothing_is_written_while_nothing_changes() -> None:
    for offered, text in ((NATIVE, NATIVE), (WRONG, NATIVE)):
        reading = read_offered(decode(offer(offered)))
        live = compose_in_use(text, reading, None, "now")
        assert compose_in_use(text, reading, live, "later") is None


def test_another_reason_keeps_the_time_of_the_transition() -> None:
    live = accept(NATIVE, offered=WRONG)
    missing = compose_in_use(NATIVE, read_offered(None), live, "later")
    assert missing is not None
    condition = read_condition(decode(missing))
    assert condition is not None
    assert condition.message == "ConfigMap drawbridge-config does not exist"
    assert condition.last_transition_time == "now"


def test_the_condition_of_many_errors_is_bounded() -> None:
    wrong = HEAD + "".join(f"field{i}: {'x' * 50}\n" for i in range(1000))
    annotations = accept(NATIVE, offered=wrong)["metadata"]["annotations"]
    assert len(annotations[CONDITIONS_ANNOTATION]) < 2048


def test_the_copy_has_no_labels_by_which_tools_prune() -> None:
    assert "labels" not in accept(NATIVE)["metadata"]


def test_a_text_that_somebody_else_wrote_is_refused() -> None:
    changed = accept(NATIVE)
    changed["data"][CONFIGURATION_KEY] += "unsetGroups: all\n"
    reading = read_in_use(decode(changed))
    assert reading.configuration is None
    assert "another hash" in reading.findings[0].message
    assert compose_in_use(NATIVE, read_offered(decode(offer(NATIVE))), changed, "now") is not None


def test_a_first_configuration_that_is_refused_leaves_a_condition_without_text() -> None:
    offered = read_offered(decode(offer(WRONG)))
    first = compose_in_use("", offered, None, "now")
    assert first is not None
    assert first["data"] == {}
    reading = read_in_use(decode(first))
    assert not reading.exists
    assert reading.configuration is None
    assert "placement" in reading.refusal


@every_row("text", ["", "{", "null", "[1]", '[{"type":"Other"}]', "[" * 10_000])
def test_a_damaged_condition_is_none(text: str) -> None:
    value = accept(NATIVE)
    value["metadata"]["annotations"][CONDITIONS_ANNOTATION] = text
    assert read_condition(decode(value)) is None
    assert read_in_use(decode(value)).configuration is not None
