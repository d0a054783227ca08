"""When every replica of the webhook serves the guard."""

from typing import Any

from drawbridge.agreement.guard_rollout import serves_guard
from tests.tables import every_row


def deployment(
    served: str | None = "guard", *, observed: int = 3, replicas: int = 2, **status: int
) -> dict[str, Any]:
    annotations = {"annotations": {"drawbridge.dev/serves": served}} if served is not None else {}
    counts = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas}
    return {
        "metadata": {"name": "drawbridge-webhook", "generation": 3},
        "spec": {"replicas": replicas, "template": {"metadata": annotations}},
        "status": {"observedGeneration": observed, **counts, **status},
    }


CASES: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "rolled out": (deployment(), True),
    "one replica": (deployment(replicas=1), True),
    "no Deployment": (None, False),
    "an older version": (deployment(None), False),
    "another annotation value": (deployment("workloads"), False),
    "a new version that is not observed yet": (deployment(observed=2), False),
    "an old replica is left": (deployment(updatedReplicas=1), False),
    "an additional old replica": (deployment(replicas=2, updatedReplicas=2) | {
        "status": {"observedGeneration": 3, "replicas": 3, "updatedReplicas": 2,
                   "readyReplicas": 3}}, False),
    "a new replica is not ready": (deployment(readyReplicas=1), True),
    "no replica is ready": (deployment(readyReplicas=0), False),
    "an old replica beside a new one that is not ready": (
        deployment(updatedReplicas=1, readyReplicas=1), False),
    "scaled to zero": (deployment(replicas=0), False),
    "without a status": ({"metadata": {"generation": 1}}, False),
}  # fmt: skip


@every_row("case", CASES.values(), ids=CASES)
def test_the_guard_is_served_by_every_replica(case: tuple[dict[str, Any] | None, bool]) -> None:
    webhooks, served = case
    assert serves_guard(webhooks) is served
