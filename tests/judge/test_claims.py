"""Claims that no device can satisfy, or that the API server rejects, in all API versions."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from drawbridge.cel.dra import Selectors
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.gates import NEWEST, Gates
from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.judge.claims.constraints import check_constraints
from drawbridge.judge.claims.size import check_claim_size
from drawbridge.judge.context import JudgeCaches, JudgeContext, ObjectLookups, build_context
from drawbridge.judge.devices.proof import ProofOutcome, UnreadableClaimError, prove
from drawbridge.judge.judgement import judge_file
from drawbridge.judge.subject import claim_subject
from drawbridge.solver.world import World
from tests.judge.contexts import SELECTORS, class_context, read_classes
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "claims.yaml")


def newer_request(name: str, spec: YamlValue) -> YamlValue:
    if isinstance(spec, list):
        return {"name": name, "firstAvailable": [{"deviceClassName": "a"} | one for one in spec]}
    return {"name": name, "exactly": {"deviceClassName": "a"} | spec}


def oldest_request(name: str, spec: YamlValue) -> YamlValue:
    newer = newer_request(name, spec)
    return newer if isinstance(spec, list) else {"name": name} | newer["exactly"]


FORMS = {"v1": newer_request, "v1beta2": newer_request, "v1beta1": oldest_request}


@pytest.mark.parametrize("version", FORMS)
@every_row("case", CASES, ids=lambda case: case["name"])
def test_claim_in_a_file(case: YamlValue, version: str) -> None:
    requests = [FORMS[version](name, spec) for name, spec in case["requests"].items()]
    claim = read_claim(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "metadata": {"name": "c", "namespace": "ns"},
            "spec": {"devices": {"requests": requests, "constraints": case.get("constraints", [])}},
        }
    )
    assert isinstance(claim, Claim), claim
    labels = case.get("labels")
    lookups = ObjectLookups(find_namespace_labels=lambda _: labels)
    selectors = Selectors(NEWEST, list_attributes=True) if case.get("lists") else SELECTORS
    context = replace(class_context({}, selectors), lookups=lookups)
    # Other questions find nothing: the class is not in the cluster, and no cluster is known.
    findings = judge_file(claim_subject(claim), context)
    expected = [(code, f"spec.devices.{path}".rstrip(".")) for code, path in case["found"]]
    assert [(each.code, each.path) for each in findings] == expected
    assert all(each.object == "ResourceClaim/ns/c" for each in findings)
    if "says" in case:
        assert findings[0].message == case["says"]


NAMES = ("a", "b")
ATTRIBUTES = ("d.io/x", "d.io/y")


def published() -> JudgeContext:
    """A node with 36 devices, in all combinations of six values of two attributes."""
    devices = [
        {"name": f"d{i}", "attributes": {"x": {"int": i % 6}, "y": {"int": i // 6}}}
        for i in range(36)
    ]
    read = read_slice(
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "d.io",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "n",
                "devices": devices,
            },
        }
    )
    assert isinstance(read, Slice), read
    gates = Gates(derived_attributes=True)
    world = World(build_inventory([read], gates=gates), read_classes({"a": "true"}))
    return build_context(world.as_upstream(), caches=JudgeCaches(SELECTORS))


CONTEXT = published()


@pytest.mark.parametrize(("other", "more"), [([], []), (["d.io/w"], ["ConstraintNeverMet"])])
def test_constraints_on_a_rejected_derived_attribute_are_not_judged(
    other: list[str], more: list[str]
) -> None:
    asked = {"count": 2, "derivedAttributes": [{"name": "d.io/z", "expression": "1.5"}]}
    spec = {
        "requests": [newer_request("r", asked)],
        "constraints": [{"distinctAttribute": name} for name in ("d.io/z", *other)],
    }
    claim = read_claim({"metadata": {"name": "c"}, "spec": {"devices": spec}})
    assert isinstance(claim, Claim), claim
    codes = [each.code for each in judge_file(claim_subject(claim), CONTEXT)]
    assert codes == ["ExpressionRefused", *more]


COUNTS = st.sampled_from([{"count": 1}, {"count": 2}, {"count": 3}, {"count": 20}])
SPECS = COUNTS | st.lists(COUNTS, min_size=1, max_size=2).map(
    lambda listed: [{"name": f"s{i}"} | one for i, one in enumerate(listed)]
)


# Of one attribute: most contradict each other where they are for the same devices.
KINDS = (
    ("matchAttribute", "distinctAttribute"),
    ("distinctAttribute", "matchAttribute"),
    ("distinctAttribute",),
)


@st.composite
def devices(draw: st.DrawFn) -> YamlValue:
    specs = {name: draw(SPECS) for name in NAMES[: draw(st.integers(1, 2))]}
    targets = [*specs, *(f"{name}/s0" for name, one in specs.items() if isinstance(one, list))]
    constraint = st.fixed_dictionaries(
        {"requests": st.lists(st.sampled_from(targets), unique=True, max_size=2)}
    )
    constraints = [
        draw(constraint) | {kind: attribute}
        for attribute in draw(st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=2))
        for kind in draw(st.sampled_from(KINDS))
    ]
    requests = [newer_request(name, one) for name, one in specs.items()]
    return {"requests": requests, "constraints": constraints}


@given(devices())
def test_claim_with_an_error_has_no_solution_on_any_devices(spec: YamlValue) -> None:
    claim = read_claim({"metadata": {"name": "c"}, "spec": {"devices": spec}})
    assert isinstance(claim, Claim), claim
    subject = claim_subject(claim)
    findings = [*check_claim_size(subject, CONTEXT), *check_constraints(subject, CONTEXT)]
    assume(findings)
    # The solver knows nothing of these questions, and agrees with the scheduler. A large count and
    # constraints that exclude each other can take it more steps than it has.
    with contextlib.suppress(UnreadableClaimError):
        assert prove([claim], CONTEXT).outcome is not ProofOutcome.POSSIBLE
