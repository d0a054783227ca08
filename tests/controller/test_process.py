"""The whole controller against an API server: what it brings in order, and how it ends."""

import asyncio
import contextlib
import functools
import json
import signal
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonpatch
import msgspec
import pytest
from prometheus_client import Gauge
from prometheus_client.samples import Sample

from certs.rotation import RotationPolicy
from controller import facts as facts_reconciler
from controller import giving_back, process, quota_mirror
from controller.api_server import GAUGES
from controller.reconcilers import Reconcilers
from drawbridge.config.model import Configuration
from drawbridge.facts.model import Facts
from drawbridge.facts.serialized import read_facts
from drawbridge.names import CONFIGURATION_IN_USE_CONFIG_MAP, CONTROLLER_LEASE
from drawbridge.names import MIRRORED_QUOTA as QUOTA
from drawbridge.process import metrics
from drawbridge.process.addresses import parse_address
from drawbridge.process.run import REFUSED, RESTORED, ProcessOptions
from drawbridge.translate.changes.patch import to_operations
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import HEAD, accept, offer

pytestmark = pytest.mark.usefixtures("kept_logging")

OWN = "drawbridge-system"
ANY_PORT = parse_address("127.0.0.1:0")
FACTS = "drawbridge-facts"
CLASS: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
}
SLICE: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "a-gpus"},
    "spec": {
        "driver": "gpu.nvidia.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": f"gpu-{i}",
                "attributes": {"type": {"string": "gpu"}, "productName": {"string": "L4"}},
                "capacity": {"memory": {"value": "23034Mi"}},
            }
            for i in range(2)
        ],
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "a", "labels": {"mine": "stays"}},
    "spec": {"taints": [{"key": "drawbridge.dev/owned", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"nvidia.com/gpu": "2"}},
}
WEBHOOKS: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "drawbridge"},
    "webhooks": [
        {"name": "pods.drawbridge.dev", "clientConfig": {"caBundle": "Q0E="}},
        {"name": "updates.drawbridge.dev", "clientConfig": {"caBundle": "Q0E="}},
    ],
}
TEAM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team", "labels": {"drawbridge.dev/translate": "enforce"}},
}

LIMIT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus", "namespace": "team"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "10"}},
    "status": {"used": {"requests.nvidia.com/gpu": "3"}},
}


def pod(name: str = "train") -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": resources}]},
        "status": {"phase": "Pending"},
    }


def translated(by: TranslationContext, name: str = "train") -> tuple[dict[str, Any], str]:
    """A pod as admission leaves it, and the template it refers to."""
    asked = pod(name)
    done = translate(asked, by, "team")
    after: dict[str, Any] = jsonpatch.apply_patch(asked, to_operations(done.edits))
    return after, done.templates[0].name


def controller_options(**different: Any) -> process.ControllerOptions:  # noqa: ANN401  # fields
    shared = {"health": ANY_PORT, "metrics": ANY_PORT, "namespace": OWN}
    return process.ControllerOptions(
        process=ProcessOptions(**{**shared, **different}),
        identity="one",
        rotation=RotationPolicy(life=1_000_000.0),
    )


@contextlib.asynccontextmanager
async def running(
    api: FakeApi, folder: Path, **different: object
) -> AsyncIterator[asyncio.Task[int]]:
    kubeconfig = str(api.kubeconfig(folder / "kubeconfig"))
    options = controller_options(kubeconfig=kubeconfig, **different)
    task = asyncio.create_task(process.run(options))
    try:
        yield task
    finally:
        if not task.done():
            signal.raise_signal(signal.SIGTERM)
        assert await asyncio.wait_for(task, 20) == 0


def test_it_reconciles_everything_and_releases_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving_back, "LEASE_SECONDS", 0.1)
    asyncio.run(_everything(tmp_path))


