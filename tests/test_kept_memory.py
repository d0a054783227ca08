"""What objects take is never less than what is measured, whatever their shape."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from allocator.state.caches import AllocatorCaches
from drawbridge.kept_memory import MAX_VALUES, measure_memory
from tests.cluster.cached import fill

NO_SESSION: Any = None
UNLIMITED: Final = 1 << 40
WIDE: Final = "\U0001f600"


def made(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    metadata = {
        "name": f"o{number}",
        "namespace": f"team-{number % 7}",
        "uid": f"6f0c1d9e-0000-4000-8000-{number:012}",
        "resourceVersion": f"{number + 1}",
    }
    return {"metadata": metadata | fields.pop("metadata", {}), **fields}


def requesting(number: int, **asked: Any) -> dict[str, Any]:  # noqa: ANN401
    request = {"name": f"r{number}", "exactly": {"deviceClassName": f"c{number}", **asked}}
    return made(number, spec={"devices": {"requests": [request]}})


def configured(number: int) -> dict[str, Any]:
    parameters = {"apiVersion": "d/v1", "kind": "Config", "sharing": {"strategy": f"s{number}"}}
    config = [{"opaque": {"driver": f"d{number}", "parameters": parameters}}]
    request = {"name": f"r{number}", "exactly": {"deviceClassName": f"c{number}"}}
    return made(number, spec={"devices": {"requests": [request], "config": config}})


def allocated(number: int, count: int = 1, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    results = [
        {"request": "r", "driver": "d", "pool": f"n{number}", "device": f"{each}", **more}
        for each in range(count)
    ]
    users = [{"resource": "pods", "name": f"p{each}", "uid": f"{number}"} for each in range(count)]
    return made(
        number, status={"allocation": {"devices": {"results": results}}, "reservedFor": users}
    )


def bound(number: int, **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    spec = {"nodeName": f"node-{number}", "containers": [{"name": "m"}], **spec}
    return made(number, spec=spec, status={"phase": "Running"})


def waiting(number: int, **spec: Any) -> dict[str, Any]:  # noqa: ANN401
    return made(number, spec={"resourceClaims": [{"name": "r"}], **spec})


def amounts(number: int) -> dict[str, str]:
    return {f"c{each}": f"{number * 3000 + each}.001" for each in range(3000)}


def labels(number: int) -> dict[str, str]:
    return {f"k{number}.{each}": f"v{each}" for each in range(3000)}


def texts(number: int) -> list[str]:
    return [f"{number}.{each}" for each in range(10_000)]


SHAPES: Final[dict[str, tuple[str, Callable[[int], dict[str, Any]], int]]] = {
    "a claim": ("claims", requesting, 1000),
    "an allocated claim": ("claims", allocated, 1000),
    "a claim with a configuration": ("claims", configured, 1000),
    "labels": ("claims", lambda n: made(n, metadata={"labels": labels(n)}), 20),
    "wide": ("claims", lambda n: made(n, metadata={"annotations": {"a": WIDE + "x" * 50_000}}), 20),
    "amounts": ("claims", lambda n: requesting(n, capacity={"requests": amounts(n)}), 20),
    "consumed": ("claims", lambda n: allocated(n, consumedCapacity=amounts(n)), 20),
    "results": ("claims", lambda n: allocated(n, 5000), 10),
    "tolerations": ("claims", lambda n: requesting(n, tolerations=[{}] * 10_000), 10),
    "finalizers": ("claims", lambda n: made(n, metadata={"finalizers": texts(n)}), 10),
    "a plain pod": ("pods", bound, 1000),
    "pods with claims": ("pods", lambda n: waiting(n, nodeName=f"n{n}"), 1000),
    "a pod of many claims": (
        "pods",
        lambda n: waiting(n, resourceClaims=[{"name": each} for each in texts(n)]),
        10,
    ),
    "a pod of labels": (
        "pods",
        lambda n: waiting(n) | {"metadata": made(n)["metadata"] | {"labels": labels(n)}},
        20,
    ),
}
# Objects as a cluster has thousands of them are not priced at much more than they take.
USUAL: Final = (
    *("a claim", "an allocated claim", "a claim with a configuration"),
    *("a plain pod", "pods with claims"),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_objects_take_no_more_than_is_measured(shape: str) -> None:
    kind, make, count = SHAPES[shape]
    caches = AllocatorCaches(NO_SESSION, "s", memory_limit=UNLIMITED)
    cache = getattr(caches, kind)
    objects = [make(number) for number in range(2 * count)]
    fill(cache, objects[count:])  # what is made once
    before = caches.shares.used
    gc.collect()
    tracemalloc.start()
    try:
        fill(cache, objects[:count])
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    measured = caches.shares.used - before
    assert measured >= taken
    if shape in USUAL:
        assert measured < 2 * taken


def test_json_that_is_kept_as_it_is_counts_its_bytes() -> None:
    before = measure_memory(text=b"")
    raw = msgspec.json.decode(b"[" + b"1," * 4999 + b"1]", type=msgspec.Raw)
    assert 10_000 < measure_memory(raw, text=b"") - before < 12_000


def test_no_value_is_left_out_of_an_object_that_is_not_walked() -> None:
    values = list(range(1000, 1000 + MAX_VALUES))
    walked = measure_memory(values[:-1], text=b"")
    assert walked > 36 * MAX_VALUES
    assert measure_memory([*values, 1], text=msgspec.json.encode(values)) > walked
