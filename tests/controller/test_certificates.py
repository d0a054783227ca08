"""The leading controller makes the CA, injects it, and restores its Secret."""

import asyncio
import base64
import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certs.issuing import read_leaf_secret
from certs.rotation import DAY
from certs.secret import SecretState, read_secret
from drawbridge.agreement.match_conditions import GUARD_KIND, KIND
from drawbridge.cluster.server_clock import CONFIRMATION_SECONDS, ServerClock, boot_time
from drawbridge.names import ALLOCATOR_SECRET, CA_SECRET
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import offer
from tests.controller.test_process import OWN, running

pytestmark = pytest.mark.usefixtures("kept_logging")

SERVICE = {"name": "drawbridge-webhook", "namespace": OWN}
MUTATING: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": KIND,
    "metadata": {"name": "drawbridge"},
    "webhooks": [
        {"name": "pods.drawbridge.dev", "clientConfig": {"service": SERVICE}},
        {"name": "updates.drawbridge.dev", "clientConfig": {"service": SERVICE}},
    ],
}
VALIDATING: dict[str, Any] = {
    **MUTATING,
    "kind": GUARD_KIND,
    "webhooks": [{"name": "workloads.drawbridge.dev", "clientConfig": {"service": SERVICE}}],
}
OTHER: dict[str, Any] = {**MUTATING, "metadata": {"name": "other"}}


def install(api: FakeApi) -> None:
    """Put the objects of an installation."""
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}})
    for configuration in (MUTATING, VALIDATING, OTHER):
        api.put(copy.deepcopy(configuration))


def secret(api: FakeApi) -> dict[str, Any] | None:
    """Return the Secret of the CA."""
    return api.get("secrets", CA_SECRET, OWN)


def signs(api: FakeApi) -> bool:
    """Whether the Secret is complete and has a CA that signs."""
    reading = read_secret(secret(api))
    return reading.state is SecretState.VALID and reading.stored.current is not None


def bundles(api: FakeApi, name: str = "drawbridge") -> set[str]:
    """Return the different bundles of the webhook configurations with this name."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    configurations = [live for kind in kinds if (live := api.get(kind, name))]
    return {
        base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()
        for configuration in configurations
        for hook in configuration["webhooks"]
    }


def reasons(api: FakeApi) -> set[str]:
    """Return the reasons of the events in the own namespace."""
    return {each["reason"] for each in api.all("events", OWN)}


async def wait_until_injected(api: FakeApi) -> None:
    """Wait until a CA signs and all own webhooks trust it, and nothing else."""
    await api.until(lambda: signs(api))
    await api.until(lambda: bundles(api) == {read_secret(secret(api)).stored.bundle})


def test_the_first_ca_is_made_and_trusted_by_all_own_webhooks_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            async with running(api, tmp_path):
                await wait_until_injected(api)
                await api.until(lambda: "AuthorityRotated" in reasons(api))
                assert bundles(api, "other") == {""}
                before = secret(api)
                changed = copy.deepcopy(MUTATING)
                changed["webhooks"].append(
                    {"name": "new.drawbridge.dev", "clientConfig": {"service": SERVICE}}
                )
                api.put(changed)
                await wait_until_injected(api)
                assert secret(api) == before

    asyncio.run(play())


def delete(api: FakeApi) -> None:
    api.remove("secrets", CA_SECRET, OWN)


def change(api: FakeApi, edit: Callable[[dict[str, Any]], object]) -> None:
    value = copy.deepcopy(secret(api) or {})
    edit(value)
    api.put(value)


def empty(api: FakeApi) -> None:
    change(api, lambda value: value.pop("data"))


def damage(api: FakeApi) -> None:
    change(api, lambda value: value["data"].update({"tls.key": "AAAA"}))


@pytest.mark.parametrize("spoil", [delete, empty, damage])
def test_a_lost_secret_is_restored_with_the_same_ca(
    spoil: Callable[[FakeApi], None], tmp_path: Path
) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            async with running(api, tmp_path):
                await wait_until_injected(api)
                before = read_secret(secret(api)).stored
                spoil(api)
                await api.until(lambda: "AuthorityRestored" in reasons(api))
                await wait_until_injected(api)
                assert read_secret(secret(api)).stored == before

    asyncio.run(play())


class DisputedClock(ServerClock):
    """The clock of a machine that is years ahead of the API server, and an hourglass."""

    asked = 0
    passed = 0.0

    def __init__(self) -> None:
        kind = type(self)
        super().__init__(lambda: time.time() + 5 * 365 * DAY, lambda: boot_time() + kind.passed)

    def is_certain(self) -> bool:
        """Count the questions."""
        type(self).asked += 1
        return super().is_certain()


def test_no_ca_is_made_or_dropped_while_the_time_is_disputed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drawbridge.cluster.session.ServerClock", DisputedClock)
    monkeypatch.setattr("certs.reconciler._UNCERTAIN_WAIT", 0.1)

    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            async with running(api, tmp_path):
                await api.until(lambda: DisputedClock.asked > 1)
                assert (secret(api), bundles(api)) == (None, {""})
                DisputedClock.passed = CONFIRMATION_SECONDS
                await wait_until_injected(api)

    asyncio.run(play())


def test_a_secret_of_another_client_is_not_overwritten(tmp_path: Path) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": CA_SECRET, "namespace": OWN},
        "data": {"password": "eA=="},
    }

    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            api.put(foreign)
            async with running(api, tmp_path):
                await api.until(lambda: "SecretNotOwned" in reasons(api))
                assert (secret(api) or {})["data"] == foreign["data"]
                assert bundles(api) == {""}
                delete(api)
                await wait_until_injected(api)

    asyncio.run(play())


BRIDGE = """
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
placement: bridge
ownedPools: [{driver: gpu.nvidia.com, nodeSelector: {matchLabels: {pool: ours}}}]
"""


def test_with_bridge_placement_the_leader_signs_for_the_allocator(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            api.put(offer(BRIDGE))
            async with running(api, tmp_path, config_map=True):
                await api.until(lambda: api.get("secrets", ALLOCATOR_SECRET, OWN))
                leaf = read_leaf_secret(api.get("secrets", ALLOCATOR_SECRET, OWN) or {})
                signer = read_secret(secret(api)).stored.current
                assert signer is not None
                assert leaf.issuer == signer.certificate.pem

    asyncio.run(play())


def test_a_damaged_secret_after_a_restart_waits_for_the_delay(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            async with running(api, tmp_path):
                await wait_until_injected(api)
            before = read_secret(secret(api)).stored
            damage(api)
            async with running(api, tmp_path):
                await api.until(lambda: "AuthorityRestored" in reasons(api))
                await api.until(lambda: bundles(api) == {read_secret(secret(api)).stored.bundle})
                after = read_secret(secret(api)).stored
                assert after.current is None
                assert after.upcoming is not None
                assert set(before.trusted) < set(after.trusted)

    asyncio.run(play())


def test_a_configuration_that_cannot_be_changed_does_not_stop_the_others(tmp_path: Path) -> None:
    async def play() -> None:
        async with FakeApi() as api:
            install(api)
            api.fail(422, method="PATCH", part="mutatingwebhookconfigurations", times=9999)
            async with running(api, tmp_path):
                await api.until(lambda: len(bundles(api)) == 2)
                hooks = (api.get("validatingwebhookconfigurations", "drawbridge") or {})["webhooks"]
                assert hooks[0]["clientConfig"]["caBundle"]
                assert not signs(api)

    asyncio.run(play())
