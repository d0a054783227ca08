"""Generates allocated claims: dedicated devices, shares, admin access."""

from e2e.generator.devices import Json
from e2e.generator.draw import Draw
from e2e.generator.plan import Plan


def allocated(draw: Draw, plan: Plan, slices: list[Json]) -> list[Json]:
    """Claims on some of the devices, in whatever state their pool is."""
    if not plan.has("held"):
        return []
    out: list[Json] = []
    seen: set[tuple[str, str, str]] = set()
    for entry in slices:
        spec = entry["spec"]
        assert isinstance(spec, dict)
        for device in spec.get("devices", ()):
            key = (spec["driver"], spec["pool"]["name"], device["name"])
            if key in seen or not draw.chance(0.15):
                continue
            seen.add(key)
            for _ in range(draw.number(1, 2) if shareable(device) else 1):
                out.append(held(draw, key, device, len(out)))
    if draw.chance(0.1):
        out.append(held(draw, ("gpu.example.com", "shared", "gpu-gone"), {}, len(out)))
    return out


def shareable(device: Json) -> bool:
    """Return whether several claims may hold it."""
    return device.get("allowMultipleAllocations") is True


def held(draw: Draw, key: tuple[str, str, str], device: Json, number: int) -> Json:
    """One allocated claim with one result."""
    driver, pool, name = key
    result: Json = {"request": "r0", "driver": driver, "pool": pool, "device": name}
    # A driver may have taken the permission to share away since.
    if (shareable(device) and draw.chance(0.92)) or draw.chance(0.03):
        result["shareID"] = f"00000000-0000-4000-8000-{number:012d}"
        capacity = device.get("capacity")
        if isinstance(capacity, dict):
            result["consumedCapacity"] = {name: amount(draw, name) for name in capacity}
    elif draw.chance(0.1):
        result["adminAccess"] = True
    asked = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"held-{number}", "namespace": "default", "uid": f"held-{number}"},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": asked}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def amount(draw: Draw, name: str) -> str:
    """What a share took, whatever the policy says today."""
    if name == "memory":
        return draw.pick(("1Gi", "2Gi", "5Gi", "10Gi"))
    return draw.pick(("100m", "500m", "1"))
