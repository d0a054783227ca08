"""A pod is explained from its objects, and from incomplete or malformed ones."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.report.device_holders import HeldObjects
from drawbridge.report.events import SeenEvent
from drawbridge.report.explain import (
    Explanation,
    PodObjects,
    explain,
    referenced_names,
)
from drawbridge.report.node import explain_node
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate

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
TRANSLATION = translate(LEGACY, make_context(Configuration()))
TRANSLATED: Any = apply_edits(LEGACY, TRANSLATION.edits)
ORIGINAL = "drawbridge.dev/original"
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


def explained(
    pod: Any,  # noqa: ANN401  # JSON
    claims: tuple[Any, ...] = (),
    templates: tuple[Any, ...] = (TEMPLATE,),
    **more: Any,  # noqa: ANN401  # fields of PodObjects
) -> Explanation:
    return explain(
        PodObjects(
            pod,
            {each["metadata"]["name"]: each for each in claims},
            {each["metadata"]["name"]: each for each in templates},
            **more,
        )
    )


def codes(explanation: Explanation) -> list[str]:
    return [each.code for each in explanation.findings]


def messages(explanation: Explanation) -> str:
    return "\n".join(each.message for each in explanation.findings)


def test_original_requests_are_restored_from_the_annotation() -> None:
    explanation = explained(pod())
    assert explanation.translated
    assert [(each.container, each.resource, each.amount) for each in explanation.asked] == [
        ("main", "nvidia.com/gpu", "2")
    ]
    assert explanation.hints == {"nvidia.com/use-gputype": "A100"}


def test_requests_are_read_from_the_template_without_a_claim() -> None:
    (only,) = explained(pod()).claims
    assert (only.state, only.template, only.claim) == ("not generated", NAME, None)
    assert only.requests[0].startswith("2 devices of class gpu.nvidia.com where ")
    assert "a100" in only.requests[0]
    assert only.containers == ("main",)


def test_a_running_pod_has_no_findings() -> None:
    explanation = explained(
        pod(node="n1", phase="Running", resourceClaimStatuses=[GENERATED]), (claim("u1"),)
    )
    assert (explanation.placed, explanation.node, explanation.findings) == (True, "n1", ())
    (device,) = explanation.claims[0].devices
    assert (device.driver, device.pool, device.device) == ("gpu.nvidia.com", "n1", "gpu-0")
    assert device.consumed == {"memory": "10Gi"}


def test_each_missing_step_has_its_finding() -> None:
    generated = {"resourceClaimStatuses": [GENERATED]}
    bound = pod(node="n1", **generated)
    steps = {
        "TemplateMissing": explained(pod(), templates=()),
        "ClaimNotGenerated": explained(pod()),
        "ClaimGone": explained(pod(**generated)),
        "ClaimPending": explained(pod(**generated), (claim(allocated=False),)),
        "ClaimNotReserved": explained(bound, (claim("u2"),)),
        "DevicesNotPrepared": explained(bound, (claim("u1"),)),
    }
    for code, explanation in steps.items():
        assert codes(explanation)[0] == code
    assert {code for code, explanation in steps.items() if explanation.placed} == {
        "ClaimNotReserved",
        "DevicesNotPrepared",
    }


def told_by(reason: str, note: str) -> dict[str, Any]:
    subject = {"kind": "Pod", "name": "train", "namespace": "team-a", "uid": "u1"}
    return {"kind": "Event", "regarding": subject, "reason": reason, "note": note}


REFUSED = told_by("TemplateRefused", f"ResourceClaimTemplate {NAME}: 403: a quota. Fix the cause.")
OF_KUBERNETES = told_by("FailedResourceClaimCreation", f'template "{NAME}": not found')
OF_ANOTHER = told_by("TemplateRefused", "ResourceClaimTemplate drawbridge-other: 403: a quota")


@pytest.mark.parametrize(
    ("events", "refers"), [([REFUSED], True), ([OF_KUBERNETES], False), ([OF_ANOTHER], False)]
)
def test_a_missing_template_refers_to_the_event_that_says_why(
    events: list[Any], *, refers: bool
) -> None:
    (missing,) = explained(pod(), templates=(), events=events).findings
    assert missing.code == "TemplateMissing"
    assert ("The event TemplateRefused says why" in missing.remedy) == refers
    assert ("log of the controller" in missing.remedy) != refers


@pytest.mark.parametrize("scheduler", ["drawbridge", "default-scheduler"])
def test_no_scheduler_is_to_be_checked_for_a_pod_that_has_no_claim_yet(scheduler: str) -> None:
    value: Any = {**TRANSLATED, "spec": {**TRANSLATED["spec"], "schedulerName": scheduler}}
    generated = {"resourceClaimStatuses": [GENERATED]}
    without = [explained(pod(value), templates=()), explained(pod(value))]
    without.append(explained(pod(value, **generated)))
    assert [*map(codes, without)] == [["TemplateMissing"], ["ClaimNotGenerated"], ["ClaimGone"]]
    waiting = explained(pod(value, **generated), (claim(allocated=False),))
    assert codes(waiting) == ["ClaimPending", "PodPending"]
    said = {"type": "PodScheduled", "status": "False", "message": "gated"}
    assert "PodPending" in codes(explained(pod(value, conditions=[said]), templates=()))


OURS: Any = {**TRANSLATED, "spec": {**TRANSLATED["spec"], "schedulerName": "drawbridge"}}
LEASES: list[tuple[Any, str]] = [
    (None, "the scheduler drawbridge has not tried the pod yet"),
    ({}, "its Lease drawbridge-system/drawbridge-scheduler does not exist"),
    ({"spec": {}}, "its Lease drawbridge-system/drawbridge-scheduler has no holder"),
    (
        {"spec": {"holderIdentity": "host-1_0d3f", "renewTime": "2026-11-21T10:00:00.000000Z"}},
        "Lease drawbridge-system/drawbridge-scheduler, renewed at 2026-11-21T10:00:00.000000Z",
    ),
]


@pytest.mark.parametrize(("lease", "message"), LEASES)
def test_a_pod_that_our_scheduler_has_not_tried_says_who_leads(lease: Any, message: str) -> None:  # noqa: ANN401  # JSON
    explanation = explained(
        pod(OURS, resourceClaimStatuses=[GENERATED]), (claim(allocated=False),), lease=lease
    )
    assert explanation.scheduler == "drawbridge"
    (pending,) = (each for each in explanation.findings if each.code == "PodPending")
    assert pending.message.endswith(message)
    assert "drawbridge doctor" in pending.remedy


def with_binding(*users: str, **reported: str) -> dict[str, Any]:
    """A claim whose device needs `Attached` and fails with `Broken`, and what is reported."""
    needs = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
    held = claim(*users)
    held["status"]["allocation"]["devices"]["results"] = [{**RESULT, **needs}]
    conditions = [{"type": key, "status": value} for key, value in reported.items()]
    device = {key: RESULT[key] for key in ("driver", "pool", "device")}
    held["status"]["devices"] = [{**device, "conditions": conditions}]
    return held


BINDS = "has not bound it yet"
DEVICE = f"{BINDS}; device gpu.nvidia.com/n1/gpu-0"


@pytest.mark.parametrize(
    ("held", "said", "message", "remedy"),
    [
        (with_binding("u1"), "", f"{DEVICE} does not report Attached", "the driver reports"),
        (with_binding("u1", Broken="True"), "", f"{DEVICE} reports Broken", "the driver reports"),
        (with_binding("u1"), "0/8 nodes", "does not report Attached; 0/8 nodes", "the driver"),
        (with_binding("u1", Attached="True"), "", BINDS, "drawbridge doctor"),
        (with_binding("u1", Attached="True"), "0/8 nodes", "0/8 nodes", "Free, add or change"),
        (with_binding("u2"), "", "the scheduler drawbridge has not tried the pod yet", "doctor"),
        (
            claim(allocated=False),
            "",
            "the scheduler drawbridge has not tried the pod yet",
            "doctor",
        ),
    ],
)
def test_a_pod_whose_devices_are_allocated_is_being_bound(
    held: Any,  # noqa: ANN401  # JSON
    said: str,
    message: str,
    remedy: str,
) -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "message": said}] if said else []
    waiting = pod(OURS, conditions=conditions, resourceClaimStatuses=[GENERATED])
    (told,) = (e for e in explained(waiting, (held,)).findings if e.code == "PodPending")
    assert told.message.endswith(message)
    assert remedy in told.remedy


@pytest.mark.parametrize(("lease", "message"), LEASES[1:])
def test_a_pod_that_waits_to_be_bound_says_who_leads(lease: Any, message: str) -> None:  # noqa: ANN401  # JSON
    """The scheduler can have ended between the allocation and the binding."""
    waiting = pod(OURS, resourceClaimStatuses=[GENERATED])
    (told,) = explained(waiting, (claim("u1"),), lease=lease).findings
    assert BINDS in told.message
    assert told.message.endswith(message)


def test_the_reasons_of_the_allocator_are_those_of_the_condition() -> None:
    text = "2 nodes: no devices of the allocator; allocator not reachable"
    condition = {"type": "PodScheduled", "status": "False", "message": text}
    explanation = explained(pod(OURS, conditions=[condition]), lease={})
    assert text in messages(explanation)
    assert "Lease" not in messages(explanation)


def marked(device: str) -> dict[str, Any]:
    """Metadata of a claim with the mark of Drawbridge's allocator for one device."""
    named = {key: RESULT[key] for key in ("driver", "pool")} | {"device": device}
    mark = json.dumps({"allocator": "drawbridge", "devices": [named]})
    return {"metadata": {**CLAIM["metadata"], "annotations": {"drawbridge.dev/allocation": mark}}}


