"""What is kept of a claim whose namespace has more than its share of the memory."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from drawbridge.dra.allocation import AllocatedDevices, Allocation, AllocationResult, ClaimStatus
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device import Counter, CounterUse
from drawbridge.dra.quantity import parse
from drawbridge.ledger.allocation_mark import (
    ALLOCATOR,
    Mark,
    MarkedDevice,
    find_dropped,
    format_mark,
    is_allocated_by_us,
    is_mark_of,
    list_dropped,
    make_mark,
    read_mark,
)
from drawbridge.ledger.holdings import read_holds
from drawbridge.ledger.reduced_claim import reduce_claim, rescue_claim
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.tables import YamlValue, every_row


def claim(mark: str, *, allocated: bool) -> Claim:
    selectors: YamlValue = [{"cel": {"expression": "x" * 9000}}]
    opaque: YamlValue = {"driver": "x.io", "parameters": {"a": "y" * 9000}}
    requests: YamlValue = [
        {"name": name, "exactly": {"deviceClassName": "c", "count": 2, "selectors": selectors}}
        for name in ("held", "other")
    ]
    results: YamlValue = [{"request": "held", "driver": "x.io", "pool": "p", "device": "d"}]
    devices: YamlValue = {
        "results": results,
        "config": [{"source": "FromClaim", "opaque": opaque}],
    }
    read = read_claim(
        {
            "metadata": {
                "name": "c",
                "namespace": "team",
                "uid": "1",
                "labels": {"a": "b" * 60},
                "annotations": {"any": "z" * 9000, ALLOCATION_ANNOTATION: mark},
            },
            "spec": {"devices": {"requests": requests, "config": [{"opaque": opaque}]}},
            "status": {
                "allocation": {"devices": devices} if allocated else None,
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "2"}],
            },
        }
    )
    assert isinstance(read, Claim), read
    return read


def test_the_devices_that_a_claim_holds_stay_known() -> None:
    whole = claim("mark", allocated=True)
    reduced = reduce_claim(whole)
    assert reduced.reduced
    assert whole.status.allocation is not None
    assert reduced.status.allocation is not None
    assert reduced.status.allocation.devices.results == whole.status.allocation.devices.results
    assert reduced.status.reserved_for == whole.status.reserved_for
    assert (reduced.metadata.uid, reduced.metadata.namespace) == ("1", "team")
    (request,) = reduced.spec.devices.requests
    assert request.exactly is not None
    assert (request.name, request.exactly.device_class_name, request.exactly.count) == (
        "held",
        "c",
        2,
    )


def mark_of(*devices: str, sets: int = 2, allocator: str = ALLOCATOR) -> str:
    """The mark of devices with as many counters and capacities as Kubernetes allows."""
    counters = {f"counter-{each:02}-{'x' * 52}": Counter(parse("1000Gi")) for each in range(32)}
    amounts = {f"{'y' * 63}/capacity-{each}": parse("1000Gi") for each in range(32)}
    uses = tuple(CounterUse(f"set-{each}", counters) for each in range(sets))
    marked = [
        MarkedDevice(
            driver="x.io", pool="p", device=each, consumes_counters=uses, consumed_capacity=amounts
        )
        for each in devices
    ]
    return format_mark(Mark(allocator, tuple(marked)))


def test_the_counters_that_a_claim_holds_stay_known() -> None:
    whole = claim(mark_of("d"), allocated=True)
    kept = read_mark(reduce_claim(whole).metadata)
    recorded = read_mark(whole.metadata)
    assert isinstance(kept, Mark)
    assert isinstance(recorded, Mark)
    assert read_holds(whole.status.allocation, kept) == read_holds(
        whole.status.allocation, recorded
    )
    assert is_mark_of(kept, whole.status.allocation)
    assert not kept.devices[0].consumed_capacity


@every_row(
    ("fields", "dropped"),
    [
        ({}, ""),
        ({"share_id": None}, "shareID of device x.io/p/a"),
        ({"share_id": None, "consumed_capacity": {}}, "shareID of device x.io/p/a"),
        ({"binding_conditions": ()}, "bindingConditions of device x.io/p/a"),
    ],
)
def test_whose_allocation_it_is_and_what_is_not_stored_of_it_stay_known(
    fields: dict[str, object], dropped: str
) -> None:
    share = AllocationResult(
        request="held",
        driver="x.io",
        pool="p",
        device="a",
        share_id="1",
        consumed_capacity={"memory": parse("1Gi")},
        binding_conditions=("Ready",),
    )
    device = AllocationResult(request="held", driver="x.io", pool="p", device="b")
    left = replace(share, **fields)
    written = Allocation(AllocatedDevices((share, device)))
    mark = format_mark(make_mark(written, lambda *_: ()))
    for results in ((left, device), (device, left)):
        stored = Allocation(AllocatedDevices(results))
        whole = replace(claim(mark, allocated=True), status=ClaimStatus(stored))
        assert bool(list_dropped(written, stored)) is bool(dropped)
        for read in (whole, reduce_claim(whole)):
            assert is_allocated_by_us(read)
            assert str(find_dropped(read) or "") == dropped


@pytest.mark.parametrize(
    "mark",
    [
        "",
        "mark",
        mark_of("d", "other", sets=0),
        mark_of("d", sets=8),
        mark_of("d", allocator="other"),
    ],
)
def test_the_mark_of_other_devices_stays_one(mark: str) -> None:
    for allocated in (True, False):
        reduced = reduce_claim(claim(mark, allocated=allocated))
        assert ALLOCATION_ANNOTATION in reduced.metadata.annotations
        assert not is_allocated_by_us(reduced)


def test_a_claim_without_a_mark_gets_none() -> None:
    whole = claim("", allocated=True)
    unmarked = msgspec.structs.replace(
        whole, metadata=msgspec.structs.replace(whole.metadata, annotations={})
    )
    assert not reduce_claim(unmarked).metadata.annotations


def test_what_a_tenant_writes_without_end_is_not_kept() -> None:
    for allocated in (True, False):
        reduced = reduce_claim(claim("m" * 9000, allocated=allocated))
        assert len(msgspec.json.encode(reduced, enc_hook=str)) < 2000


def rescued(**changes: YamlValue) -> Claim | None:
    """Return what is kept of a claim with other values for some fields, which it cannot have."""
    value: YamlValue = {
        "metadata": {"name": "c", "namespace": "team", "uid": "1", "resourceVersion": "5"},
        "spec": {"devices": {}},
        "status": {
            "allocation": {
                "devices": {
                    "results": [{"request": "r", "driver": "x.io", "pool": "p", "device": "d"}]
                }
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "2"}],
        },
    }
    for path, replacement in changes.items():
        *parents, last = path.split("__")
        at: Any = value
        for name in parents:
            at = at[0] if name == "first" else at[name]
        at[last] = replacement
    raw = msgspec.json.encode(value)
    assert changes == {} or isinstance(read_claim(raw), tuple) or rescue_claim(raw) is None
    return rescue_claim(raw)


@pytest.mark.parametrize(
    "field",
    [
        "spec",
        "metadata__labels",
        "metadata__annotations",
        "status__devices",
        "status__allocation__nodeSelector",
        "status__allocation__devices__config",
        "status__allocation__devices__results__first__shareID",
        "status__allocation__devices__results__first__consumedCapacity",
    ],
)
def test_a_claim_that_cannot_be_decoded_keeps_its_devices(field: str) -> None:
    kept = rescued(**{field: 7})
    assert kept is not None
    assert kept.reduced
    metadata, allocation = kept.metadata, kept.status.allocation
    assert allocation is not None
    (result,), (hold,) = allocation.devices.results, read_holds(allocation)
    assert (metadata.name, metadata.uid, metadata.resource_version) == ("c", "1", "5")
    assert (result.driver, result.pool, hold.device, result.share_id) == ("x.io", "p", "d", None)
    assert [each.uid for each in kept.status.reserved_for] == ["2"]
    assert (allocation.node_selector is not None) == (field == "status__allocation__nodeSelector")


def test_a_claim_that_cannot_be_decoded_and_holds_nothing_is_left_out() -> None:
    for path in ("status", "status__allocation", "status__allocation__devices__results"):
        assert rescued(spec=7, **{path: None}) is None
    with pytest.raises(msgspec.ValidationError):
        rescued(status__allocation__devices__results=7)
