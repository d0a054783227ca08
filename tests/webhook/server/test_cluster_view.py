"""The cluster view follows the cluster, and keeps the last readable objects."""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from drawbridge.agreement import match_conditions
from drawbridge.agreement.published_facts import (
    FactsConfigMap,
    PublishedFactsError,
    build_data_key,
    read_facts,
)
from drawbridge.cluster.credentials import Credentials
from drawbridge.cluster.session import Session
from drawbridge.config.model import Configuration
from drawbridge.facts import serialized
from drawbridge.facts.model import Cluster, Facts
from drawbridge.memory_shares import MemoryShares
from drawbridge.names import FACTS_CONFIG_MAP, POD_WEBHOOK, WEBHOOK_CONFIGURATION
from drawbridge.translate.interest import derive_interest
from drawbridge.translate.legacy.codes import NETWORK_UNKNOWN
from tests.cluster.fake.api import FakeApi
from tests.tables import every_row
from webhook.server.cluster_view import WatchedClusterView
from webhook.server.watched_queues import KNOWN_SECONDS, WatchedQueues

SYSTEM = "drawbridge-system"
FIRST, SECOND = Facts(cluster=Cluster(version="1.35")), Facts(cluster=Cluster(version="1.36"))


def published(*versions: Facts, current: str = "") -> dict[str, Any]:
    """Build the ConfigMap like the controller. The last version is the current one."""
    data = {
        build_data_key(serialized.facts_hash(version)): serialized.encode_facts(version).decode()
        for version in versions
    }
    data["current"] = current or serialized.facts_hash(versions[-1])
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": FACTS_CONFIG_MAP, "namespace": SYSTEM},
        "data": data,
    }


