"""Tests of the audit: it reports violated invariants and nothing else."""

from typing import Any

import pytest
from msgspec.structs import replace

from drawbridge.dra.claim import Claim, ClaimSpec, DerivedAttribute, Devices, ExactRequest, Request
from drawbridge.dra.compatibility import Declaration, UnsetGroups
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.inventory import PoolID, build_inventory, find_published_pool
from drawbridge.dra.partitions import PartitionTable
from drawbridge.dra.quantity import parse
from drawbridge.dra.rules import Distinct, Near, Rules, encode_rules
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.finding import Finding
from drawbridge.ledger.allocation_mark import (
    ALLOCATOR,
    Mark,
    MarkedDevice,
    format_mark,
    make_mark,
    read_mark,
)
from drawbridge.ledger.audit import audit
from drawbridge.ledger.ledger import Ledger
from drawbridge.names import RULES_ANNOTATION
from drawbridge.solver.world import World
from tests.ledger.claims import DRIVER, POOL, allocation, claim
from tests.tables import every_row

Plain = dict[str, Any]


def device(name: str, **fields: object) -> Plain:
    return {"name": name, **fields}


def drawing(name: str, memory: str, *groups: str) -> Plain:
    use = {"counterSet": "set", "counters": {"memory": {"value": memory}}}
    return device(name, consumesCounters=[use | {"compatibilityGroups": list(groups)}])


def world(*devices: Plain, count: int = 2, generation: int = 1) -> World:
    pool = {"name": POOL, "generation": generation, "resourceSliceCount": count}
    base = {"driver": DRIVER, "allNodes": True, "pool": pool}
    counters = [{"name": "set", "counters": {"memory": {"value": "10Gi"}}}]
    slices = [
        read_slice({"metadata": {"name": "a"}, "spec": {**base, "devices": list(devices)}}),
        read_slice({"metadata": {"name": "b"}, "spec": {**base, "sharedCounters": counters}}),
    ]
    return World(build_inventory([each for each in slices if isinstance(each, Slice)]))


SHARED = {"allowMultipleAllocations": True, "capacity": {"bandwidth": {"value": "10G"}}}
WHOLE = world(
    device("x"),
    device("nic", **SHARED),
    drawing("one", "6Gi", "g"),
    drawing("two", "4Gi", "g"),
    drawing("three", "5Gi", "h"),
    drawing("four", "1Gi"),
)


def ledger(*held: str) -> Ledger:
    """A ledger with one claim for each of `held`; spaces separate the results of a claim."""
    made = Ledger()
    for number, results in enumerate(held):
        made.observe(claim(f"{number}", 1, *results.split()))
    return made


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [each.code for each in findings]


@every_row(
    ("held", "expected"),
    [
        (["x"], []),
        (["x", "x"], ["DeviceHeldTwice"]),
        (["x", "x!"], []),
        (["x x"], ["DeviceHeldTwice"]),
        (["nic:1=4G", "nic:2=6G"], []),
        (["nic:1=4G", "nic:2=7G"], ["CapacityExceeded"]),
        (["nic:1=1G", "nic"], ["DeviceHeldTwice"]),
        (["x:1=1G"], ["DeviceNotShared"]),
        (["gone"], ["DeviceLost"]),
        (["elsewhere/x"], []),
        (["one", "two"], []),
        (["one", "one"], ["DeviceHeldTwice"]),
        (["two", "three"], ["GroupsContradict"]),
        (["one", "three"], ["CounterOverdrawn", "GroupsContradict"]),
        (["two", "four"], ["GroupsContradict"]),
        (["four"], []),
    ],
)
def test_the_audit_reports_violations(held: list[str], expected: list[str]) -> None:
    assert codes(audit(ledger(*held), WHOLE)) == expected


def test_the_audit_skips_incomplete_pools() -> None:
    lost = ledger("gone")
    assert codes(audit(lost, world(device("x")))) == ["DeviceLost"]
    assert codes(audit(lost, world(device("x"), count=3))) == []


