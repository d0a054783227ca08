"""Events of the kubelet about claims that a driver failed to prepare."""

from collections.abc import Mapping

import msgspec
import pytest

from allocator.state.prepare_failures import PrepareEvent, find_unprepared
from drawbridge.cluster.store import CachedObject
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import DeviceID

DEVICE = DeviceID(PoolID("d.io", "p"), "gpu-0")
READER = claim_reader()


def make_claim(namespace: str) -> Claim:
    result = {"request": "r", "driver": "d.io", "pool": "p", "device": "gpu-0"}
    claim = READER.read(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": namespace, "uid": "u"},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
    )
    assert isinstance(claim, Claim)
    return claim


def apply(event: Mapping[str, object], *claims: Claim, deleted: bool = False) -> list[DeviceID]:
    """Return the devices that failed by an event in namespace n, or by its deletion."""
    value = msgspec.json.decode(msgspec.json.encode(event), type=PrepareEvent)
    cached = None if deleted else CachedObject("n", "e", "u", "1", b"", value)
    return list(find_unprepared(cached, lambda uid: claims if uid == "pod-uid" else ()))


POD = {"kind": "Pod", "namespace": "n", "uid": "pod-uid"}


@pytest.mark.parametrize("time", ["1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z", None])
def test_the_devices_of_the_pod_have_failed_whatever_the_clock_of_the_node_says(
    time: str | None,
) -> None:
    event = {"regarding": POD, "eventTime": time, "deprecatedLastTimestamp": time}
    assert apply(event, make_claim("n")) == [DEVICE]


@pytest.mark.parametrize(
    "event",
    [
        {"regarding": {**POD, "uid": "other"}},
        {"regarding": {**POD, "kind": "Node"}},
        {"regarding": {**POD, "namespace": "m"}},
    ],
)
def test_foreign_events_change_nothing(event: dict[str, object]) -> None:
    assert apply(event, make_claim("n")) == []


def test_an_event_of_one_namespace_never_concerns_the_claims_of_another() -> None:
    event = {"regarding": POD}
    assert apply(event, make_claim("m")) == []


def test_a_deleted_event_changes_nothing() -> None:
    event = {"regarding": POD}
    assert apply(event, make_claim("n"), deleted=True) == []
