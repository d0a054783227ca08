"""The Secret of the CA is read strictly, and what it holds survives a round trip."""

import base64
import functools
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from certs.leaf import names_of_service, sign_leaf
from certs.secret import SecretState, compose_secret, read_secret
from drawbridge.names import MANAGED_BY
from tests.certs.samples import DAY, START, authorities, authority
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "secrets.yaml")
LEAF = sign_leaf(authority("a"), names_of_service("s", "n"), START, DAY)


@functools.cache
def rsa_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def build_value(key: str, word: str) -> str:
    """Return the base64 text of a value that a case names."""
    fixed = {
        "": "",
        "garbage": encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        "plain": "no base64!",
        "large": encode("x" * 70_000),
        "rsa": encode(rsa_key()),
        "leaf": encode(LEAF.key if key.endswith(".key") else LEAF.certificate),
    }
    if word in fixed:
        return fixed[word]
    if key.endswith(".key"):
        return encode(authority(word).key)
    return encode("".join(authority(each).certificate.pem for each in word))


def build_secret(case: YamlValue) -> dict[str, Any]:
    secret = compose_secret(authorities(["a", "b"]), None)
    if not case.get("label", True):
        secret["metadata"]["labels"] = {}
    if "data" in case:
        secret["data"] = {"none": None, "other": {"password": "eA=="}}[case["data"]]
    for key, word in case.get("change", {}).items():
        if word is None:
            del secret["data"][key]
        else:
            secret["data"][key] = build_value(key, word)
    return secret


@every_row("case", CASES, ids=lambda case: case["case"])
def test_the_secret_is_read_as_the_table_says(case: YamlValue) -> None:
    reading = read_secret(build_secret(case))
    assert reading.state is SecretState[case["state"].upper()]
    assert reading.stored == authorities(case["holds"])
    assert case.get("says", "") in reading.problem
    assert bool(reading.problem) == (reading.state is not SecretState.VALID)


def test_a_missing_secret_is_absent() -> None:
    assert read_secret(None).state is SecretState.ABSENT


@pytest.mark.parametrize("letters", [["a"], ["a", "b"], ["-", "a"], ["b", "-", "a", "z"]])
def test_what_is_written_is_read_again(letters: list[str]) -> None:
    held = authorities(letters)
    reading = read_secret(compose_secret(held, None))
    assert reading.state is SecretState.VALID
    assert reading.stored == held


def test_a_rewritten_secret_keeps_the_metadata_and_loses_other_data() -> None:
    metadata = {"name": "drawbridge-ca", "resourceVersion": "7", "labels": {"team": "a"}}
    live = {"metadata": metadata, "type": "kubernetes.io/tls", "data": {"password": "eA=="}}
    written = compose_secret(authorities(["a"]), live)
    assert written["metadata"]["resourceVersion"] == "7"
    assert written["metadata"]["labels"] == {"team": "a", **MANAGED_BY}
    assert written["type"] == "kubernetes.io/tls"
    assert set(written["data"]) == {"ca.crt", "tls.crt", "tls.key"}


def test_a_key_is_not_part_of_any_representation() -> None:
    held = authorities(["a", "b"])
    for text in (repr(held), repr(read_secret(compose_secret(held, None))), repr(LEAF)):
        assert "PRIVATE KEY" not in text


KEYS = st.sampled_from(["ca.crt", "tls.crt", "tls.key", "next.crt", "next.key", "other"])
TEXTS = st.one_of(st.text(), st.none(), st.binary().map(lambda raw: base64.b64encode(raw).decode()))


@given(st.dictionaries(KEYS, TEXTS), st.sampled_from([None, dict(MANAGED_BY)]))
def test_any_content_gives_a_reading(
    data: dict[str, str | None], labels: dict[str, str] | None
) -> None:
    reading = read_secret({"metadata": {"labels": labels}, "data": data})
    assert reading.state in (SecretState.DAMAGED, SecretState.FOREIGN)
    assert reading.problem
