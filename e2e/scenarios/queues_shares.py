"""Scenarios: Kueue charges what shares of devices take, by the mapping that is printed for them."""

from collections.abc import Mapping

from msgspec import Struct

from e2e.checker.quantities import quantity
from e2e.installed.installation import wait_for_facts
from e2e.queues.manager import API, LABEL, kueue
from e2e.scenarios.objects import JSON
from e2e.scenarios.queues import (
    QUEUE,
    SECONDS,
    apply,
    make_queue,
    printed_mappings,
    queue_scenario,
    start,
    usage,
    used,
    wait_charged,
)
from e2e.scenarios.stage import Stage

GATE = "KueueDRAIntegrationConsumableCapacity"
HAMI = "hami-core-gpu.project-hami.io"
MI = 1 << 20


class Share(Struct, frozen=True):
    """The limits and annotations of a pod, and the memory of its shares in MiB."""

    limits: Mapping[str, int | str]
    memory: int
    annotations: Mapping[str, str] = {}


SHARES = {
    "memory": Share({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, 3000),
    "two-devices": Share({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1500}, 3000),
    "memory-and-cores": Share(
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 777, "nvidia.com/gpucores": 30}, 777
    ),
    "one-mib": Share({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1}, 1),
    "volcano": Share({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 4096}, 4096),
    "volcano-of-two": Share({"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": 512}, 1024),
    "gib": Share({"aliyun.com/gpu-mem": 5}, 5 * 1024),
    "slice": Share({"nvidia.com/gpu-10gb": 1}, 10 * 1024),
    "product": Share(
        {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2000}, 2000, {"nvidia.com/use-gputype": "H800"}
    ),
    "large": Share({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 60000}, 60000),
}


def share_pod(stage: Stage, name: str, share: Share) -> JSON:
    """Return a pod in the queue with a share."""
    pod = stage.pod_object(name, limits={key: f"{value}" for key, value in share.limits.items()})
    pod["metadata"]["labels"] |= {LABEL: QUEUE}
    pod["metadata"]["annotations"] = dict(share.annotations)
    return pod


@queue_scenario
def the_printed_mapping_charges_what_shares_take(stage: Stage) -> None:
    """Pods of ten kinds fill a quota of memory to the last MiB; one more MiB waits for it."""
    stage.node("a", "koordinator-h800", {HAMI: None})
    cluster = start(stage, None)
    pods = {name: share_pod(stage, name, share) for name, share in SHARES.items()}
    wait_for_facts(stage, cluster, pods["memory"])
    (mapping,) = printed_mappings(cluster, pods["memory"], of_shares=True)
    kueue(cluster).configure([mapping], (GATE,))
    total = sum(share.memory for share in SHARES.values())
    queue = make_queue(stage, {mapping["name"]: total * MI})
    for name, share in SHARES.items():
        apply(stage, cluster, pods[name]).check()
        charged = wait_charged(stage, name)
        assert charged_mib(charged[mapping["name"]]) == share.memory, (name, charged)
    stage.wait(
        "the queue is full",
        lambda: charged_mib(used(stage, queue).get(mapping["name"], "0")) == total,
        SECONDS,
    )
    apply(stage, cluster, share_pod(stage, "waits", SHARES["one-mib"])).check()
    stage.wait("its workload exists", lambda: workloads(stage) == len(SHARES) + 1, SECONDS)
    assert usage(stage, "waits") is None
    stage.delete_pod("one-mib")
    assert charged_mib(wait_charged(stage, "waits")[mapping["name"]]) == 1


def charged_mib(amount: str) -> int:
    """Return an amount of memory in MiB; it must be a whole number of them."""
    mib, rest = divmod(quantity(amount), MI)
    assert rest == 0, amount
    return int(mib)


def workloads(stage: Stage) -> int:
    """Count the workloads that Kueue made in the namespace."""
    return len(stage.client.get(stage.path("workloads", "", API))["items"])
