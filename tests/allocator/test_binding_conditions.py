"""Binding conditions: whether the devices of allocated claims are ready."""

import datetime as dt

from allocator.writes.binding_conditions import Readiness, readiness
from drawbridge.dra.claim import Claim, claim_reader
from tests.tables import every_row

ALLOCATED = 1_700_000_000.0
READER = claim_reader()


def make_claim(conditions: dict[str, str], *, share: str | None = None) -> Claim:
    """Return a claim whose device needs `Attached`, and fails with `Broken`."""
    device = {"driver": "d.io", "pool": "p", "device": "gpu-0"}
    result = {
        **device,
        "request": "r",
        "bindingConditions": ["Attached"],
        "bindingFailureConditions": ["Broken"],
    }
    reported = {**device, "conditions": [{"type": k, "status": v} for k, v in conditions.items()]}
    if share:
        result["shareID"] = share
    time = f"{dt.datetime.fromtimestamp(ALLOCATED, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n", "uid": "u"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "g"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "allocationTimestamp": time},
            "devices": [reported],
        },
    }
    read = READER.read(claim)
    assert isinstance(read, Claim)
    return read


@every_row(
    ("conditions", "age", "state", "message"),
    [
        ({"Attached": "True"}, 700, Readiness.READY, ""),
        ({"Attached": "True", "Broken": "False"}, 0, Readiness.READY, ""),
        ({}, 0, Readiness.WAITING, "claim n/c: device d.io/p/gpu-0 does not report Attached"),
        ({"Attached": "False"}, 599, Readiness.WAITING, "does not report Attached"),
        ({"Attached": "Unknown"}, 600, Readiness.FAILED, "does not report Attached after 600 s"),
        ({"Attached": "True", "Broken": "True"}, 0, Readiness.FAILED, "reports Broken"),
    ],
)
def test_a_device_is_ready_when_its_conditions_are_true(
    conditions: dict[str, str], age: float, state: Readiness, message: str
) -> None:
    answer = readiness([make_claim(conditions)], ALLOCATED + age, 600)
    assert answer[0] is state
    assert message in answer[1]
    assert bool(message) == bool(answer[1])


def test_the_conditions_of_another_share_do_not_count() -> None:
    share = "4f7a1a0e-0000-4000-8000-000000000001"
    assert readiness([make_claim({"Attached": "True"}, share=share)], ALLOCATED, 600)[0] is (
        Readiness.WAITING
    )


def test_all_claims_must_be_ready_and_one_failure_is_enough() -> None:
    ready, waiting = make_claim({"Attached": "True"}), make_claim({})
    failed = make_claim({"Broken": "True"})
    assert readiness([ready, waiting], ALLOCATED, 600)[0] is Readiness.WAITING
    assert readiness([waiting, failed, ready], ALLOCATED, 600)[0] is Readiness.FAILED
    assert readiness([], ALLOCATED, 600)[0] is Readiness.READY