def test_a_claim_whose_mark_names_its_devices_is_allocated_by_drawbridge() -> None:
    mark = marked("gpu-0")
    bound = pod(OURS, node="n1", phase="Running", resourceClaimStatuses=[GENERATED])
    (only,) = explained(bound, ({**claim("u1"), **mark},)).claims
    assert (only.state, only.allocator) == ("reserved", "drawbridge")
    (only,) = explained(bound, ({**claim(allocated=False), **mark},)).claims
    assert (only.state, only.allocator) == ("being allocated", None)
    for by_others in (claim("u1"), {**claim("u1"), **marked("gpu-1")}):
        (only,) = explained(bound, (by_others,)).claims
        assert only.allocator is None


@pytest.mark.parametrize(("group", "state"), [("g", "reserved"), ("other", "allocated")])
def test_a_claim_that_is_reserved_for_the_group_of_a_pod_is_reserved(
    group: str, state: str
) -> None:
    held = claim("u2")
    consumer = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u2"}
    held["status"]["reservedFor"] = [consumer]
    member = pod(OURS, node="n1", phase="Running", resourceClaimStatuses=[GENERATED])
    member["spec"]["schedulingGroup"] = {"podGroupName": group}
    (only,) = explained(member, (held,)).claims
    assert only.state == state


