"""Claims and pods judged by the published devices: a case table, and what it cannot express."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from drawbridge.dra.claim import ClaimMetadata
from drawbridge.dra.inventory import PoolID
from drawbridge.finding import Finding, Severity
from drawbridge.judge.context import JudgeContext, ObjectLookups
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import JudgedClaim, Origin, Subject, claim_subject
from drawbridge.ledger.pods import Pod
from drawbridge.solver.world import PoolUse, View
from tests.judge.fleets import FLEETS, claim, context
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases/devices.yaml")
GPUS = PoolID("gpu.example.com", "a")


def judge(short: YamlValue, of: JudgeContext) -> tuple[Finding, ...]:
    """The findings about one claim."""
    return judge_subject(claim_subject(claim(short)), of)


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_claim_that_is_never_satisfied(case: YamlValue) -> None:
    findings = judge(case["refused"], context(FLEETS[case["fleet"]]))
    code, path, message = case["found"]
    first = findings[0]
    where = f"spec.devices.{path}" if path else "spec.devices"
    assert (first.code, first.path, first.message) == (code, where, message)
    assert first.object == "ResourceClaim/ns/c"
    assert first.remedy.startswith(case.get("remedy", ""))
    assert {each.severity.value for each in findings} == {case.get("severity", "error")}


@every_row("case", CASES, ids=lambda case: case["name"])
def test_the_nearest_claim_that_is_satisfied(case: YamlValue) -> None:
    assert judge(case["accepted"], context(FLEETS[case["fleet"]])) == ()


def pod(*shorts: YamlValue) -> Subject:
    """A pod with these claims."""
    claims = [claim(short, f"c{number}") for number, short in enumerate(shorts)]
    return Subject(
        "Pod/ns/p",
        "ns",
        tuple(JudgedClaim(each, f"ResourceClaim/ns/{each.metadata.name}") for each in claims),
        Pod(metadata=ClaimMetadata(name="p", namespace="ns")),
    )


def test_the_claims_of_a_pod_are_judged_together() -> None:
    fleet = context(FLEETS["GPU and NIC on different nodes"])
    gpu, nic = {"requests": [{"class": "gpu"}]}, {"requests": [{"class": "nic"}]}
    (finding,) = judge_subject(pod(gpu, gpu, nic), fleet)
    assert finding.code == "DevicesNeverTogether"
    assert (finding.object, finding.path) == ("Pod/ns/p", "spec.resourceClaims")
    # The claim that is not needed for the contradiction is not named.
    assert "the claims of ResourceClaim/ns/c1, ResourceClaim/ns/c2 together" in finding.message
    assert judge_subject(pod(gpu, gpu), fleet) == ()


def test_a_claim_of_a_pod_that_is_impossible_alone_is_named_where_it_is_written() -> None:
    fleet = context(FLEETS["two products"])
    possible, impossible = ({"requests": [{"class": "gpu", "count": n}]} for n in (1, 9))
    (finding,) = judge_subject(pod(possible, impossible), fleet)
    assert (finding.code, finding.object) == ("CountNeverFits", "ResourceClaim/ns/c1")


GPU, UNPUBLISHED, MISSING = ({"requests": [{"class": name}]} for name in ("gpu", "nic", "gone"))
TWO_ROOTS = {
    "requests": [{"class": "gpu", "count": 5}],
    "constraints": [{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
}
TOO_MANY = {"requests": [{"class": "gpu", "count": 5}, {"class": "gpu", "count": 4}]}
MANY = {"requests": [{"class": "gpu", "count": 5}]}
# A pod with a claim that gets a warning, and the errors about the rest of it.
WITH_WARNING = {
    "the constraints of another claim": ([UNPUBLISHED, TWO_ROOTS], {"ConstraintNeverMet"}),
    "the requests of another claim": ([UNPUBLISHED, TOO_MANY], {"DevicesNeverTogether"}),
    "other claims together": ([MANY, UNPUBLISHED, MANY], {"DevicesNeverTogether"}),
    "another claim and other requests of the claim": (
        [MANY, {"requests": UNPUBLISHED["requests"] + MANY["requests"]}],
        {"DevicesNeverTogether"},
    ),
    "other requests of the claim": (
        [{"requests": UNPUBLISHED["requests"] + TOO_MANY["requests"]}],
        {"DevicesNeverTogether"},
    ),
    "constraints of other requests of the claim": (
        [TWO_ROOTS | {"requests": TWO_ROOTS["requests"] + UNPUBLISHED["requests"]}],
        {"ConstraintNeverMet"},
    ),
    "a claim beside one of a missing class": ([MISSING, TOO_MANY], {"DevicesNeverTogether"}),
    "other claims that are possible": ([UNPUBLISHED, MANY, TWO_ROOTS | GPU], set()),
    "a possible claim beside one of a missing class": ([MISSING, MANY], set()),
    "other requests that are possible": (
        [{"requests": UNPUBLISHED["requests"] + MANY["requests"]}],
        set(),
    ),
}


@pytest.mark.parametrize(("claims", "errors"), WITH_WARNING.values(), ids=WITH_WARNING)
def test_a_warning_hides_no_error_about_the_rest(claims: list[YamlValue], errors: set[str]) -> None:
    fleet = context(FLEETS["two products"], lookups=ObjectLookups(complete=True))
    findings = judge_subject(pod(*claims), fleet)
    codes = {level: {f.code for f in findings if f.severity is level} for level in Severity}
    assert codes[Severity.ERROR] == errors
    assert codes[Severity.WARNING] in ({"ClassWithoutDevices"}, {"ClassNotFound"})


def test_devices_in_use_are_no_reason_to_refuse() -> None:
    used = frozenset(f"gpu-{number}" for number in range(8))
    view = View({GPUS: PoolUse(dedicated=used)})
    short = {"requests": [{"class": "gpu", "count": 8}]}
    (finding,) = judge(short, context(FLEETS["two products"], view=view))
    assert (finding.code, finding.severity) == ("NoRoomNow", Severity.WARNING)
    assert "8 of 8 in use" in finding.message
    assert judge({"requests": [{"class": "gpu"}]}, context(FLEETS["two products"], view=view)) == ()


def test_a_claim_of_the_control_plane_is_never_refused() -> None:
    subject = claim_subject(
        claim({"requests": [{"class": "gpu", "count": 9}]}), origin=Origin.CONTROL_PLANE
    )
    (finding,) = judge_subject(subject, context(FLEETS["two products"]))
    assert finding.severity is Severity.WARNING


def test_a_selector_that_fails_on_a_device_is_no_proof() -> None:
    # The scheduler skips the device without `index` while it is in use.
    fleet = {
        "nodes": {
            "a": {
                "gpu": {"count": 2, "attributes": [{"model": "A100"}, {"model": "A", "index": 1}]}
            }
        }
    }
    short = {
        "requests": [{"class": "gpu", "where": 'device.attributes["gpu.example.com"].index == 1'}]
    }
    assert not any(each.severity is Severity.ERROR for each in judge(short, context(fleet)))


def test_an_exhausted_search_refuses_nothing() -> None:
    short = {"requests": [{"class": "gpu", "count": 3}]}
    findings = judge(short, replace(context(FLEETS["partitions"]), steps=1))
    assert findings
    assert all(each.severity is Severity.WARNING for each in findings)
    assert "reached its limit" in findings[0].message


def test_slices_of_a_pool_that_was_just_deleted_keep_the_fleet_open() -> None:
    (gone,) = context(FLEETS["tainted"]).world.inventory.slices
    other = {"nodes": {"b": {"gpu": {"count": 1, "attributes": {"model": "T4"}}}}}
    short = {"requests": [{"class": "gpu", "count": 2}]}
    (finding,) = judge(short, context(other))
    assert finding.severity is Severity.ERROR
    (finding,) = judge(short, context(other, departed=[gone]))
    assert finding.severity is Severity.WARNING
    assert (
        "gpu.example.com withdrew or changed devices of pool a a short time ago" in finding.message
    )


def test_a_selector_that_takes_too_much_work_proves_nothing() -> None:
    expensive = {"class": "gpu", "where": r"device.driver.matches('\\pL{900}')"}
    findings = judge({"requests": [expensive]}, context(FLEETS["two products"]))
    assert findings[0].code == "SelectorTooExpensive"
    assert {each.severity for each in findings} == {Severity.WARNING}