def namespaced(kind: str, name: str, spec: dict[str, Any], namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def namespace(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def build_own_webhooks(**webhook: object) -> dict[str, Any]:
    """Build the webhook configuration of Drawbridge."""
    return {
        "apiVersion": match_conditions.API_VERSION,
        "kind": match_conditions.KIND,
        "metadata": {"name": WEBHOOK_CONFIGURATION},
        "webhooks": [{"name": POD_WEBHOOK, **webhook}],
    }


class ViewHarness(NamedTuple):
    """A fake API server and the view of it."""

    api: FakeApi
    view: WatchedClusterView

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until a change makes the condition true."""
        news = asyncio.Event()
        for cache in (*self.view.caches.all, self.view.queues.cache):
            cache.subscribe(lambda *_: news.set())
        while not condition():
            news.clear()
            await news.wait()


async def know_queues(view: WatchedClusterView) -> None:
    async with asyncio.timeout(10):
        while view.queues.find_missing():  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0)


def session_of(api: FakeApi, folder: Path) -> Session:
    return Session(Credentials(str(api.kubeconfig(folder / "config"))), namespace=SYSTEM)


@contextlib.asynccontextmanager
async def run_view(folder: Path, *objects: dict[str, Any]) -> AsyncIterator[ViewHarness]:
    """Run a view of a cluster with these objects, after all caches are synced."""
    async with FakeApi() as api:
        for obj in objects:
            api.put(obj)
        async with session_of(api, folder) as session:
            view = WatchedClusterView(session, Configuration())
            tasks = [asyncio.create_task(watch) for watch in view.run()]
            try:
                for cache in view.caches.all:
                    await cache.wait_until_synced()
                await know_queues(view)
                yield ViewHarness(api, view)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def test_everything_is_missing_before_the_caches_are_synced(tmp_path: Path) -> None:
    async def play() -> list[str]:
        async with FakeApi() as api, session_of(api, tmp_path) as way:
            return WatchedClusterView(way, Configuration()).find_missing()

    missing = asyncio.run(play())
    assert any("namespaces" in each for each in missing)
    assert any(f"{SYSTEM}/{FACTS_CONFIG_MAP}" in each for each in missing)


def test_the_view_follows_the_facts(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_view(tmp_path) as harness:
            (missing,) = harness.view.find_missing()
            assert "controller" in missing
            harness.api.put(published(FIRST))
            await harness.wait_until(lambda: not harness.view.find_missing())
            context = harness.view.translation_context()
            assert context is not None
            assert (context.facts, context.facts_digest) == (FIRST, serialized.facts_hash(FIRST))
            assert harness.view.translation_context() is context
            harness.api.put(published(FIRST, SECOND))
            await harness.wait_until(lambda: harness.view.translation_context() is not context)
            context = harness.view.translation_context()
            assert context is not None
            assert (context.facts, context.facts_digest) == (SECOND, serialized.facts_hash(SECOND))

    asyncio.run(play())


def test_a_new_configuration_takes_effect_at_once(tmp_path: Path) -> None:
    other = Configuration(legacy=msgspec.structs.replace(Configuration().legacy, units={}))

    async def play() -> None:
        async with run_view(tmp_path, published(FIRST)) as harness:
            harness.view.configure(other)
            context = harness.view.translation_context()
            assert context is not None
            assert context.configuration is other
            assert context.facts == FIRST

    asyncio.run(play())


def test_unreadable_or_deleted_facts_keep_the_last_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with run_view(tmp_path, published(FIRST)) as harness:
            context = harness.view.translation_context()
            revision = harness.view.facts.revision
            harness.api.put(published(FIRST, current=f"sha256:{'0' * 64}"))
            await harness.wait_until(lambda: harness.view.facts.revision != revision)
            harness.api.remove("ConfigMap", FACTS_CONFIG_MAP, SYSTEM)
            await harness.wait_until(
                lambda: harness.view.facts.get(FACTS_CONFIG_MAP, SYSTEM) is None
            )
            assert harness.view.translation_context() is context
            assert harness.view.find_missing() == []

    asyncio.run(play())
    reasons = [getattr(record, "fields", {}).get("reason", "") for record in caplog.records]
    assert any("facts-0000000000000000.json" in each for each in reasons)


def test_labels_are_the_same_object_until_they_change(tmp_path: Path) -> None:
    async def play() -> None:
        async with run_view(tmp_path, namespace("a", team="x")) as harness:
            assert harness.view.namespace_labels("nowhere") is None
            labels = harness.view.namespace_labels("a")
            assert labels is harness.view.namespace_labels("a")
            assert labels is not None
            assert labels["team"] == "x"
            assert harness.view.namespace_labels("default") is not None
            harness.api.put(namespace("a", team="y"))
            await harness.wait_until(lambda: labels is not harness.view.namespace_labels("a"))
            assert (harness.view.namespace_labels("a") or {})["team"] == "y"

    asyncio.run(play())


NEEDS_LABEL = {"matchExpressions": [{"key": "drawbridge.dev/translate", "operator": "Exists"}]}
LABEL = {"drawbridge.dev/translate": "enforce"}


def test_a_namespace_without_a_label_that_the_selector_requires_is_read_once(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with run_view(tmp_path, namespace("plain"), namespace("in", **LABEL)) as harness:
            api, view = harness.api, harness.view
            # The webhook configuration selects all namespaces, so a missing label is reliable.
            assert view.namespace_labels("plain") is not None
            api.put(build_own_webhooks(namespaceSelector=NEEDS_LABEL))
            await harness.wait_until(lambda: view.namespace_labels("plain") is None)
            assert view.namespace_labels("in") == LABEL
            both = await asyncio.gather(
                *(view.read_namespace_labels("plain", 5) for _ in range(20))
            )
            assert both == [{}] * 20
            assert len(api.asked("GET", "namespaces/plain")) == 1
            assert view.namespace_labels("plain") == {}, "the API server confirmed the labels"
            api.put(namespace("plain", **LABEL))
            await harness.wait_until(lambda: view.namespace_labels("plain") == LABEL)

    asyncio.run(play())


def test_limits_and_quotas_follow_changes_of_their_namespace(tmp_path: Path) -> None:
    limit = {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "1"}}]}
    hard = {"hard": {"requests.nvidia.com/gpu": "1"}}

    async def play() -> None:
        ranges = namespaced("LimitRange", "l", limit, "a")
        quota = namespaced("ResourceQuota", "q", hard, "a")
        async with run_view(tmp_path, ranges, quota) as harness:
            assert [each.metadata.name for each in harness.view.limit_ranges("a")] == ["l"]
            assert [each.metadata.name for each in harness.view.resource_quotas("a")] == ["q"]
            assert (harness.view.limit_ranges("b"), harness.view.resource_quotas("b")) == ((), ())
            harness.api.put(namespaced("ResourceQuota", "q2", hard, "b"))
            harness.api.remove("LimitRange", "l", "a")
            await harness.wait_until(
                lambda: (
                    not harness.view.limit_ranges("a") and bool(harness.view.resource_quotas("b"))
                )
            )

    asyncio.run(play())


def test_other_webhooks_are_reported_when_they_exist(tmp_path: Path) -> None:
    hook = {
        "name": "vgpu.hami.io",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
            }
        ],
        "clientConfig": {"service": {"namespace": "kube-system", "name": "hami-scheduler"}},
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hami-webhook"},
        "webhooks": [hook],
    }

    async def play() -> None:
        async with run_view(tmp_path) as harness:
            assert not harness.view.other_webhooks()
            harness.api.put(configuration)
            await harness.wait_until(lambda: bool(harness.view.other_webhooks()))
            assert harness.view.other_webhooks() is harness.view.other_webhooks()
            assert "hami" in harness.view.other_webhooks()[0].message.lower()

    asyncio.run(play())


def test_inactive_conditions_are_reported_while_they_differ(tmp_path: Path) -> None:
    wanted = match_conditions.build_conditions(derive_interest(Configuration()))[POD_WEBHOOK]
    held = [{"name": name, "expression": text} for name, text in wanted.items()]

    async def play() -> None:
        async with run_view(tmp_path) as harness:
            (finding,) = harness.view.inactive_conditions()
            assert "MutatingWebhookConfiguration drawbridge does not exist" in finding.message
            harness.api.put(build_own_webhooks(matchConditions=held))
            await harness.wait_until(lambda: not harness.view.inactive_conditions())
            # Without findings about networks, the conditions select fewer pods.
            quiet = {"findings": {NETWORK_UNKNOWN.name: "off"}}
            harness.view.configure(msgspec.convert(quiet, Configuration))
            (finding,) = harness.view.inactive_conditions()
            assert finding.code == "NameNotActive"
            harness.view.configure(Configuration())
            assert not harness.view.inactive_conditions()

    asyncio.run(play())


def test_the_view_is_ready_without_permission_to_watch_templates(tmp_path: Path) -> None:
    async def play() -> list[str]:
        async with FakeApi() as api:
            api.put(published(FIRST))
            api.fail(403, method="GET", part="resourceclaimtemplates", times=1000)
            async with session_of(api, tmp_path) as session:
                view = WatchedClusterView(session, Configuration())
                tasks = [asyncio.create_task(watch) for watch in view.run()]
                for cache in view.caches.required:
                    await cache.wait_until_synced()
                await know_queues(view)
                missing = view.find_missing()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                return missing

    assert asyncio.run(play()) == []


@every_row(
    ("data", "why"),
    [
        (None, "is not a valid hash"),
        ({"current": "abc"}, "is not a valid hash"),
        ({"current": f"sha256:{'a' * 64}"}, "does not exist"),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": "{"}, "is not valid JSON"),
        (
            {"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": "[" * 9999},
            "is not valid JSON",
        ),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": "[]"}, "json: "),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": '{"names": 3}'}, "names"),
        (
            {
                "current": f"sha256:{'a' * 64}",
                f"facts-{'a' * 16}.json": serialized.encode_facts(FIRST).decode(),
            },
            "has the hash",
        ),
    ],
)
def test_invalid_published_facts_raise_an_error(data: dict[str, str] | None, why: str) -> None:
    with pytest.raises(PublishedFactsError, match=why):
        read_facts(FactsConfigMap(data))


def default_queue(namespace: str) -> dict[str, Any]:
    return namespaced("LocalQueue", "default", {"clusterQueue": "gpus"}, namespace) | {
        "apiVersion": "kueue.x-k8s.io/v1beta2"
    }


def test_the_view_follows_the_default_queues_of_namespaces(tmp_path: Path) -> None:
    async def play() -> None:
        other = default_queue("web") | {"metadata": {"name": "other", "namespace": "web"}}
        async with run_view(tmp_path, default_queue("ml"), other) as harness:
            view = harness.view
            assert (view.default_queue("ml"), view.default_queue("web")) == ("default", "")
            harness.api.put(default_queue("web"))
            await harness.wait_until(lambda: view.default_queue("web") == "default")
            assert [*view.queues.by_resource()] == [("localqueues", view.queues.cache)]

    asyncio.run(play())


def test_queues_are_watched_from_the_time_that_kueue_is_installed(tmp_path: Path) -> None:
    async def play() -> None:
        pauses: list[float] = []
        async with FakeApi() as api:
            api.put(default_queue("ml"))
            api.fail(404, part="kueue.x-k8s.io", times=2)

            async def pause(seconds: float) -> None:
                pauses.append(seconds)
                assert (queues.find_missing(), queues.find("ml")) == ([], "")

            async with session_of(api, tmp_path) as session:
                queues = WatchedQueues(session, MemoryShares(), pause)
                assert queues.find_missing()
                task = asyncio.create_task(queues.run())
                await queues.cache.wait_until_synced()
                assert queues.find("ml") == "default"
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        assert pauses == [60.0, 60.0]

    asyncio.run(play())


def test_an_error_while_kueue_is_looked_for_is_soon_asked_again(tmp_path: Path) -> None:
    async def play() -> None:
        pauses: list[float] = []
        async with FakeApi() as api:
            api.put(default_queue("ml"))
            api.fail(503, part="kueue.x-k8s.io", times=1)

            async def pause(seconds: float) -> None:
                pauses.append(seconds)
                assert queues.find_missing()

            async with session_of(api, tmp_path) as session:
                queues = WatchedQueues(session, MemoryShares(), pause)
                task = asyncio.create_task(queues.run())
                await queues.cache.wait_until_synced()
                assert (queues.find_missing(), queues.find("ml")) == ([], "default")
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        assert pauses == [1.0]

    asyncio.run(play())


def test_a_server_of_kueue_that_is_away_is_told_of_and_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        clock, pauses = [1000.0], list[float]()

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            clock[0] += seconds

        async with FakeApi() as api:
            api.fail(503, part="kueue.x-k8s.io", times=math.inf)
            async with session_of(api, tmp_path) as session:
                queues = WatchedQueues(session, MemoryShares(), pause, lambda: clock[0])
                task = asyncio.create_task(queues.run())
                await api.until(lambda: pauses.count(60.0) > 1)
                assert queues.find_missing() == []
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        assert pauses[:11] == [1.0] * 10 + [60.0]

    asyncio.run(play())
    assert "WARNING" in {each.levelname for each in caplog.records}


@pytest.mark.parametrize(("code", "waits"), [(403, False), (404, False), (429, True), (500, True)])
def test_queues_that_cannot_be_listed_stop_admission_for_a_short_time_only(
    tmp_path: Path, code: int, *, waits: bool
) -> None:
    """Their CRD can name a conversion webhook that is away, or be gone."""
    clock, pauses = [1000.0], [0]

    async def pause(seconds: float) -> None:
        assert seconds
        pauses[0] += 1
        await asyncio.sleep(0)

    async def play() -> None:
        async with FakeApi() as api:
            api.put(default_queue("ml"))
            api.fail(code, part="localqueues", times=math.inf)
            async with session_of(api, tmp_path) as session:
                queues = WatchedQueues(session, MemoryShares(), pause, lambda: clock[0])
                task = asyncio.create_task(queues.run())
                await api.until(lambda: pauses[0] > 2)
                assert bool(queues.find_missing()) is waits
                clock[0] += KNOWN_SECONDS
                assert (queues.find_missing(), queues.find("ml")) == ([], "")
                # Kueue is served and read as soon as that is possible.
                api.heal()
                await queues.cache.wait_until_synced()
                assert queues.find("ml") == "default"
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())


def test_kueue_can_be_removed_and_installed_again(tmp_path: Path) -> None:
    async def play() -> None:
        pauses: list[float] = []
        async with FakeApi() as api:
            api.put(default_queue("ml"))

            async def pause(seconds: float) -> None:
                pauses.append(seconds)
                if seconds == 60.0:
                    assert (queues.is_served, queues.find("ml")) == (False, "")

            async with session_of(api, tmp_path) as session:
                queues = WatchedQueues(session, MemoryShares(), pause)
                task = asyncio.create_task(queues.run())
                await queues.cache.wait_until_synced()
                api.fail(404, part="kueue.x-k8s.io", times=5)
                api.end_watches()
                await api.until(lambda: pauses.count(60.0) > 1)
                await api.until(lambda: queues.find("ml") == "default")
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())
