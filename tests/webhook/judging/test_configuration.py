"""The ConfigMap with the configuration is denied if no process would use it."""

import json
from typing import Any

import pytest

from tests.cluster.fake.configuration import HEAD
from tests.tables import every_row
from webhook.admission.replies import Reply
from webhook.judging.configuration import review_configuration

DATA = {"config.yaml": f"{HEAD}placement: native\n"}
WRONG = {"config.yaml": f"{HEAD}placement: natve\n"}


def ask(value: object, name: str = "drawbridge-config", old: object = None) -> Reply:
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "operation": "UPDATE",
        "namespace": "drawbridge-system",
        "name": name,
        "object": value,
        "oldObject": old,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return review_configuration(json.dumps({**head, "request": request}).encode())


def response(reply: Reply) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(reply.body)["response"]
    return answer


@pytest.mark.parametrize(
    ("value", "name"),
    [({"data": DATA}, "drawbridge-config"), ({"data": WRONG}, "another"), ({}, "another")],
    ids=["valid", "another ConfigMap", "another without data"],
)
def test_it_is_allowed(value: object, name: str) -> None:
    assert response(ask(value, name=name)) == {"uid": "u-1", "allowed": True}


@every_row(
    ("value", "code", "message"),
    [
        ({"data": WRONG}, 422, "placement"),
        ({"data": {}}, 422, "has no key config.yaml"),
        ({}, 422, "has no key config.yaml"),
        (
            {"binaryData": {"config.yaml": "AA=="}},
            422,
            "in binaryData, as for a file that is not UTF-8",
        ),
        ({"data": {"config.yaml": "a: ["}}, 422, "YamlSyntax"),
        ({"data": {"config.yaml": f"{HEAD}placement: bridge\n"}}, 422, "OwnedPoolsMissing"),
        ({"data": "text"}, 400, "cannot be decoded"),
    ],
    ids=str,
)
def test_it_is_denied_with_the_findings_of_the_commands(
    value: object, code: int, message: str
) -> None:
    answer = response(ask(value))
    assert not answer["allowed"]
    assert answer["status"]["code"] == code
    assert message in answer["status"]["message"]


@every_row("old", [{"data": DATA}, {"data": {}}, {}, "text"], ids=str)
def test_a_changed_text_is_denied(old: object) -> None:
    assert not response(ask({"data": WRONG}, old=old))["allowed"]


@every_row(
    ("data", "message"),
    [(WRONG, "did you mean native?"), ({}, "has no key config.yaml")],
    ids=["text", "none"],
)
def test_a_text_that_stays_as_it_is_gets_a_warning(data: dict[str, str], message: str) -> None:
    labelled = {"metadata": {"labels": {"team": "a"}}, "data": data}
    for more in ({}, {"README": "a"}):
        answer = response(ask(labelled, old={"data": {**data, **more}}))
        assert answer["allowed"]
    assert message in " ".join(answer["warnings"])


def test_a_body_that_is_no_review_is_malformed() -> None:
    assert review_configuration(b"{").status == 400
