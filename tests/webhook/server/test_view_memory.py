"""What a namespace writes takes its share of the memory of the webhook for pods."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from drawbridge.cluster.cache import Cache
from drawbridge.config.model import Configuration
from drawbridge.names import FIELD_MANAGER, USED_ANNOTATION
from tests.cluster.cached import fill
from webhook.server.cluster_view import WatchedClusterView
from webhook.server.judge_view import WatchedJudgeView
from webhook.server.template_store import WatchedTemplateStore

NO_SESSION: Any = SimpleNamespace(namespace="system")
LIMIT = 4_000_000
KEY = "nvidia.com/gpu"


@pytest.fixture
def view() -> WatchedClusterView:
    return WatchedClusterView(NO_SESSION, Configuration(), memory_limit=LIMIT)


def named(name: str, namespace: str = "team", **fields: object) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"},
        "spec": fields,
    }


def owned(number: int, namespace: str = "team") -> dict[str, Any]:
    template = named(f"drawbridge-{number:032x}", namespace, filler="x" * 50_000)
    template["metadata"]["managedFields"] = [{"manager": FIELD_MANAGER, "operation": "Update"}]
    return template


def kept_bytes(cache: Cache[Any]) -> int:
    """Return about what the objects of a cache take."""
    return sum(len(each.raw) + len(msgspec.json.encode(each.value)) for each in cache.all())


def test_templates_with_another_kind_of_name_take_little(view: WatchedClusterView) -> None:
    fill(view.templates, (named(f"t{each}", filler="x" * 50_000) for each in range(200)))
    assert view.templates.too_large == 0
    assert kept_bytes(view.templates) < 20_000


def test_templates_beyond_the_share_are_known_to_exist(view: WatchedClusterView) -> None:
    store = WatchedTemplateStore(view.templates, NO_SESSION)
    fill(view.templates, map(owned, range(100)))
    assert 0 < 100 - view.templates.too_large < 30
    assert kept_bytes(view.templates) < LIMIT // 2
    first, last = (store.get_cached("team", owned(each)["metadata"]["name"]) for each in (0, 99))
    assert first is not None
    assert first.content is not None
    assert last is not None
    assert last.content is None
    assert store.count_unused("team") == 100
    fill(view.templates, [owned(1, "other")])
    other = store.get_cached("other", owned(1)["metadata"]["name"])
    assert other is not None
    assert other.content is not None


def test_a_use_of_a_template_that_is_left_out_is_known(view: WatchedClusterView) -> None:
    store = WatchedTemplateStore(view.templates, NO_SESSION)
    fill(view.templates, map(owned, range(100)))
    used = owned(99)
    used["metadata"] |= {"annotations": {USED_ANNOTATION: "now"}, "resourceVersion": "2"}
    fill(view.templates, [used])
    assert store.count_unused("team") == 99


def entries(number: int) -> dict[str, str]:
    return {f"requests.example.com/{number}-{each}": "1" for each in range(1_000)}


def limit_range(number: int, amounts: dict[str, str]) -> dict[str, Any]:
    return named(f"r{number}", limits=[{"type": "Container", "max": amounts}])


def test_what_a_namespace_writes_does_not_displace_what_limits_it(
    view: WatchedClusterView,
) -> None:
    fill(view.templates, map(owned, range(100)))
    assert view.templates.too_large > 0
    fill(view.ranges, [limit_range(0, {KEY: "1"})])
    fill(view.quotas, [named("q", hard={KEY: "1"})])
    (limits,), (quota,) = view.limit_ranges("team"), view.resource_quotas("team")
    assert (limits.reduced, quota.reduced) == (False, False)
    assert limits.spec.limits == (limits.spec.limits or ())[:1] != ()
    assert quota.spec.hard == {KEY: "1"}


def test_limits_beyond_the_share_are_known_to_exist(view: WatchedClusterView) -> None:
    fill(view.ranges, (limit_range(each, entries(each)) for each in range(50)))
    fill(view.quotas, (named(f"q{each}", hard=entries(each)) for each in range(50)))
    ranges, quotas = view.limit_ranges("team"), view.resource_quotas("team")
    assert (len(ranges), len(quotas)) == (50, 50)
    assert sum(each.reduced for each in ranges) == view.ranges.too_large > 0
    assert sum(each.reduced for each in quotas) == view.quotas.too_large > 0
    assert ranges[-1].metadata.name == "r49"
    assert quotas[-1].metadata.name == "q49"
    assert kept_bytes(view.ranges) + kept_bytes(view.quotas) < LIMIT // 2


def test_a_default_queue_is_known_whatever_else_its_namespace_has(
    view: WatchedClusterView,
) -> None:
    fill(view.templates, map(owned, range(100)))
    fill(view.queues.cache, [named("default")])
    assert view.default_queue("team") == "default"


def test_what_a_namespace_writes_does_not_displace_its_quota_in_the_judge() -> None:
    judge = WatchedJudgeView(NO_SESSION, Configuration, memory_limit=LIMIT)
    caches = dict(judge.caches.by_resource())
    many = {"requests": [{"name": f"r{each}"} for each in range(1_000)]}
    templates, quotas = caches["resourceclaimtemplates"], caches["resourcequotas"]
    fill(templates, (named(f"t{each}", spec={"devices": many}) for each in range(100)))
    assert templates.too_large > 0
    fill(quotas, [named("q", hard=entries(0))])
    assert len(list(quotas.all())) == 1
