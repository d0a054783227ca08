"""Events of the kubelet about claims that a driver failed to prepare."""

from collections.abc import Mapping

import msgspec
import pytest

from allocator.writes.prepare_failures import PrepareEvent, PrepareFailures
from drawbridge.cluster.store import CachedObject
from drawbridge.dra.claim import Claim, claim_reader
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.holdings import DeviceID

NOW = 1_700_000_000.0  # 2023-11-14T22:13:20Z
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


def apply(
    event: Mapping[str, object], *claims: Claim, deleted: bool = False
) -> list[tuple[DeviceID, float]]:
    """Return the penalties after an event in namespace n, or after its deletion."""
    failed: list[tuple[DeviceID, float]] = []
    failures = PrepareFailures(
        lambda uid: claims if uid == "pod-uid" else (),
        lambda device, seconds: failed.append((device, seconds)),
        lambda: NOW,
    )
    value = msgspec.json.decode(msgspec.json.encode(event), type=PrepareEvent)
    cached = CachedObject("n", "e", "u", "1", b"", value)
    failures.on_event(*((cached, None) if deleted else (None, cached)))
    return failed


POD = {"kind": "Pod", "namespace": "n", "uid": "pod-uid"}


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ({"eventTime": "2023-11-14T22:13:20.000000Z"}, 60),
        ({"eventTime": "2023-11-14T22:12:50.000000Z"}, 30),
        ({"deprecatedLastTimestamp": "2023-11-14T22:13:10Z"}, 50),
        ({"eventTime": "2023-11-14T22:00:00.000000Z",
          "series": {"lastObservedTime": "2023-11-14T22:13:15.000000Z"}}, 55),
        ({"eventTime": "2999-01-01T00:00:00.000000Z"}, 60),
    ],
)  # fmt: skip
def test_the_devices_of_the_pod_are_penalised_for_a_minute(
    times: dict[str, object], seconds: float
) -> None:
    assert apply({"regarding": POD, **times}, make_claim("n")) == [(DEVICE, seconds)]


@pytest.mark.parametrize(
    "event",
    [
        {"regarding": POD, "eventTime": "2023-11-14T22:12:20.000000Z"},
        {"regarding": POD},
        {"regarding": {**POD, "uid": "other"}, "eventTime": "2023-11-14T22:13:20.000000Z"},
        {"regarding": {**POD, "kind": "Node"}, "eventTime": "2023-11-14T22:13:20.000000Z"},
        {"regarding": {**POD, "namespace": "m"}, "eventTime": "2023-11-14T22:13:20.000000Z"},
    ],
)
def test_old_and_foreign_events_change_nothing(event: dict[str, object]) -> None:
    assert apply(event, make_claim("n")) == []


def test_an_event_of_one_namespace_never_concerns_the_claims_of_another() -> None:
    event = {"regarding": POD, "eventTime": "2023-11-14T22:13:20.000000Z"}
    assert apply(event, make_claim("m")) == []


def test_a_deleted_event_changes_nothing() -> None:
    event = {"regarding": POD, "eventTime": "2023-11-14T22:13:20.000000Z"}
    assert apply(event, make_claim("n"), deleted=True) == []