def test_a_claim_reserved_for_another_pod_names_that_pod() -> None:
    explanation = explained(pod(node="n1", resourceClaimStatuses=[GENERATED]), (claim("u2"),))
    assert explanation.findings[0].message == "reserved for pod-u2, not for this pod"


def test_the_message_of_the_scheduler_is_shown() -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/8 nodes are available"}
    explanation = explained(
        pod(conditions=[condition], resourceClaimStatuses=[GENERATED]), (claim("u1"),)
    )
    assert codes(explanation) == ["PodPending"]
    assert explanation.findings[0].message == "0/8 nodes are available"


@pytest.mark.parametrize("is_live", [False, True])
def test_the_remedy_for_a_pod_that_waits_names_the_command_only_for_files(*, is_live: bool) -> None:
    condition = {"type": "PodScheduled", "status": "False", "message": "0/8 nodes are available"}
    explanation = explained(
        pod(conditions=[condition], resourceClaimStatuses=[GENERATED]),
        (claim(allocated=False),),
        is_live=is_live,
    )
    assert codes(explanation) == ["ClaimPending", "PodPending"]
    named = ["drawbridge explain" in each.remedy for each in explanation.findings]
    assert named == [not is_live] * 2


def test_a_template_with_changed_content_is_reported() -> None:
    other = msgspec.json.decode(msgspec.json.encode(TEMPLATE))
    other["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 1
    explanation = explained(pod(), templates=(other,))
    assert codes(explanation)[0] == "TemplateDiffers"
    assert explanation.findings[0].object == f"ResourceClaimTemplate/team-a/{NAME}"


def test_added_metadata_does_not_change_the_identity_of_a_template() -> None:
    metadata = {
        **TEMPLATE["metadata"],
        "uid": "t1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"team": "a"},
        "annotations": {"drawbridge.dev/used": "now"},
    }
    explanation = explained(pod(), templates=({**TEMPLATE, "metadata": metadata},))
    assert "TemplateDiffers" not in codes(explanation)


def test_an_extended_resource_claim_of_the_scheduler_is_shown() -> None:
    made = {
        "resourceClaimName": "train-drawbridge-x7",
        "requestMappings": [{"containerName": "main", "resourceName": "nvidia.com/gpu"}],
    }
    served = pod(LEGACY, node="n1", phase="Running", extendedResourceClaimStatus=made)
    assert referenced_names(served) == (["train-drawbridge-x7"], [])
    explanation = explained(served, (claim("u1"),))
    (only,) = explanation.claims
    assert (only.state, only.containers) == ("reserved", ("main",))
    assert only.devices[0].device == "gpu-0"
    assert explanation.placed
    assert codes(explained(served))[-1] == "ClaimGone"


def test_a_pod_without_device_requests_has_no_claim_findings() -> None:
    plain = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
    assert explained(pod(plain, node="n1", phase="Running")).findings == ()
    assert codes(explained(pod(plain))) == ["PodPending"]


def test_an_original_annotation_that_does_not_match_is_ignored_and_reported() -> None:
    forged = msgspec.json.decode(msgspec.json.encode(TRANSLATED))
    patch = '[{"op":"remove","path":"/spec/containers/7"}]'
    forged["metadata"]["annotations"]["drawbridge.dev/original"] = patch
    explanation = explained(pod(forged))
    assert "OriginalUnreadable" in codes(explanation)
    assert "does not match this pod" in messages(explanation)
    assert explanation.asked == ()


def test_an_annotation_alone_does_not_say_that_a_pod_is_translated() -> None:
    copied = {**LEGACY, "metadata": {**LEGACY["metadata"], "annotations": {ORIGINAL: "[]"}}}
    assert explained(pod()).translated
    assert not explained(pod(copied)).translated
    assert "NotTranslated" in codes(explained(pod(copied)))


def seen(reason: str, uid: str | None = None, **fields: str) -> dict[str, Any]:
    subject = {"kind": "Pod", "name": "train"} | ({} if uid is None else {"uid": uid})
    return {"reason": reason, "regarding": subject, **fields}


def test_events_of_both_apis_are_sorted_and_deduplicated() -> None:
    events = [
        seen("Late", note="b", eventTime="2026-01-01T00:00:02.000000Z"),
        seen("Early", message="a", lastTimestamp="2026-01-01T00:00:01Z"),
        seen("Early", message="a", lastTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert explained(pod(), events=events).events == (
        SeenEvent("2026-01-01T00:00:01Z", "Early", "a"),
        SeenEvent("2026-01-01T00:00:02.000000Z", "Late", "b"),
    )


def test_events_of_an_earlier_pod_with_the_same_name_are_left_out() -> None:
    own = TRANSLATED["metadata"]["uid"]
    events = [seen("Old", uid="another"), seen("New", uid=own), seen("Unknown")]
    assert [each.reason for each in explained(pod(), events=events).events] == ["New", "Unknown"]


def test_alternatives_and_constraints_are_described() -> None:
    alternatives = [{"name": "a", "deviceClassName": "x"}, {"name": "b", "deviceClassName": "y"}]
    devices = {
        "requests": [
            {"name": "g", "firstAvailable": alternatives},
            {"name": "n", "exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
        ],
        "constraints": [{"requests": ["g", "n"], "matchAttribute": "resource.k8s.io/pcieRoot"}],
    }
    template = {**TEMPLATE, "spec": {"spec": {"devices": devices}}}
    assert explained(pod(), templates=(template,)).claims[0].requests == (
        "g: 1 device of class x, or else 1 device of class y",
        "n: all devices of class nic",
        "with the same resource.k8s.io/pcieRoot: g and n",
    )


def test_referenced_names_include_generated_claims() -> None:
    assert referenced_names(pod(resourceClaimStatuses=[GENERATED])) == (
        ["train-drawbridge-x7"],
        [NAME],
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
PARTS = st.sampled_from(
    ["metadata", "spec", "status", "resourceClaims", "containers", "resourceClaimStatuses"]
)


@given(part=PARTS, value=JSON, there=JSON)
def test_malformed_objects_do_not_raise(part: str, value: Any, there: Any) -> None:  # noqa: ANN401  # JSON
    damaged = pod(node="n1", resourceClaimStatuses=[GENERATED])
    if part in damaged:
        damaged = {**damaged, part: value}
    else:
        inside = "status" if part.endswith("Statuses") else "spec"
        damaged = {**damaged, inside: {**damaged[inside], part: value}}
    claims = {"train-drawbridge-x7": {"spec": there, "status": {"allocation": there}}}
    explanation = explain(PodObjects(damaged, claims, {NAME: there}, [there], there))
    assert msgspec.json.encode(explanation)


@pytest.mark.parametrize(("key", "text"), [("gpu-fraction", "0.5"), ("gpu-memory", "2000")])
def test_annotations_that_request_devices_are_requests(key: str, text: str) -> None:
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}
    explanation = explained({"metadata": {"name": "p", "annotations": {key: text}}, "spec": spec})
    assert explanation.hints == {key: text}
    assert explanation.findings[0].code == "NotTranslated"
    assert explanation.findings[0].message.startswith(f"requests {key}")


def test_a_pod_that_no_scheduler_has_tried_names_its_scheduler() -> None:
    explanation = explained({"spec": {"schedulerName": "kai-scheduler"}})
    (finding,) = explanation.findings
    assert "kai-scheduler" in finding.message
    assert finding.remedy == "Check that the scheduler kai-scheduler runs."


def test_a_pod_that_opts_out_is_not_translated_by_its_label() -> None:
    metadata = {**LEGACY["metadata"], "labels": {"drawbridge.dev/translate": "off"}}
    finding = explained(pod({**LEGACY, "metadata": metadata})).findings[0]
    assert (finding.code, finding.path) == ("OptedOut", "metadata.labels[drawbridge.dev/translate]")


@pytest.mark.parametrize(("minute", "verb"), [(31, "held"), (30, "were held")])
def test_a_node_says_whether_the_time_of_its_hold_is_over(minute: int, verb: str) -> None:
    hold = {"pod": "research/train", "uid": "u", "until": f"2026-03-01T12:{minute:02}:00Z"}
    node: Any = {"metadata": {"annotations": {"drawbridge.dev/held-for": json.dumps(hold)}}}
    said = explain_node(
        "a", node, HeldObjects(), (), (), now=datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    ).hold
    assert said == f"devices {verb} for research/train until {hold['until']}"
