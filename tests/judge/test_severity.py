"""When a finding about devices is an error, and when it becomes a warning that says why."""

import pytest
from msgspec.structs import replace

from drawbridge.config.model import Policy
from drawbridge.config.string_formats import FindingCode
from drawbridge.dra.claim import Claim, ClaimMetadata
from drawbridge.dra.inventory import build_inventory
from drawbridge.facts.fleet import FleetVerdict
from drawbridge.finding import Code, Finding, Severity
from drawbridge.judge.context import JudgeContext, build_context
from drawbridge.judge.severity import DeviceFinding, settle_all
from drawbridge.judge.subject import Origin, claim_subject
from drawbridge.solver.world import World

CODE = Code(
    name="Never",
    activity="",
    severity=Severity.ERROR,
    text="",
    example="",
    remedy="Ask for less.",
)
GPU = frozenset({"gpu"})
CLAIM = Claim(metadata=ClaimMetadata(name="c", namespace="ns"))
CLOSED = FleetVerdict(closed=True)
OPEN = FleetVerdict(closed=False, reason="node a has a node-group label")


def context(
    verdict: FleetVerdict | None = CLOSED,
    policy: Policy | None = None,
    doubts: tuple[str, ...] = (),
) -> JudgeContext:
    """A context with one class, `gpu`."""
    policies = {FindingCode("Never"): policy} if policy else {}
    built = build_context(World(build_inventory(())), policies=policies, doubts=doubts)
    return replace(built, fleet={"gpu": verdict} if verdict else {})


def settle(
    of: JudgeContext, *, unproved: str = "", origin: Origin = Origin.USER
) -> tuple[Finding, ...]:
    """The findings that one finding about devices becomes."""
    reported = DeviceFinding(CODE.at("spec", "no gpu fits"), GPU, unproved)
    return tuple(settle_all([reported], claim_subject(CLAIM, origin=origin), of))


def test_a_proved_finding_about_a_closed_fleet_is_an_error_that_names_the_setting() -> None:
    (finding,) = settle(context())
    assert finding.severity is Severity.ERROR
    assert finding.message == "no gpu fits"
    assert "`fleet`" in finding.remedy
    assert "class gpu" in finding.remedy


@pytest.mark.parametrize(
    ("of", "unproved", "origin", "reason"),
    [
        (context(OPEN), "", Origin.USER, "node a has a node-group label"),
        (context(None), "", Origin.USER, "nothing is known about the fleet of class gpu"),
        (context(doubts=("the cache is stale",)), "", Origin.USER, "the cache is stale"),
        (context(), "the search was cut", Origin.USER, "the search was cut"),
        (context(), "", Origin.CONTROL_PLANE, "the control plane made the object"),
    ],
)
def test_a_doubtful_finding_is_a_warning_that_says_why(
    of: JudgeContext, unproved: str, origin: Origin, reason: str
) -> None:
    (finding,) = settle(of, unproved=unproved, origin=origin)
    assert finding.severity is Severity.WARNING
    assert finding.message == f"no gpu fits (not refused, because {reason})"


def test_the_policy_enforce_proves_nothing() -> None:
    (finding,) = settle(context(OPEN, Policy.ENFORCE))
    assert finding.severity is Severity.WARNING


def test_the_policies_warn_and_off_lower_an_error() -> None:
    (finding,) = settle(context(policy=Policy.WARN))
    assert finding.severity is Severity.WARNING
    assert settle(context(policy=Policy.OFF)) == ()


@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.WARNING])
@pytest.mark.parametrize("of_devices", [False, True])
def test_the_policy_enforce_refuses_no_claim_of_the_control_plane(
    severity: Severity, *, of_devices: bool
) -> None:
    reported = replace(CODE.at("spec", "wrong"), severity=severity)
    finding = DeviceFinding(reported, GPU) if of_devices else reported
    made = {
        origin: tuple(
            settle_all(
                [finding], claim_subject(CLAIM, origin=origin), context(CLOSED, Policy.ENFORCE)
            )
        )
        for origin in (Origin.USER, Origin.CONTROL_PLANE)
    }
    assert [each.severity for each in made[Origin.USER]] == [Severity.ERROR]
    assert [each.severity for each in made[Origin.CONTROL_PLANE]] == [Severity.WARNING]
    assert "the control plane made the object" in made[Origin.CONTROL_PLANE][0].message


def test_an_error_without_devices_needs_no_closed_fleet() -> None:
    plain = CODE.at("spec", "wrong in itself")
    assert tuple(settle_all([plain], claim_subject(CLAIM), context(OPEN))) == (plain,)
