"""Writes allocations by hand, as a broken or hostile allocator could.

Creates a pod for a scheduler that does not exist, allocates its claims as the scenario says, and
binds it. The node side must detect the violation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.controlplane.client import ApiError
from e2e.scenarios.objects import JSON, allocation, claim_spec, request, result
from e2e.scenarios.stage import CONFLICT, Stage

NOBODY = "nobody"
FINALIZER = "resource.kubernetes.io/delete-protection"


@dataclass(frozen=True)
class Forgery:
    """One claim with an invalid allocation."""

    node: str
    results: tuple[JSON, ...]
    config: tuple[JSON, ...] = ()


def device(driver: str, pool: str, name: str, **more: Any) -> JSON:  # noqa: ANN401  # JSON
    """Return one result for the request `gpu`."""
    return result(driver, pool, name, **more)


def bind(stage: Stage, pod: str, node: str) -> None:
    """Bind a pod as a scheduler would."""
    body = {"target": {"apiVersion": "v1", "kind": "Node", "name": node}, "metadata": {"name": pod}}
    stage.client.create(f"{stage.pod_path(pod)}/binding", body)


def allocate(stage: Stage, claim: str, forgery: Forgery, users: Iterable[JSON] = ()) -> JSON:
    """Write finalizer, allocation and reservation of a claim."""
    path = stage.claim_path(claim)
    stage.wait("the finalizer is written", lambda: _finalize(stage, claim))
    reserved = [_consumer(user) for user in users]
    status = {
        "allocation": allocation(forgery.node, forgery.results, forgery.config),
        **({"reservedFor": reserved} if reserved else {}),
    }
    return stage.client.patch(f"{path}/status", {"status": status})


def _finalize(stage: Stage, claim: str) -> bool:
    """Write the finalizer as an allocator does: the whole claim, unless it changed meanwhile."""
    body = stage.get_claim(claim)
    body["metadata"]["finalizers"] = [FINALIZER]
    try:
        stage.client.replace(stage.claim_path(claim), body)
    except ApiError as problem:
        if problem.code != CONFLICT:
            raise
        return False
    return True


def _consumer(user: JSON) -> JSON:
    """Return the entry of a pod; anything else is an entry already."""
    if "metadata" not in user:
        return user
    return {"resource": "pods", "name": user["metadata"]["name"], "uid": user["metadata"]["uid"]}


def play(stage: Stage, name: str, forgery: Forgery) -> JSON:
    """Create a pod and a claim of this name with the allocation, and bind the pod."""
    spec = claim_spec(request("gpu", forgery.results[0]["driver"]), config=forgery.config)
    stage.claim(name, spec)
    pod = stage.pod(name, claims={"gpu": name}, schedulerName=NOBODY)
    allocate(stage, name, forgery, [pod])
    bind(stage, name, forgery.node)
    return pod


def tripped(stage: Stage, subject: str) -> Sequence[str]:
    """Wait for violations that name a claim or pod of the stage, and return their codes."""

    def codes() -> list[str]:
        violations = stage.fleet.record.violations()
        return sorted(
            {
                one.code
                for one in violations
                if f"{stage.namespace}/{subject}" in one.subject.split()
            }
        )

    return stage.wait(f"a violation of {subject}", codes)
