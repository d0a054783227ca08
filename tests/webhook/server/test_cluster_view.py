"""What admission knows follows the cluster; what was read once outlives what cannot be read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from cluster.session import Session
from config.model import Configuration
from dra.names import FACTS_CONFIG_MAP, POD_WEBHOOK, WEBHOOK_CONFIGURATION
from facts import serialized
from facts.model import Cluster, Facts
from registration import match_conditions
from registration.published_facts import Published, UnpublishedError, facts, key
from tests.cluster.fake.api import FakeApi
from translate.interest import interest
from translate.legacy.codes import NETWORK_UNKNOWN
from webhook.server.cluster_view import Known

SYSTEM = "drawbridge-system"
FIRST, SECOND = Facts(cluster=Cluster(version="1.35")), Facts(cluster=Cluster(version="1.36"))


def published(*versions: Facts, current: str = "") -> dict[str, Any]:
    """Write the ConfigMap as the controller does; the last version is the current one."""
    data = {key(serialized.digest(each)): serialized.canonical(each).decode() for each in versions}
    data["current"] = current or serialized.digest(versions[-1])
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


def ours(**webhook: object) -> dict[str, Any]:
    """Write our own webhook configuration."""
    return {
        "apiVersion": match_conditions.API_VERSION,
        "kind": match_conditions.KIND,
        "metadata": {"name": WEBHOOK_CONFIGURATION},
        "webhooks": [{"name": POD_WEBHOOK, **webhook}],
    }


class Town(NamedTuple):
    """A cluster, and what is known of it."""

    api: FakeApi
    known: Known

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait for a change to arrive; the listeners of `known` were there first."""
        news = asyncio.Event()
        for cache in self.known.caches:
            cache.subscribe(lambda *_: news.set())
        while not true():
            news.clear()
            await news.wait()


@contextlib.asynccontextmanager
async def town(folder: Path, *objects: dict[str, Any]) -> AsyncIterator[Town]:
    """Start with these objects; everything is read once."""
    async with FakeApi() as api:
        for each in objects:
            api.put(each)
        async with await Session.open(str(api.kubeconfig(folder / "config"))) as session:
            known = Known(session, SYSTEM, Configuration())
            tasks = [asyncio.create_task(each.run()) for each in known.caches]
            try:
                for each in known.caches:
                    await each.until_synced()
                yield Town(api, known)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


def test_before_anything_is_read_everything_is_missing(tmp_path: Path) -> None:
    async def play() -> list[str]:
        async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as way:
            return Known(way, SYSTEM, Configuration()).missing()

    missing = asyncio.run(play())
    assert any("namespaces" in each for each in missing)
    assert any(f"{SYSTEM}/{FACTS_CONFIG_MAP}" in each for each in missing)


def test_facts_are_followed(tmp_path: Path) -> None:
    async def play() -> None:
        async with town(tmp_path) as there:
            (missing,) = there.known.missing()
            assert "controller" in missing
            there.api.put(published(FIRST))
            await there.until(lambda: not there.known.missing())
            given = there.known.given()
            assert given is not None
            assert (given.facts, given.digest) == (FIRST, serialized.digest(FIRST))
            assert there.known.given() is given
            there.api.put(published(FIRST, SECOND))
            await there.until(lambda: there.known.given() is not given)
            given = there.known.given()
            assert given is not None
            assert (given.facts, given.digest) == (SECOND, serialized.digest(SECOND))

    asyncio.run(play())


def test_a_new_configuration_counts_at_once(tmp_path: Path) -> None:
    other = Configuration(legacy=msgspec.structs.replace(Configuration().legacy, units={}))

    async def play() -> None:
        async with town(tmp_path, published(FIRST)) as there:
            there.known.configure(other)
            given = there.known.given()
            assert given is not None
            assert given.configuration is other
            assert given.facts == FIRST

    asyncio.run(play())


def test_facts_that_are_unreadable_or_gone_keep_the_last_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        async with town(tmp_path, published(FIRST)) as there:
            given = there.known.given()
            revision = there.known.facts.revision
            there.api.put(published(FIRST, current=f"sha256:{'0' * 64}"))
            await there.until(lambda: there.known.facts.revision != revision)
            there.api.remove("ConfigMap", FACTS_CONFIG_MAP, SYSTEM)
            await there.until(lambda: there.known.facts.get(FACTS_CONFIG_MAP, SYSTEM) is None)
            assert there.known.given() is given
            assert there.known.missing() == []

    asyncio.run(play())
    told = [getattr(record, "fields", {}).get("reason", "") for record in caplog.records]
    assert any("facts-0000000000000000.json" in each for each in told)


def test_labels_are_the_same_object_until_they_change(tmp_path: Path) -> None:
    async def play() -> None:
        async with town(tmp_path, namespace("a", team="x")) as there:
            assert there.known.namespace("nowhere") is None
            labels = there.known.namespace("a")
            assert labels is there.known.namespace("a")
            assert labels is not None
            assert labels["team"] == "x"
            assert there.known.namespace("default") is not None
            there.api.put(namespace("a", team="y"))
            await there.until(lambda: labels is not there.known.namespace("a"))
            assert (there.known.namespace("a") or {})["team"] == "y"

    asyncio.run(play())


