"""The resourceVersion of an object as a number."""

import pytest

from drawbridge.resource_version import parse_version


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("18446744073709551615", 2**64 - 1),
        ("", 0),
        ("-1", 0),
        ("7x", 0),
        ("٣", 0),
        ("9" * 5000, 0),
    ],
    ids=["number", "largest", "none", "sign", "letter", "other digit", "too long"],
)
def test_what_is_no_number_of_the_api_server_counts_as_no_version(text: str, number: int) -> None:
    assert parse_version(text) == number