def test_without_a_world_the_audit_checks_only_the_ledger() -> None:
    assert codes(audit(ledger("gone", "x", "x"))) == ["DeviceHeldTwice"]


def test_findings_name_the_device_and_its_claims() -> None:
    [finding] = audit(ledger("x", "x"))
    assert finding.object == f"Device/{DRIVER}/{POOL}/x"
    assert finding.message == "held by default/claim-0 and default/claim-1"


def test_unset_groups_are_compatible_with_all_if_configured() -> None:
    held = ledger("two", "four")
    assert codes(audit(held, replace(WHOLE, unset_groups=UnsetGroups.ALL))) == []


def test_configured_groups_override_published_groups() -> None:
    held = ledger("two", "three")
    declared = replace(WHOLE, compatibility=(Declaration(driver=DRIVER, groups=("all",)),))
    assert codes(audit(held, declared)) == []


def test_the_audit_reports_incompatible_devices() -> None:
    alone = {"compatibleOnlyWith": {"expression": "false"}}
    pair = world(device("x", **alone), device("nic", **SHARED), device("both", **SHARED, **alone))
    assert codes(audit(ledger("x"), pair)) == []
    assert codes(audit(ledger("x", "nic:1"), pair)) == ["CompanyRefused"]
    assert codes(audit(ledger("both:1"), pair)) == []
    assert codes(audit(ledger("both:1", "both:2"), pair)) == ["CompanyRefused"]


@pytest.mark.parametrize(
    ("marked", "held", "required", "expected"),
    [
        ("a1 a2", "a1 a2", True, []),
        ("a1 b1", "a1 b1", True, ["RuleBroken"]),
        ("a1 b1", "a1 b1", False, []),
        ("a1 gone", "a1 gone", True, ["DeviceLost"]),
        ("a1 a2", "a1 b1", True, []),  # another client allocated it
    ],
)
def test_the_audit_reports_devices_that_violate_a_required_rule(
    marked: str, held: str, *, required: bool, expected: list[str]
) -> None:
    roots = [
        device(name, attributes={"d.io/root": {"string": name[0]}}) for name in ("a1", "a2", "b1")
    ]
    ruled_claim = ruled(held, Rules(near=(Near(("r",), ("d.io/root",), required),)), marked)
    made = Ledger()
    made.observe(ruled_claim)
    assert codes(audit(made, world(*roots), [ruled_claim])) == expected


def ruled(held: str, rules: Rules, named: str = "", **fields: object) -> Claim:
    """A claim with rules that holds devices, or `named` ones by its mark.

    `fields` are those of its request.
    """
    mark = make_mark(allocation(*(named or held).split()), lambda *_: ())
    marked = claim("c", 1, *held.split(), mark=format_mark(mark))
    annotations = {**marked.metadata.annotations, RULES_ANNOTATION: encode_rules(rules)}
    exactly = replace(ExactRequest(device_class_name="gpu", count=2), **fields)
    return replace(
        marked,
        metadata=replace(marked.metadata, annotations=annotations),
        spec=ClaimSpec(Devices((Request("r", exactly),))),
    )


@pytest.mark.parametrize(
    ("held", "expected"), [("g0 g1", []), ("g0 g2", ["RuleBroken"]), ("g0 g4", ["RuleBroken"])]
)
def test_the_audit_knows_the_partitions_of_the_configuration(
    held: str, expected: list[str]
) -> None:
    gpus = [device(f"g{i}", attributes={"d.io/index": {"int": i}}) for i in range(5)]
    table = PartitionTable(DRIVER, "d.io/index", "drawbridge.dev/partition", ((0, 1), (2, 3)))
    ruled_claim = ruled(held, Rules(near=(Near(("r",), ("drawbridge.dev/partition2",)),)))
    declared = replace(world(*gpus), partitions=(table,))
    assert codes(audit(Ledger(), declared, [ruled_claim])) == expected