def test_a_namespace_without_the_label_is_unknown_while_its_news_may_be_old(
    tmp_path: Path,
) -> None:
    needs = {"matchExpressions": [{"key": "drawbridge.dev/translate", "operator": "Exists"}]}
    label = {"drawbridge.dev/translate": "enforce"}

    async def play() -> None:
        async with town(tmp_path, namespace("plain"), namespace("in", **label)) as there:
            api, known = there.api, there.known
            await api.until(lambda: api.asked("GET", "namespaces", watch=True))
            api.fail(503, part="namespaces", times=1000, retry_after=0.01)
            api.cut_watches()
            while not known.namespaces.trouble:  # noqa: ASYNC110  # nothing says when
                await asyncio.sleep(0)
            # Somebody sends every pod, and this one is none of ours.
            assert known.namespace("plain") is not None
            api.put(ours(namespaceSelector=needs))
            await there.until(lambda: known.webhooks.get(WEBHOOK_CONFIGURATION) is not None)
            assert known.namespace("plain") is None
            assert known.namespace("in") == label
            api.heal()
            while not known.namespaces.fresh:  # noqa: ASYNC110  # nothing says when
                await asyncio.sleep(0)
            assert known.namespace("plain") is not None

    asyncio.run(play())


def test_limits_and_quotas_are_those_of_the_namespace_and_follow_changes(tmp_path: Path) -> None:
    limit = {"limits": [{"type": "Container", "max": {"nvidia.com/gpu": "1"}}]}
    hard = {"hard": {"requests.nvidia.com/gpu": "1"}}

    async def play() -> None:
        ranges = namespaced("LimitRange", "l", limit, "a")
        quota = namespaced("ResourceQuota", "q", hard, "a")
        async with town(tmp_path, ranges, quota) as there:
            assert [each.metadata.name for each in there.known.limits("a")] == ["l"]
            assert [each.metadata.name for each in there.known.quotas("a")] == ["q"]
            assert (there.known.limits("b"), there.known.quotas("b")) == ((), ())
            there.api.put(namespaced("ResourceQuota", "q2", hard, "b"))
            there.api.remove("LimitRange", "l", "a")
            await there.until(lambda: not there.known.limits("a") and bool(there.known.quotas("b")))

    asyncio.run(play())


def test_other_webhooks_are_named_once_they_are_there(tmp_path: Path) -> None:
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
        async with town(tmp_path) as there:
            assert not there.known.others()
            there.api.put(configuration)
            await there.until(lambda: bool(there.known.others()))
            assert there.known.others() is there.known.others()
            assert "hami" in there.known.others()[0].message.lower()

    asyncio.run(play())


def test_what_keeps_pods_from_us_is_known_while_it_does(tmp_path: Path) -> None:
    wanted = match_conditions.conditions(interest(Configuration()))[POD_WEBHOOK]
    held = [{"name": name, "expression": text} for name, text in wanted.items()]

    async def play() -> None:
        async with town(tmp_path) as there:
            (found,) = there.known.unsent()
            assert "there is no MutatingWebhookConfiguration" in found.message
            there.api.put(ours(matchConditions=held))
            await there.until(lambda: not there.known.unsent())
            # Without networks, and without a word about them, fewer pods are to be sent.
            quiet = {"findings": {NETWORK_UNKNOWN.name: "off"}}
            there.known.configure(msgspec.convert(quiet, Configuration))
            (found,) = there.known.unsent()
            assert found.code == "NameNotActive"
            there.known.configure(Configuration())
            assert not there.known.unsent()

    asyncio.run(play())


def test_without_the_right_to_watch_templates_all_the_rest_is_ready(tmp_path: Path) -> None:
    async def play() -> list[str]:
        async with FakeApi() as api:
            api.put(published(FIRST))
            api.fail(403, method="GET", part="resourceclaimtemplates", times=1000)
            async with await Session.open(str(api.kubeconfig(tmp_path / "config"))) as session:
                known = Known(session, SYSTEM, Configuration())
                tasks = [asyncio.create_task(each.run()) for each in known.caches]
                for each in known.caches[:-1]:
                    await each.until_synced()
                missing = known.missing()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                return missing

    assert asyncio.run(play()) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (None, "is no hash"),
        ({"current": "abc"}, "is no hash"),
        ({"current": f"sha256:{'a' * 64}"}, "is not there"),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": "{"}, "is no JSON"),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": "[" * 9999}, "is no JSON"),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": "[]"}, "json: "),
        ({"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": '{"names": 3}'}, "names"),
        (
            {
                "current": f"sha256:{'a' * 64}",
                f"facts-{'a' * 16}.json": serialized.canonical(FIRST).decode(),
            },
            "has the hash",
        ),
    ],
)
def test_what_is_published_wrongly_is_named(data: dict[str, str] | None, why: str) -> None:
    with pytest.raises(UnpublishedError, match=why):
        facts(Published(data))
