"""What the judge replies to a review, as the case table says."""

from pathlib import Path

import pytest

from tests.tables import YamlValue, every_row, load_cases
from tests.webhook.judging.harness import ENFORCE, JudgeHarness, review
from webhook.judging.handler import JudgeBusyError

CASES = load_cases(Path(__file__).parent / "cases" / "reviews.yaml")
OPTIONS = ("operation", "user", "namespace", "sub_resource", "dry_run", "old")


CLASS = {
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
}


def build_harness(case: YamlValue) -> JudgeHarness:
    namespaces = {"team": case.get("labels", ENFORCE), "kube-system": ENFORCE}
    return JudgeHarness(namespaces, CLASS, *case.get("cluster", ()))


@every_row("case", CASES, ids=lambda case: case["name"])
def test_reviews_are_answered_as_the_table_says(case: YamlValue) -> None:
    options = {name: case[name] for name in OPTIONS if name in case}
    reply, response = build_harness(case).respond(review(case["object"], **options))
    assert (reply.status, reply.outcome) == (200, case["outcome"]), response
    assert response["allowed"] is (case["outcome"] != "denied")
    assert "patch" not in response
    expected = case.get("warnings", [])
    actual = [each for each in response.get("warnings", []) if "message" not in case]
    assert [one[: len(start)] for one, start in zip(actual, expected, strict=True)] == expected
    if "message" in case:
        assert response["status"]["code"] == 422
        assert response["status"]["message"].startswith(case["message"]), response
        assert response["auditAnnotations"]["findings"] in reply.codes


@pytest.mark.parametrize("error", [TimeoutError(), JudgeBusyError()])
def test_an_object_that_is_not_judged_in_time_is_allowed_with_a_warning(error: Exception) -> None:
    harness = build_harness({})
    harness.judge.error = error
    reply, response = harness.respond(review(CASES[0]["object"]))
    assert (reply.outcome, response["allowed"]) == ("error", True)
    (warning,) = response["warnings"]
    assert "judged" in warning


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"request": {}}', b"\xff"])
def test_a_malformed_review_without_a_uid_is_a_bad_request(body: bytes) -> None:
    reply = build_harness({}).send(body)
    assert (reply.status, reply.outcome) == (400, "error")


def test_an_object_that_is_nested_too_deeply_is_allowed() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    body = review({"kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": "HERE"})
    harness = build_harness({})
    reply = harness.send(body.replace(b'"HERE"', deep))
    assert b'"allowed":true' in reply.body or reply.status == 400
    assert harness.judge.judged == [] or reply.outcome == "allowed"


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"])
def test_a_key_that_repeats_does_not_hide_a_configuration_that_ends_its_driver(kind: str) -> None:
    opaque = {"driver": "dra.cpu", "parameters": "HERE"}
    spec: YamlValue = {"devices": {"config": [{"opaque": opaque}]}}
    if kind == "DeviceClass":
        spec = spec["devices"]
    elif kind == "ResourceClaimTemplate":
        spec = {"spec": spec}
    body = review({"kind": kind, "metadata": {"name": "c"}, "spec": spec})
    sent = b'{"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"0-99999"},"cpuConfig":{}}'
    reply = build_harness({}).send(body.replace(b'"HERE"', sent))
    assert "ConfigEndsDriver" in reply.codes
    assert b"ends the process of driver dra.cpu" in reply.body


def test_nothing_is_judged_out_of_scope() -> None:
    harness = build_harness({"labels": {}})
    harness.send(review(CASES[0]["object"]))
    assert harness.judge.judged == []
