"""Scenarios: a namespace with many accounts asks the API of the allocator again and again."""

import contextlib
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from e2e.bridge.placement import SCHEDULER, TOLERATION, BridgeStage, bridge_scenario
from e2e.scenarios.bridge_api import GPU, PODS, Asked, connected, send, tenant
from e2e.scenarios.objects import claim_spec, request

SIMULATE = "POST /v1/simulate"
CROWD = 20
SEARCHES = 16
# Seconds. The clients share the processors with what they ask.
PAUSE = 0.1
# As many searches as a tenant may send.
PACE = 0.25
# A search of the crowd may run when one of the portal arrives, and another one have its turn.
MOST_TIMES = 10
JSON = dict[str, Any]


def simulation(namespace: str, pods: int = 1) -> JSON:
    """Return a simulation of pods with one GPU each."""
    reference = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
    spec = {"resourceClaims": [reference], "tolerations": [TOLERATION], "schedulerName": SCHEDULER}
    names = [{"name": f"pod-{number}", "namespace": namespace} for number in range(pods)]
    template = {"metadata": {"name": "gpu", "namespace": namespace}}
    claim = {"spec": {"spec": claim_spec(request("gpu", GPU))}}
    return {
        "pods": [{"metadata": metadata, "spec": spec} for metadata in names],
        "templates": [template | claim],
    }


class Searches(NamedTuple):
    """The statuses of searches one after the other, and the median of their seconds."""

    statuses: Counter[int]
    seconds: float


def search(asked: Asked, token: str, body: JSON) -> Searches:
    """Search as a portal does, without repeating what was refused."""
    statuses, seconds = Counter[int](), []
    for _ in range(SEARCHES):
        started = time.monotonic()
        statuses[asked(SIMULATE, token, body).status] += 1
        seconds.append(time.monotonic() - started)
        time.sleep(PACE)
    return Searches(statuses, statistics.median(seconds))


@contextlib.contextmanager
def crowded(asked: Asked, tokens: list[str], body: JSON) -> Iterator[Counter[int]]:
    """Let all accounts search again and again; counts what they are told."""
    ended, told = threading.Event(), Counter[int]()

    def press(token: str) -> None:
        with connected(asked.stage, asked.pair) as connection:
            while not ended.wait(PAUSE):
                told[send(connection, SIMULATE, token, body).status] += 1

    with ThreadPoolExecutor(len(tokens)) as pool:
        pressing = [pool.submit(press, token) for token in tokens]
        try:
            yield told
        finally:
            ended.set()
    for future in pressing:
        future.result()


@bridge_scenario("full")
def the_accounts_of_one_namespace_leave_the_api_to_another(stage: BridgeStage) -> None:
    """No search of a portal is refused, and it waits for few of theirs."""
    stage.node("a", "lab-2g2n", {GPU: "full"})
    namespace = f"{stage.namespace}-portal"
    stage.cluster_object("/api/v1/namespaces", {"metadata": {"name": namespace}})
    portal, body = tenant(stage, "portal", [PODS], namespace), simulation(namespace)
    asked = Asked(stage)
    stage.wait("the role is in effect", lambda: asked(SIMULATE, portal, body).status == 200)
    before = search(asked, portal, body)
    assert before.statuses == {200: SEARCHES}, before
    tokens = [tenant(stage, f"crowd-{number}", [PODS]) for number in range(CROWD)]
    with crowded(asked, tokens, simulation(stage.namespace, 50)) as told:
        stage.wait("the crowd is limited", lambda: told[429] >= CROWD)
        during = search(asked, portal, body)
    assert during.statuses == {200: SEARCHES}, (during, told)
    assert during.seconds < before.seconds * MOST_TIMES, (before, during, told)