async def _everything(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        for value in (CLASS, SLICE, NODE, WEBHOOKS, TEAM):
            api.put(value)
        async with running(api, tmp_path):
            await api.until(lambda: api.get("configmaps", FACTS, OWN))
            published = api.get("configmaps", FACTS, OWN)
            assert published is not None
            assert leading() == 1
            assert published["data"]["current"].startswith("sha256:")

            await api.until(lambda: "drawbridge.dev/dual" in labels(api, "a"))
            assert labels(api, "a") == {"mine": "stays", "drawbridge.dev/dual": "true"}

            # In native placement, nodes do not keep the taint of bridge placement.
            await api.until(lambda: not (api.get("nodes", "a") or {})["spec"].get("taints"))

            await api.until(lambda: "matchConditions" in webhook(api, 0))
            assert webhook(api, 0)["clientConfig"] == {"caBundle": "Q0E="}
            assert webhook(api, 1) == WEBHOOKS["webhooks"][1]
            for gauge in GAUGES.values():
                gauge.set(1)
        lease = api.get("leases", CONTROLLER_LEASE, OWN)
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == ""
        # An alert about what the next leader mends would never end.
        assert not any(each.value for gauge in GAUGES.values() for each in samples(gauge))


def test_each_term_has_reconcilers_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process can have led in between, so nothing of an earlier term counts."""
    terms: list[Reconcilers] = []

    class Noted(Reconcilers):
        def __init__(self, *parts: Any) -> None:  # noqa: ANN401  # all of Reconcilers
            super().__init__(*parts)
            terms.append(self)

    monkeypatch.setattr(process, "Reconcilers", Noted)
    quick = functools.partial(process.LeaderElector, retry_period=0.05)
    monkeypatch.setattr(process, "LeaderElector", quick)
    asyncio.run(_two_terms(tmp_path, terms))


async def _two_terms(folder: Path, terms: list[Reconcilers]) -> None:
    async with FakeApi() as api:
        for value in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}}, SLICE):
            api.put(value)
        async with running(api, folder):
            await api.until(lambda: api.get("configmaps", FACTS, OWN))
            api.remove("configmaps", FACTS, OWN)
            lease = api.get("leases", CONTROLLER_LEASE, OWN)
            assert lease is not None
            another = {**lease["spec"], "holderIdentity": "another", "leaseDurationSeconds": 1}
            api.put({**lease, "spec": another})
            await api.until(lambda: leading() == 0)
            await api.until(lambda: len(terms) == 2)
            first, second = terms
            for wake_up in first.wake_ups.values():
                wake_up.clear()
            api.put(CLASS)
            api.put(NODE)
            await api.until(lambda: api.get("configmaps", FACTS, OWN))
            await api.until(lambda: current(api).classes)
        assert not {*map(id, first.all())} & {*map(id, second.all())}
        assert not any(wake_up.is_set() for wake_up in first.wake_ups.values())


def test_a_missing_and_a_deleted_template_are_created(tmp_path: Path) -> None:
    asyncio.run(_templates(tmp_path))


async def _templates(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        for value in (CLASS, SLICE, WEBHOOKS, TEAM):
            api.put(value)
        async with running(api, tmp_path):
            await api.until(lambda: api.get("configmaps", FACTS, OWN))
            waiting, name = translated(make_context(Configuration(), current(api)))
            api.put(waiting)
            await api.until(lambda: api.get("resourceclaimtemplates", name, "team"))
            api.remove("resourceclaimtemplates", name, "team")
            await api.until(lambda: api.get("resourceclaimtemplates", name, "team"))

            forged = pod("forged")
            forged["metadata"]["annotations"] = {"drawbridge.dev/original": "[]"}
            claim = {"name": "drawbridge", "resourceClaimTemplateName": f"drawbridge-{'0' * 32}"}
            forged["spec"]["resourceClaims"] = [claim]
            api.put(forged)
            await api.until(lambda: reasons(api) & {"TemplateNotReproduced"})
        assert len(api.all("resourceclaimtemplates", "team")) == 1


# The work of each step that may take long, by the module and function that a worker thread runs.
LONG_STEPS = {
    "gathering facts": (facts_reconciler, "gather_facts"),
    "planning quotas": (quota_mirror, "plan_mirror"),
}


@pytest.mark.parametrize("step", LONG_STEPS.values(), ids=LONG_STEPS)
def test_the_lease_is_renewed_during_a_long_step(
    step: tuple[ModuleType, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = step
    do_step, started, released = getattr(module, name), threading.Event(), threading.Event()

    def wait_in_step(*args: object, **options: object) -> object:
        started.set()
        # If this held the event loop, nothing could release it before the timeout.
        assert released.wait(20)
        return do_step(*args, **options)

    monkeypatch.setattr(module, name, wait_in_step)
    quick = functools.partial(process.LeaderElector, retry_period=0.05)
    monkeypatch.setattr(process, "LeaderElector", quick)
    asyncio.run(_renewed_during(started, released, tmp_path))


async def _renewed_during(
    started: threading.Event, released: threading.Event, folder: Path
) -> None:
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        for value in (CLASS, SLICE, WEBHOOKS, TEAM, LIMIT):
            api.put(value)
        waiting, _ = translated(make_context(Configuration()))
        api.put(waiting)

        def renewed() -> str:
            lease = api.get("leases", CONTROLLER_LEASE, OWN) or {"spec": {"renewTime": ""}}
            at: str = lease["spec"]["renewTime"]
            return at

        async with running(api, folder):
            try:
                await api.until(started.is_set)
                for _ in range(3):
                    before = renewed()
                    await api.until(lambda before=before: renewed() not in ("", before))
                assert leading() == 1
            finally:
                released.set()


def reasons(api: FakeApi) -> set[str]:
    return {each["reason"] for each in api.all("events", "team")}


def current(api: FakeApi) -> Facts:
    published = api.get("configmaps", FACTS, OWN)
    assert published is not None
    digest = published["data"]["current"].removeprefix("sha256:")
    facts = read_facts(msgspec.json.decode(published["data"][f"facts-{digest[:16]}.json"]))
    assert isinstance(facts, Facts)
    return facts


def test_a_quota_on_a_name_that_no_class_maps_is_mirrored(tmp_path: Path) -> None:
    asyncio.run(_mirrored(tmp_path))


async def _mirrored(tmp_path: Path) -> None:
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        for value in (CLASS, SLICE, WEBHOOKS, TEAM):
            api.put(value)
        api.put(LIMIT)

        def mirrored() -> dict[str, str]:
            ours = api.get("resourcequotas", QUOTA, "team") or {"spec": {"hard": {}}}
            hard: dict[str, str] = ours["spec"]["hard"]
            return hard

        async with running(api, tmp_path):
            await api.until(lambda: mirrored().get(key) == "7")
            api.put({**LIMIT, "status": {"used": {"requests.nvidia.com/gpu": "5"}}})
            await api.until(lambda: mirrored().get(key) == "5")
            api.remove("resourcequotas", "gpus", "team")
            await api.until(lambda: not mirrored())


def test_other_webhooks_of_both_kinds_are_reported(tmp_path: Path) -> None:
    asyncio.run(_others(tmp_path))


async def _others(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        rules = [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}]
        for kind in ("Mutating", "Validating"):
            api.put(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": f"{kind}WebhookConfiguration",
                    "metadata": {"name": "hami-webhook"},
                    "webhooks": [{"name": "vgpu.hami.io", "clientConfig": {}, "rules": rules}],
                }
            )

        def is_reported(order: str) -> bool:
            return any(
                f"HAMi: webhook vgpu.hami.io of hami-webhook {order}" in n for n in notes(api)
            )

        async with running(api, tmp_path):
            await api.until(lambda: is_reported("runs after Drawbridge"))
            await api.until(lambda: is_reported("checks pods after Drawbridge"))


def in_use(api: FakeApi) -> dict[str, Any]:
    return (api.get("configmaps", CONFIGURATION_IN_USE_CONFIG_MAP, OWN) or {}).get("data") or {}


async def _first(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        api.put(offer(f"{HEAD}placement: natve\n"))
        async with running(api, tmp_path, config_map=True):
            await api.until(lambda: any("no process can start" in each for each in notes(api)))
            published = api.get("configmaps", CONFIGURATION_IN_USE_CONFIG_MAP, OWN)
            assert "placement" in str(published)
            assert in_use(api) == {}
            # Nothing else is reconciled without a configuration.
            assert api.get("configmaps", FACTS, OWN) is None
            api.put(offer(HEAD))
            await api.until(lambda: in_use(api) == {"config.yaml": HEAD})
            await api.until(lambda: api.get("configmaps", FACTS, OWN))


def test_a_first_configuration_that_is_refused_is_reported_until_it_is_corrected(
    tmp_path: Path,
) -> None:
    asyncio.run(_first(tmp_path))


async def _refused(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
        api.put(accept(HEAD))
        api.put(offer(f"{HEAD}placement: natve\n"))
        async with running(api, tmp_path, config_map=True):
            await api.until(lambda: any("stays in use" in each for each in notes(api)))
            await api.until(lambda: api.get("configmaps", FACTS, OWN))
            assert in_use(api) == {"config.yaml": HEAD}
            api.remove("configmaps", CONFIGURATION_IN_USE_CONFIG_MAP, OWN)
            await api.until(lambda: in_use(api) == {"config.yaml": HEAD})
            changed = accept(HEAD)
            changed["data"]["config.yaml"] += "unsetGroups: all\n"
            api.put(changed)
            await api.until(lambda: in_use(api) == {"config.yaml": HEAD})


def test_a_new_leader_keeps_what_is_in_use_and_repairs_it(tmp_path: Path) -> None:
    asyncio.run(_refused(tmp_path))


@pytest.mark.parametrize("name", ["health", "metrics"])
def test_a_port_in_use_is_logged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"

        async def play() -> int:
            async with FakeApi() as api:
                kubeconfig = str(api.kubeconfig(tmp_path / "kubeconfig"))
                taken_port = {name: parse_address(where)}
                return await process.run(controller_options(kubeconfig=kubeconfig, **taken_port))

        assert asyncio.run(play()) == REFUSED
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert lines[-1]["msg"] == "the process cannot continue"
    assert lines[-1]["reason"] == f"{name} cannot listen on {where}: Address already in use"


async def _restored(folder: Path) -> int:
    async with FakeApi() as api:
        for value in ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}}, TEAM):
            api.put(value)
        backup = api.saved()
        kubeconfig = str(api.kubeconfig(folder / "kubeconfig"))
        task = asyncio.create_task(process.run(controller_options(kubeconfig=kubeconfig)))
        await api.until(lambda: leading() == 1)
        api.put({**TEAM, "metadata": {**TEAM["metadata"], "labels": {}}})
        await api.until(lambda: api.asked("GET", "namespaces", watch=True))
        api.bookmark()
        api.restore(backup)
        code = await asyncio.wait_for(task, 60)
        left = {each.get_coro().__qualname__ for each in asyncio.all_tasks()}
        assert not any("LeaderElector" in each for each in left), left
        return code


def test_it_ends_with_a_code_of_its_own_after_a_restore_and_leaves_no_task(tmp_path: Path) -> None:
    assert asyncio.run(_restored(tmp_path)) == RESTORED
    assert leading() == 0


def samples(gauge: Gauge) -> list[Sample]:
    """The samples of a gauge."""
    return [sample for metric in gauge.collect() for sample in metric.samples]


def leading() -> float | None:
    """The value of the gauge for the leader."""
    return metrics.CONTROLLER.get_sample_value("drawbridge_controller_leading")


def labels(api: FakeApi, name: str) -> dict[str, str]:
    node = api.get("nodes", name)
    assert node is not None
    labels: dict[str, str] = node["metadata"]["labels"]
    return labels


def notes(api: FakeApi) -> list[str]:
    """The notes of all events."""
    return [each["note"] for each in api.all("events")]


def webhook(api: FakeApi, number: int) -> dict[str, Any]:
    live = api.get("mutatingwebhookconfigurations", "drawbridge")
    assert live is not None
    webhook: dict[str, Any] = live["webhooks"][number]
    return webhook
