"""What the controller keeps of claims and pods is little, whatever their owners write."""

from typing import Any

import msgspec
import pytest

from controller.caches import ControllerCaches
from controller.device_users import (
    NO_DEVICES,
    find_owner,
    read_device_pod,
    read_watched_claim,
    reduce_device_pod,
)
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.store import read_header
from drawbridge.report.stuck.find import find_stuck
from drawbridge.report.stuck.objects import HangingNode, HangingObjects, seconds_of

MANY = 5_000
NOW = seconds_of("2026-11-24T12:00:00Z") or 0.0
LEAVING = {"deletionTimestamp": "2026-11-24T10:00:00Z"}
NAMES = [f"a.example/{number}" for number in range(MANY)]
WRITTEN: dict[str, dict[str, Any]] = {
    "labels": {"labels": dict.fromkeys(NAMES, "")},
    "finalizers": {"finalizers": NAMES},
    "owners": {"ownerReferences": [{"kind": "K" * 100_000, "name": each} for each in NAMES]},
}


def written(value: object) -> bytes:
    return msgspec.json.encode(value)


def pod(name: str = "p", namespace: str = "a", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    limits = spec.pop("limits", {})
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1", **limits}}}
    metadata = {"name": name, "namespace": namespace, "uid": name}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def claim(name: str = "c", **metadata: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    return {"metadata": {"name": name, "namespace": "a", "uid": name, **metadata}}


def size(value: object) -> int:
    return len(msgspec.json.encode(value, enc_hook=str))


@pytest.mark.parametrize("part", WRITTEN)
def test_of_metadata_only_what_is_told_is_kept(part: str) -> None:
    value = pod()
    value["metadata"] |= WRITTEN[part]
    assert size(read_device_pod(written(value))) < 4_000
    assert size(read_watched_claim(written(claim(**WRITTEN[part])))) < 4_000


@pytest.mark.parametrize(
    "spec",
    [
        {"schedulingGates": [{"name": each} for each in NAMES]},
        {"limits": dict.fromkeys(NAMES, "0")},
        {"limits": {f"cpu{number}": "1" for number in range(MANY)}},
        {"initContainers": [{"name": each} for each in NAMES]},
    ],
)
def test_of_a_pod_only_gates_devices_and_their_users_are_kept(spec: dict[str, Any]) -> None:
    kept = read_device_pod(written(pod(**spec)))
    assert size(kept) < 1_000
    assert bool(kept.spec.scheduling_gates) == ("schedulingGates" in spec)


def test_a_reduced_pod_has_the_same_root_owner_and_names_some_finalizers() -> None:
    value = pod()
    value["metadata"] |= {
        "labels": {"pod-template-hash": "1f"},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "web-1f", "controller": True}],
        **LEAVING,
        "finalizers": NAMES,
    }
    kept = read_device_pod(written(value))
    assert find_owner(kept) == "Deployment/web"
    (stuck,) = find_stuck(HangingObjects(NOW, pods=(kept,), nodes=()))
    assert stuck.held_by == f"finalizer {', '.join(NAMES[:4])} and 4,996 more finalizers"
    (stuck,) = find_stuck(
        HangingObjects(
            NOW, claims=(read_watched_claim(written(claim(**LEAVING, finalizers=NAMES))).hanging,)
        )
    )
    assert stuck.held_by == f"finalizer {', '.join(NAMES[:4])} and 4,996 more finalizers"


def fill(cache: Cache[Any], values: list[dict[str, Any]]) -> list[Any]:
    """Return what the cache keeps of objects."""
    index = cache._index  # noqa: SLF001  # without a server
    kept = []
    for value in values:
        versioned = {**value, "metadata": {**value["metadata"], "resourceVersion": "1"}}
        raw = written({"kind": cache.resource.kind, **versioned})
        header = read_header(raw)
        state = index.read(header, raw)
        index.put(header.key, state)
        assert state.kept is not None
        kept.append(state.kept.value)
    return kept


def test_a_namespace_has_its_share_of_the_memory_and_its_pods_stay_known() -> None:
    session: Any = None
    caches = ControllerCaches(session, memory_limit=4_000_000)
    claims = [{"name": each, "resourceClaimName": each} for each in NAMES[:500]]
    hostile = [pod(f"p{number}", resourceClaims=claims) for number in range(50)]
    kept = fill(caches.device_pods, hostile)
    assert 0 < caches.device_pods.too_large < len(hostile)
    assert [each.metadata.name for each in kept] == [f"p{number}" for number in range(50)]
    assert size(kept[-1]) < 4_000
    # What it holds of device plugins still counts.
    assert kept[-1].spec.containers[0].resources.limits == {"nvidia.com/gpu": "1"}
    before = caches.device_pods.too_large
    (other,) = fill(caches.device_pods, [pod(namespace="b", resourceClaims=claims[:10])])
    assert len(other.claim_names) == 10
    (plain,) = fill(caches.device_pods, [{"metadata": {"name": "x", "namespace": "a"}}])
    assert plain is NO_DEVICES
    assert caches.device_pods.too_large >= before


def test_nothing_is_told_of_a_reduced_pod_that_goes_on() -> None:
    times = {"creationTimestamp": "2026-11-24T10:00:00Z"}
    scheduled = {"type": "PodScheduled", "status": "False", "message": "m" * MANY}
    waiting = pod(resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    waiting["metadata"] |= times
    waiting["status"] = {"conditions": [scheduled, {**scheduled, "type": "x"}]}
    extended = pod("q", nodeName="n1")
    extended["status"] = {
        "phase": "Running",
        "extendedResourceClaimStatus": {"resourceClaimName": "d", "requestMappings": []},
    }
    names = [f"c{number}" for number in range(20)]
    many = pod("r", resourceClaims=[{"name": n, "resourceClaimTemplateName": "t"} for n in names])
    many["metadata"] |= times
    many["status"] = {"resourceClaimStatuses": [{"name": each} for each in reversed(names)]}
    pods = [read_device_pod(written(each)) for each in (waiting, extended, many)]
    statuses: dict[str, Any] = {"c": {}, "d": {"allocation": {}}}
    claims = [
        read_watched_claim(written(claim(each, **times) | {"status": status})).hanging
        for each, status in statuses.items()
    ]
    reduced = tuple(map(reduce_device_pod, pods))
    assert size(reduced) < 4_000
    node: Any = {"metadata": {"name": "n1"}}
    nodes = (msgspec.convert(node, HangingNode),)
    for each in (tuple(pods), reduced):
        assert find_stuck(HangingObjects(NOW, pods=each, claims=tuple(claims), nodes=nodes)) == ()


def test_claims_beyond_the_share_keep_their_devices() -> None:
    session: Any = None
    caches = ControllerCaches(session, memory_limit=400_000)
    result = {"request": "r0", "driver": "d.com", "pool": "n1", "device": "gpu-0"}
    requests = [
        {"name": f"r{number}", "exactly": {"deviceClassName": f"class-{number}.example"}}
        for number in range(32)
    ]
    values = [
        claim(f"c{number}")
        | {"spec": {"devices": {"requests": requests}}}
        | {"status": {"allocation": {"devices": {"results": [result]}}}}
        for number in range(60)
    ]
    kept = fill(caches.claims, values)
    assert 0 < caches.claims.too_large < len(values)
    assert all(map(str, kept[-1].hanging.results))
    assert [each.class_name for each in kept[-1].parts] == ["class-0.example"]
    assert len(kept[0].hanging.classes) == 32
    assert kept[-1].hanging.classes == ()