@pytest.mark.parametrize(
    ("held", "expected"), [("a1 a2", ["RuleBroken"]), ("a1 b1", []), ("a1", [])]
)
def test_the_audit_reports_devices_that_violate_a_distinct_rule(
    held: str, expected: list[str]
) -> None:
    roots = [
        device(name, attributes={"d.io/root": {"string": name[0]}}) for name in ("a1", "a2", "b1")
    ]
    ruled_claim = ruled(held, Rules(distinct=(Distinct(("r",), "d.io/root"),)))
    assert codes(audit(Ledger(), world(*roots), [ruled_claim])) == expected


@pytest.mark.parametrize(("held", "expected"), [("a1 a2", []), ("a1 b1", ["RuleBroken"])])
def test_the_audit_knows_attributes_that_the_request_derives(
    held: str, expected: list[str]
) -> None:
    source = "device.attributes['d.io'].place.substring(0, 1)"
    placed = [device(n, attributes={"d.io/place": {"string": n}}) for n in ("a1", "a2", "b1")]
    derived = DerivedAttribute(name="d.io/row", expression=source)
    rules = Rules(near=(Near(("r",), ("d.io/row",)),))
    ruled_claim = ruled(held, rules, derived_attributes=(derived,))
    assert codes(audit(Ledger(), world(*placed), [ruled_claim])) == expected


def test_the_audit_reports_an_invalid_mark() -> None:
    made = Ledger()
    made.observe(claim("a", 1, "x", mark="{"))
    (finding,) = audit(made)
    assert finding.code == "MarkUnreadable"
    assert "so the counters of the current slices apply: " in finding.message


def test_the_audit_reports_an_inconsistent_ledger() -> None:
    made = ledger("x")
    made.view()
    del made._holders.by_pool[PoolID(DRIVER, POOL)]["x"]  # noqa: SLF001  # the bug
    assert codes(audit(made)) == ["LedgerInconsistent"]


# --- marks as they are written ---


def test_a_mark_records_the_counters_of_devices() -> None:
    pool = find_published_pool(WHOLE.inventory, PoolID(DRIVER, POOL))
    assert pool is not None
    made = make_mark(
        allocation("one", "nic:1=4G", "x!"), lambda _, name: pool.devices[name].consumes_counters
    )
    assert [each.device for each in made.devices] == ["one", "nic"]
    assert made.devices[0].consumes_counters == pool.devices["one"].consumes_counters
    again = read_mark(claim("a", 1, mark=format_mark(made)).metadata)
    assert again == made


@pytest.mark.parametrize(("recorded", "reported"), [("4Gi", []), ("5Gi", ["MarkExceedsDevice"])])
def test_the_audit_reports_a_mark_with_more_than_the_device_consumes(
    recorded: str, reported: list[str]
) -> None:
    use = CounterUse("set", {"memory": Counter(parse(recorded))})
    marked = MarkedDevice(driver=DRIVER, pool=POOL, device="two", consumes_counters=(use,))
    made = Ledger()
    made.observe(claim("0", 1, "two", mark=format_mark(Mark(ALLOCATOR, (marked,)))))
    assert codes(audit(made, WHOLE)) == reported


def test_a_mark_that_changes_its_counters_is_one_finding() -> None:
    messages = set()
    for name in ("memory", "engines"):
        use = CounterUse("set", {name: Counter(parse("5Gi"))})
        marked = MarkedDevice(driver=DRIVER, pool=POOL, device="two", consumes_counters=(use,))
        made = Ledger()
        made.observe(claim("0", 1, "two", mark=format_mark(Mark(ALLOCATOR, (marked,)))))
        messages |= {finding.message for finding in audit(made, WHOLE)}
    assert len(messages) == 1


def test_a_claim_without_a_mark_is_unmarked() -> None:
    assert read_mark(claim("a", 1).metadata) == Mark()
