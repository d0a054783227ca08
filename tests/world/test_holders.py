"""Which claims have devices, in which order, and for whom they are reserved now."""

from typing import Any

from tests.cluster.fake.kinds import JSON
from tests.world.holders import Holders
from tests.world.nodes import consumers_of


def claim(name: str, device: str = "", *pods: str, protected: bool = True) -> JSON:
    """Return a claim with a device, for pods."""
    metadata: JSON = {"namespace": "default", "name": name}
    if device and protected:
        metadata["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    status: dict[str, Any] = {"reservedFor": [{"resource": "pods", "uid": uid} for uid in pods]}
    if device:
        status["allocation"] = {"devices": {"results": [{"pool": "n1", "device": device}]}}
    return {"metadata": metadata, "status": status}


def test_a_claim_is_kept_as_it_is_stored_in_the_order_of_the_allocations() -> None:
    holders = Holders()
    assert not holders.follow({}, claim("a"))
    assert not holders
    assert holders.follow(claim("a"), claim("a", "gpu-0", "p"))
    assert holders.follow({}, claim("b", "gpu-1", "q"))
    assert not holders.follow(claim("a", "gpu-0", "p"), claim("a", "gpu-0", "p", "r"))
    assert {name: consumers_of(each) for (_, name), each in holders.items()} == {
        "a": ["p", "r"],
        "b": ["q"],
    }
    assert [name for _, name in holders] == ["a", "b"]
    assert holders.follow(claim("a", "gpu-0"), claim("a", "half-0"))
    assert [name for _, name in holders] == ["b", "a"]
    assert holders.follow(claim("b", "gpu-1"), claim("b", "gpu-1", protected=False))
    assert holders.follow(claim("a", "half-0"), claim("a"))
    assert [name for _, name in holders] == ["b"]
    assert holders.follow(claim("b", "gpu-1", protected=False), {})
    assert not holders


def test_all_claims_are_read_anew_after_a_restore() -> None:
    holders = Holders()
    holders.follow({}, claim("a", "gpu-0"))
    holders.begin([claim("b", "gpu-1"), claim("c")])
    assert [name for _, name in holders] == ["b"]
