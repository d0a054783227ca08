"""Scenarios: requests of tenants fill the API server, and Drawbridge keeps its share of it."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.plane import Options
from e2e.installed.installation import CONTROLLER, NAMESPACE, WEBHOOK, installed
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.objects import JSON
from e2e.scenarios.other_webhook import CONFIGURATIONS, other_webhook
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import tenant_client

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}"
LEVELS = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
LEVEL_HEADER = "x-kubernetes-pf-prioritylevel-uid"
SHARED_LEVELS = {"workload-low", "catch-all", "global-default"}
# The controller gives up its lease when it could not renew it for 10 seconds.
FLOOD, FLOOD_SECONDS = 80, 20.0


def few_seats(version: str) -> Options:
    """Return a control plane whose API server serves few requests at a time."""
    return replace(
        default_options(version),
        apiserver=("--max-requests-inflight=20", "--max-mutating-requests-inflight=10"),
    )


RIGS["few seats"] = few_seats


def level_of(stage: Stage, client: Client, path: str) -> str:
    """Return the name of the priority level that serves a request."""
    uid = client.response_headers(path)[LEVEL_HEADER]
    levels = stage.client.get(LEVELS)["items"]
    (name,) = (each["metadata"]["name"] for each in levels if each["metadata"]["uid"] == uid)
    return str(name)


@scenario("smoke", rig="installed", needs=NEEDS)
def requests_of_drawbridge_have_a_priority_level_of_their_own(stage: Stage) -> None:
    """Its lease has the level of leader election; no request shares the level of tenants."""
    installed(stage)
    plane = stage.processes
    tenant = tenant_client(stage)
    assert level_of(stage, tenant, stage.pod_path()) in SHARED_LEVELS
    controller, webhook = (
        plane.client(plane.account_token(NAMESPACE, name)) for name in (CONTROLLER, WEBHOOK)
    )
    assert level_of(stage, controller, LEASE) == "leader-election"
    for client in (controller, webhook):
        assert level_of(stage, client, "/api/v1/namespaces") not in SHARED_LEVELS


@scenario("full", rig="few seats", needs=NEEDS)
def a_flood_does_not_cost_the_leader_its_lease(stage: Stage) -> None:
    """A tenant's requests occupy every seat of their level for 20 seconds."""
    cluster = installed(stage, mode="")
    client = tenant_client(stage)
    before = stage.client.get(LEASE)["spec"]
    leader = cluster.leader
    released, waiting = threading.Event(), []

    def block(_pod: JSON) -> list[JSON]:
        waiting.append(True)
        released.wait(FLOOD_SECONDS + 10)
        return []

    stage.enter(other_webhook(stage, "rig-slow", block))
    timeout = [{"op": "add", "path": "/webhooks/0/timeoutSeconds", "value": 30}]
    stage.client.patch(f"{CONFIGURATIONS}/rig-slow", timeout, "application/json-patch+json")

    def create(number: int) -> None:
        with contextlib.suppress(ApiError):  # the API server may reject a part of the flood
            client.create(stage.pod_path(), stage.pod_object(f"flood-{number}"), dryRun="All")

    with ThreadPoolExecutor(FLOOD) as pool:
        flood = [pool.submit(create, number) for number in range(FLOOD)]
        try:
            stage.wait("the webhook blocks requests", lambda: waiting)
            ends = time.monotonic() + FLOOD_SECONDS
            stage.wait("the flood lasts", lambda: time.monotonic() > ends, FLOOD_SECONDS + 5)
        finally:
            released.set()
        for request in flood:
            request.result()
    after = stage.client.get(LEASE)["spec"]
    keys = ("holderIdentity", "leaseTransitions")
    assert [after.get(key) for key in keys] == [before.get(key) for key in keys], after
    assert cluster.leader is leader
