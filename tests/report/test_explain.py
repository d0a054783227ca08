"""A pod is explained from what it says and what is there, however little that is."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from config.model import Configuration
from documents.patch import apply_edits
from report.explain import (Explanation, PodObjects, explain, referenced_names)
from translate import pods

LEGACY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train",
        "namespace": "team-a",
        "uid": "u1",
        "annotations": {"nvidia.com/use-gputype": "A100", "mine": "kept"},
    },
    "spec": {
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "1"}}},
            {"name": "log"},
        ]
    },
}
TRANSLATION = pods.translate(LEGACY, pods.make_context(Configuration()))
TRANSLATED: Any = apply_edits(LEGACY, TRANSLATION.edits)
NAME = TRANSLATION.templates[0].name
TEMPLATE: Any = TRANSLATION.templates[0].object
RESULT = {
    "request": "gpu",
    "driver": "gpu.nvidia.com",
    "pool": "n1",
    "device": "gpu-0",
    "consumedCapacity": {"memory": "10Gi"},
}
CLAIM: dict[str, Any] = {
    "metadata": {"name": "train-drawbridge-x7", "namespace": "team-a"},
    "spec": TEMPLATE["spec"]["spec"],
}
GENERATED = {"name": "drawbridge", "resourceClaimName": "train-drawbridge-x7"}


def pod(base: Any = TRANSLATED, node: str = "", **status: object) -> Any:  # noqa: ANN401  # JSON
    return {**base, "spec": {**base["spec"], "nodeName": node}, "status": status}


def claim(*users: str, allocated: bool = True) -> dict[str, Any]:
    reserved = [{"resource": "pods", "name": f"pod-{uid}", "uid": uid} for uid in users]
    allocation = {"devices": {"results": [RESULT]}} if allocated else None
    return {**CLAIM, "status": {"allocation": allocation, "reservedFor": reserved}}


def told(
    of: Any,  # noqa: ANN401  # JSON
    claims: tuple[Any, ...] = (),
    templates: tuple[Any, ...] = (TEMPLATE,),
    **more: Any,  # noqa: ANN401  # goes to Scene
) -> Explanation:
    return explain(
        PodObjects(
            of,
            {each["metadata"]["name"]: each for each in claims},
            {each["metadata"]["name"]: each for each in templates},
            **more,
        )
    )


def codes(of: Explanation) -> list[str]:
    return [each.code for each in of.findings]


def test_what_was_asked_is_read_from_the_way_back() -> None:
    said = told(pod())
    assert said.translated
    assert [(each.container, each.resource, each.amount) for each in said.asked] == [
        ("main", "nvidia.com/gpu", "2")
    ]
    assert said.hints == {"nvidia.com/use-gputype": "A100"}


def test_what_it_became_is_said_from_the_template_before_there_is_a_claim() -> None:
    (only,) = told(pod()).claims
    assert (only.state, only.template, only.claim) == ("not generated", NAME, None)
    assert only.requests[0].startswith("gpu: 2 x gpu.nvidia.com where ")
    assert "a100" in only.requests[0]
    assert only.containers == ("main",)


def test_a_running_pod_lacks_nothing() -> None:
    said = told(pod(node="n1", phase="Running", resourceClaimStatuses=[GENERATED]), (claim("u1"),))
    assert (said.placed, said.node, said.findings) == (True, "n1", ())
    (device,) = said.claims[0].devices
    assert (device.driver, device.pool, device.device) == ("gpu.nvidia.com", "n1", "gpu-0")
    assert device.consumed == {"memory": "10Gi"}


def test_each_step_that_lacks_is_named() -> None:
    generated = {"resourceClaimStatuses": [GENERATED]}
    bound = pod(node="n1", **generated)
    steps = {
        "TemplateMissing": told(pod(), templates=()),
        "ClaimNotGenerated": told(pod()),
        "ClaimGone": told(pod(**generated)),
        "ClaimPending": told(pod(**generated), (claim(allocated=False),)),
        "ClaimNotReserved": told(bound, (claim("u2"),)),
        "DevicesNotPrepared": told(bound, (claim("u1"),)),
    }
    for code, said in steps.items():
        assert codes(said)[0] == code
    assert {code for code, said in steps.items() if said.placed} == {
        "ClaimNotReserved",
        "DevicesNotPrepared",
    }


def test_a_claim_that_is_reserved_for_another_says_for_whom() -> None:
    said = told(pod(node="n1", resourceClaimStatuses=[GENERATED]), (claim("u2"),))
    assert said.findings[0].message == "it is reserved for pod-u2"


def test_what_the_scheduler_says_is_passed_on() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/8 nodes are available"}
    said = told(pod(conditions=[condition], resourceClaimStatuses=[GENERATED]), (claim("u1"),))
    assert codes(said) == ["PodPending"]
    assert said.findings[0].message == "0/8 nodes are available"


def test_a_template_of_our_name_with_another_content_is_told() -> None:
    other = msgspec.json.decode(msgspec.json.encode(TEMPLATE))
    other["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    said = told(pod(), templates=(other,))
    assert codes(said)[0] == "TemplateDiffers"
    assert said.findings[0].object == f"ResourceClaimTemplate/team-a/{NAME}"


def test_what_the_api_server_and_we_put_beside_a_template_makes_it_no_other() -> None:
    metadata = {
        **TEMPLATE["metadata"],
        "uid": "t1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"team": "a"},
        "annotations": {"drawbridge.dev/used": "now"},
    }
    said = told(pod(), templates=({**TEMPLATE, "metadata": metadata},))
    assert "TemplateDiffers" not in codes(said)


def test_a_pod_that_was_not_translated_says_what_it_asks_and_why() -> None:
    space = {"metadata": {"name": "team-a", "labels": {}}}
    said = told(pod(LEGACY), namespace=space)
    assert not said.translated
    assert [each.resource for each in said.asked] == ["nvidia.com/gpu"]
    assert said.findings[0].code == "NotTranslated"
    assert "not opted in" in said.findings[0].message
    report = {"metadata": {"labels": {"drawbridge.dev/translate": "report"}}}
    assert "only reported on" in told(pod(LEGACY), namespace=report).findings[0].message


def test_a_pod_that_was_left_as_it_is_says_how_to_ask_why() -> None:
    space = {"metadata": {"labels": {"drawbridge.dev/translate": "enforce"}}}
    (first, *_) = told(pod(LEGACY), namespace=space).findings
    assert "was left as it is" in first.message
    assert "drawbridge translate" in first.remedy


def test_a_pod_that_a_class_serves_has_the_claim_that_the_scheduler_made() -> None:
    made = {
        "resourceClaimName": "train-drawbridge-x7",
        "requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu"}],
    }
    served = pod(LEGACY, node="n1", phase="Running", extendedResourceClaimStatus=made)
    assert referenced_names(served) == (["train-drawbridge-x7"], [])
    said = told(served, (claim("u1"),))
    (only,) = said.claims
    assert (only.state, only.containers) == ("reserved", ("main",))
    assert only.devices[0].device == "gpu-0"
    assert said.placed
    assert codes(told(served))[-1] == "ClaimGone"


def test_a_pod_that_asks_for_nothing_is_only_placed_or_not() -> None:
    plain = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    assert told(pod(plain, node="n1", phase="Running")).findings == ()
    assert codes(told(pod(plain))) == ["PodPending"]


def test_a_way_back_that_does_not_fit_is_told_and_believed_by_nobody() -> None:
    forged = msgspec.json.decode(msgspec.json.encode(TRANSLATED))
    way = '[{"op":"remove","path":"/spec/containers/7"}]'
    forged["metadata"]["annotations"]["drawbridge.dev/original"] = way
    said = told(pod(forged))
    assert "OriginalUnreadable" in codes(said)
    assert said.asked == ()


def test_events_of_both_apis_are_put_in_order_and_said_once() -> None:
    events = [
        {"reason": "Late", "note": "b", "eventTime": "2026-01-01T00:00:02.000000Z"},
        {"reason": "Early", "message": "a", "lastTimestamp": "2026-01-01T00:00:01Z"},
        {"reason": "Early", "message": "a", "lastTimestamp": "2026-01-01T00:00:00Z"},
    ]
    assert told(pod(), events=events).events == ("Early: a", "Late: b")


def test_alternatives_and_constraints_are_said() -> None:
    ways = [{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "y"}]
    devices = {
        "requests": [
            {"name": "g", "firstAvailable": ways},
            {"name": "n", "exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
        ],
        "constraints": [{"requests": ["g", "n"], "matchAttribute": "resource.k8s.io/pcieRoot"}],
    }
    template = {**TEMPLATE, "spec": {"spec": {"devices": devices}}}
    assert told(pod(), templates=(template,)).claims[0].requests == (
        "g: the first that there is of 1 x x, or 1 x y",
        "n: all x nic",
        "g, n: with the same resource.k8s.io/pcieRoot",
    )


def test_the_names_to_read_are_those_that_the_pod_refers_to() -> None:
    assert referenced_names(pod(resourceClaimStatuses=[GENERATED])) == (["train-drawbridge-x7"], [NAME])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
PARTS = st.sampled_from(
    ["metadata", "spec", "status", "resourceClaims", "containers", "resourceClaimStatuses"]
)


@given(part=PARTS, value=JSON, there=JSON)
def test_anything_is_explained_without_an_error(part: str, value: Any, there: Any) -> None:  # noqa: ANN401  # JSON
    damaged = pod(node="n1", resourceClaimStatuses=[GENERATED])
    if part in damaged:
        damaged = {**damaged, part: value}
    else:
        inside = "status" if part.endswith("Statuses") else "spec"
        damaged = {**damaged, inside: {**damaged[inside], part: value}}
    claims = {"train-drawbridge-x7": {"spec": there, "status": {"allocation": there}}}
    said = explain(PodObjects(damaged, claims, {NAME: there}, [there], there))
    assert msgspec.json.encode(said)
