"""Memory that outlives a request is bounded, whatever pods and namespaces are sent."""

import gc
import weakref
from collections.abc import Iterator, Sized
from typing import Any, Final

import pytest

from drawbridge.bounded_cache import BoundedCache
from drawbridge.config.model import Configuration
from tests.webhook.admission.harness import (
    ENFORCE,
    AdmissionHarness,
    Clock,
    FakeClusterView,
    MemoryTemplates,
    pod,
)
from webhook.admission import answer_cache, claim_summary, namespace_scopes, templates

BOUND: Final = 16
# Stands for the cluster and the time, not for memory of the process.
_OUTSIDE: Final = (FakeClusterView, MemoryTemplates, Clock)
_OURS: Final = ("webhook.", "drawbridge.", "tests.webhook.")
_CONTAINERS: Final = (dict, list, set)


def walk(value: object, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, int]]:
    """Yield every mutable container that is reachable through objects of ours, with its size."""
    seen = set() if seen is None else seen
    if id(value) in seen or isinstance(value, _OUTSIDE):
        return
    seen.add(id(value))
    if isinstance(value, _CONTAINERS):
        sized: Sized = value
        yield path, len(sized)
    elif type(value).__module__.startswith(_OURS) and hasattr(value, "__dict__"):
        for name, part in vars(value).items():
            yield from walk(part, f"{path}.{name}", seen)


async def feed(harness: AdmissionHarness, numbers: range) -> None:
    """Send a distinct pod in a distinct namespace for each number."""
    for i in numbers:
        namespace = f"team-{i}"
        harness.cluster.namespaces[namespace] = {**ENFORCE}
        legacy = pod({"nvidia.com/gpu": f"{i + 1}"}, name=f"p-{i}", schedulerName=f"s-{i}")
        legacy["metadata"]["namespace"] = namespace
        response = await harness.pod(legacy, namespace=namespace)
        assert response.allowed


@pytest.mark.asyncio
async def test_distinct_pods_and_namespaces_leave_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (claim_summary, namespace_scopes, templates):
        assert hasattr(module, "_MAX_ENTRIES")
        monkeypatch.setattr(module, "_MAX_ENTRIES", BOUND)
    harness = AdmissionHarness(answers=answer_cache.AnswerCache(max_entries=BOUND))
    context: Any = harness.cluster.context
    harness.cluster.context = type(context)(
        translations=BoundedCache(BOUND), outcomes=BoundedCache(BOUND)
    )
    await feed(harness, range(4 * BOUND))
    kept = (harness.admission, harness.cluster.context.translations)
    sizes = {path: size for each in kept for path, size in walk(each, type(each).__name__)}
    assert sum(size >= BOUND // 2 for size in sizes.values()) >= 4, sizes
    assert {path: size for path, size in sizes.items() if size > BOUND} == {}


class _Watched(Configuration, frozen=True, weakref=True):
    """A configuration of which a test knows whether anything keeps it."""


def test_a_namespace_that_is_gone_keeps_no_former_configuration() -> None:
    view = FakeClusterView()
    scopes = namespace_scopes.NamespaceScopes(view)
    configured = _Watched()
    former = weakref.ref(configured)
    assert scopes.find("team", configured)
    view.namespaces = {"other": ENFORCE}
    configured = _Watched()
    assert scopes.find("other", configured)
    gc.collect()
    assert (former(), len(scopes)) == (None, 1)
