"""Scenarios: claims and device-plugin pods share a quota on a name that no class maps.

The API server enforces each side's own entry at once. The mirror learns of the other side's use
after a round through the controllers; until then both may use the same remainder.
"""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, installed, wait_for_facts
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, legacy_pod
from e2e.scenarios.objects import JSON
from e2e.scenarios.reconcilers import DEVICES, LIMIT, MODE, MOST, QUOTA, create_quota
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SHAPE = "dgx-a100"
KINDS = ("claims", "plugins")
EACH, WRITERS = 20, 16
# Pods of each kind that are created first, so that both kinds have some.
FIRST = 2
# Pods with claims that come first, because claims are charged later than plugin pods.
LEADS = (0, 4, 8, 12)
PATIENCE_SECONDS = 60.0
FORBIDDEN = 403


def pod(stage: Stage, kind: str, number: int) -> JSON:
    """Return a pod for one GPU; of device plugins where it opts out of translation."""
    body = legacy_pod(stage, f"{kind}-{number}")
    if kind == "plugins":
        body["metadata"]["labels"][MODE] = "off"
    return body


def ours(stage: Stage) -> JSON:
    """Return our quota of the stage's namespace."""
    return stage.client.get(stage.path("resourcequotas", QUOTA))


def entries(quota: JSON, part: str, what: str) -> tuple[int, int]:
    """Return the entries for claims and for pods of plugins."""
    amounts = quota.get(part, {}).get(what, {})
    return int(amounts.get(DEVICES, -1)), int(amounts.get(LIMIT, -1))


def held(stage: Stage) -> Counter[str]:
    """Count the GPUs that claims have been allocated, and those that plugins have handed out."""
    claims = stage.client.get(stage.claim_path())["items"]
    allocated = [each.get("status", {}).get("allocation", {}).get("devices", {}) for each in claims]
    pods = {each["metadata"]["uid"] for each in stage.client.get(stage.pod_path())["items"]}
    units = stage.fleet.kubelet.units.copy()
    return Counter(
        claims=sum(len(each.get("results", ())) for each in allocated),
        plugins=sum(len(each.get(LEGACY, ())) for uid, each in units.items() if uid in pods),
    )


def in_balance(stage: Stage) -> bool:
    """Return whether each quota entry is the remainder of the other and in the status.

    The highest count of both quotas counts. The API server can charge one of them for a pod that it
    then refuses for the other, and count again minutes later.
    """
    quota = ours(stage)
    claims, plugins = entries(quota, "status", "used")
    given = stage.client.get(stage.path("resourcequotas", "gpus"))
    used = claims, max(plugins, entries(given, "status", "used")[1])
    wanted = (max(0, MOST - used[1]), max(0, MOST - used[0]))
    return entries(quota, "spec", "hard") == entries(quota, "status", "hard") == wanted


def balanced(stage: Stage) -> Counter[str]:
    """Wait until all is counted that is held, and nothing may be added; give what is held."""

    def settled() -> bool:
        taken = held(stage)
        used = entries(ours(stage), "status", "used")
        return in_balance(stage) and used == (taken["claims"], taken["plugins"])

    stage.wait("both quota entries are balanced", settled, PATIENCE_SECONDS)
    return held(stage)


def create(stage: Stage, kind: str, number: int) -> str:
    """Create a pod; what the API server said where it refused."""
    try:
        stage.client.create(stage.pod_path(), pod(stage, kind, number))
    except ApiError as problem:
        if problem.code != FORBIDDEN:
            raise
        return str(problem)
    return ""


def clear(stage: Stage) -> None:
    """Delete all pods, and wait until nothing is held and each side may take all."""
    stage.client.call("DELETE", stage.pod_path())
    stage.wait("the pods are gone", lambda: not stage.client.get(stage.pod_path())["items"])
    wanted = (MOST, MOST)
    stage.wait(
        "all devices are free",
        lambda: balanced(stage).total() == 0 and entries(ours(stage), "spec", "hard") == wanted,
        PATIENCE_SECONDS,
    )


@contextlib.contextmanager
def shared(stage: Stage, cluster: Installation) -> Iterator[None]:
    """Add more GPUs of either world than the quota allows, and the quota."""
    for number in range(2):
        units = tuple(each.uuid for each in stage.hardware(f"p-{number}", SHAPE).gpus)
        stage.node(f"p-{number}", SHAPE, plugins={LEGACY: units})
        stage.node(f"d-{number}", SHAPE, {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    create_quota(stage, MOST)
    stage.wait("the mirrored quota exists", lambda: in_balance(stage))
    yield


@scenario("full", rig="installed", needs=NEEDS)
def claims_and_device_plugin_pods_share_a_quota(stage: Stage) -> None:
    """Created one after the other they use at most ten GPUs. A finding names the quota."""
    cluster = installed(stage)
    stage.enter(shared(stage, cluster))
    words = f"claims of {GPU} are not charged to {LEGACY}, so they and pods share the limit"
    stage.wait("the finding", lambda: any(words in each for each in stage.events("gpus")))
    for number in range(MOST // 2):
        for kind in KINDS:
            assert not create(stage, kind, number)
            stage.wait_running(f"{kind}-{number}")
            balanced(stage)
    assert held(stage) == Counter(claims=5, plugins=5)
    assert entries(ours(stage), "spec", "hard") == (5, 5)
    assert f"ResourceQuota gpus: {LIMIT}: " in create(stage, "claims", MOST)
    assert QUOTA in create(stage, "plugins", MOST)  # as the API server tells it
    stage.delete_pod("plugins-0")
    stage.wait(
        "a claim can be created", lambda: in_balance(stage) and not create(stage, "claims", 5)
    )
    stage.wait_running("claims-5")
    assert balanced(stage) == Counter(claims=6, plugins=4)


def some(stage: Stage) -> None:
    """Let each kind hold some."""
    for number in range(FIRST):
        for kind in KINDS:
            assert not create(stage, kind, number)
            stage.wait_running(f"{kind}-{number}")
            balanced(stage)


def rush(stage: Stage, lead: int) -> Counter[str]:
    """Create the others at once; the most that each kind was seen to hold meanwhile."""
    most: Counter[str] = Counter()
    rest = [(kind, number) for number in range(FIRST, EACH) for kind in KINDS]
    rest.sort(key=lambda each: each[1] + (lead if each[0] == "plugins" else 0))
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(create, stage, *each) for each in rest]
        while not all(each.done() for each in writing):
            most |= held(stage)
    for write in writing:
        write.result()
    return most


@scenario("full", rig="installed", needs=NEEDS)
def concurrent_claims_and_device_plugin_pods_each_stay_within_the_quota(stage: Stage) -> None:
    """Neither kind uses more than ten. The scenario prints how many both use together.

    Twice the limit is the most there can be: when both take all of it before either is known.
    """
    cluster = installed(stage)
    stage.enter(shared(stage, cluster))
    for lead in LEADS:
        some(stage)
        began = time.monotonic()
        most = rush(stage, lead)
        wrote = time.monotonic() - began
        taken = balanced(stage)
        most |= taken
        figures = f"claims {taken['claims']}, plugins {taken['plugins']} of {MOST} together"
        sys.stdout.write(f"      lead {lead}: {figures}, created in {wrote:.1f} s\n")
        assert max(most.values()) <= MOST, most
        assert min(taken.values()) >= FIRST, taken
        assert taken.total() >= MOST, taken
        clear(stage)
