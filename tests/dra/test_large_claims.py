"""What is kept of a claim whose namespace has more than its share of the memory."""

import msgspec

from drawbridge.dra.claim import Claim, read_claim, reduce_claim
from drawbridge.names import ALLOCATION_ANNOTATION
from tests.tables import YamlValue


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
    assert reduced.metadata.annotations == {ALLOCATION_ANNOTATION: "mark"}
    assert (reduced.metadata.uid, reduced.metadata.namespace) == ("1", "team")
    (request,) = reduced.spec.devices.requests
    assert request.exactly is not None
    assert (request.name, request.exactly.device_class_name, request.exactly.count) == (
        "held",
        "c",
        2,
    )


def test_what_a_tenant_writes_without_end_is_not_kept() -> None:
    for allocated in (True, False):
        reduced = reduce_claim(claim("m" * 9000, allocated=allocated))
        assert len(msgspec.json.encode(reduced, enc_hook=str)) < 2000
