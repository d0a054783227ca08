"""Shows a plan to move pods: as text, as data, and as commands that an administrator runs.

Tenants write names and labels, so every one of them is quoted for the shell.
"""

import json
import shlex
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from drawbridge.dra.allocation import Allocation, to_json
from drawbridge.dra.counted import count_noun
from drawbridge.ledger.defragmentation import Move, MovePlan, NoPlan
from drawbridge.ledger.node_holds import NodeHold, write_node_hold
from drawbridge.names import HOLD_ANNOTATION
from drawbridge.report.tables import align_columns

_TIMEOUT: Final = "--timeout=10m"
# The API server copies these labels from the node at binding, so the next pod has others.
_OF_BINDING: Final = ("topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/")
_NOT_CHECKED: Final = (
    "Note: the plan checks devices, CPU, memory, node selectors and taints. It ignores rules about"
    " other pods, volumes and host ports, which only the scheduler checks."
)


def format_plan(plan: MovePlan | NoPlan, hold: NodeHold | None = None) -> Iterator[str]:
    """Format a plan with its commands, or why there is none."""
    if isinstance(plan, NoPlan):
        yield f"{plan.pod}: no moves make it fit"
        yield from (f"  {reason}" for reason in plan.reasons)
        return
    if not plan.moves:
        yield f"{plan.pod}: fits on {plan.node} now, no pod has to move"
        return
    pods = count_noun(len(plan.moves), "pod")
    yield f"{plan.pod}: fits on {plan.node} after {pods} moved"
    rows = [_row(move) for move in plan.moves]
    yield from (f"  {line}" for line in align_columns(rows))
    if plan.proven:
        yield "No smaller set of pods is enough."
    else:
        yield "Every one of them is needed; the search ended before it tried all smaller sets."
    yield _NOT_CHECKED
    yield ""
    yield "Commands:"
    yield from (f"  {command}" for command in list_commands(plan, hold))


def _row(move: Move) -> tuple[str, ...]:
    devices = ", ".join(
        f"{result.driver}/{result.pool}/{result.device}"
        for _, allocation in move.claims
        if allocation is not None
        for result in allocation.devices.results
    )
    where = f"from {move.from_node} to {move.to_node}"
    return (f"{move.namespace}/{move.pod}", f"of a {move.owner}", where, devices)


def hold_for(plan: MovePlan, pod_uid: str, until: datetime) -> NodeHold:
    """Return the hold of what a plan frees."""
    return NodeHold(plan.pod, pod_uid, until, tuple(move.uid for move in plan.moves))


def list_commands(plan: MovePlan, hold: NodeHold | None = None) -> Iterator[str]:
    """Yield the commands in order. Evictions obey PodDisruptionBudgets whatever the plan knew.

    With a hold, nobody but the pod gets what they free, from the first eviction to its start.
    """
    if not plan.moves:
        return
    node = shlex.quote(plan.node)
    # A pod that finds its new place on the same node could not start on a cordoned one.
    cordons = all(move.to_node != plan.node for move in plan.moves)
    if hold is not None:
        annotation = shlex.quote(f"{HOLD_ANNOTATION}={write_node_hold(hold)}")
        yield f"kubectl annotate node {node} {annotation}"
    if cordons:
        yield f"kubectl cordon {node}"
    yield from map(_evict, plan.moves)
    yield from map(_wait_for_end, plan.moves)
    yield from dict.fromkeys(filter(None, map(_wait_for_place, plan.moves)))
    if cordons:
        yield f"kubectl uncordon {node}"
    if hold is not None:
        space, _, name = plan.pod.partition("/")
        pod = shlex.quote(f"pod/{name}")
        scheduled = "--for=condition=PodScheduled"
        yield f"kubectl -n {shlex.quote(space)} wait {scheduled} {pod} {_TIMEOUT}"
        yield f"kubectl annotate node {node} {HOLD_ANNOTATION}-"


def _evict(move: Move) -> str:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": move.pod, "namespace": move.namespace},
    }
    text = shlex.quote(json.dumps(eviction, separators=(",", ":")))
    path = f"/api/v1/namespaces/{move.namespace}/pods/{move.pod}/eviction"
    return f"echo {text} | kubectl create --raw {shlex.quote(path)} -f -"


def _wait_for_end(move: Move) -> str:
    space, name = shlex.quote(move.namespace), shlex.quote(f"pod/{move.pod}")
    return f"kubectl -n {space} wait --for=delete {name} {_TIMEOUT}"


def _wait_for_place(move: Move) -> str:
    """Return the command that waits until the new pod has a node, if labels select it."""
    if not move.labels:
        return ""
    space = shlex.quote(move.namespace)
    if move.owner == "StatefulSet":
        # Its pod has the same name, and is created when the other one has ended.
        pod = shlex.quote(f"pod/{move.pod}")
        scheduled = f"kubectl -n {space} wait --for=condition=PodScheduled {pod} {_TIMEOUT}"
        return f"kubectl -n {space} wait --for=create {pod} {_TIMEOUT} && {scheduled}"
    labels = ",".join(
        f"{key}={text}"
        for key, text in sorted(move.labels.items())
        if not key.startswith(_OF_BINDING)
    )
    selected = shlex.quote(labels)
    if not labels:
        return ""
    return f"kubectl -n {space} wait --for=condition=PodScheduled pods -l {selected} {_TIMEOUT}"


def plan_as_data(plan: MovePlan | NoPlan, hold: NodeHold | None = None) -> dict[str, Any]:
    """Return a plan for JSON and YAML; `node` is null without one."""
    if isinstance(plan, NoPlan):
        return {"pod": plan.pod, "node": None, "reasons": list(plan.reasons)}
    return {
        "pod": plan.pod,
        "node": plan.node,
        "claims": _claims(plan.claims),
        "moves": [_describe(move) for move in plan.moves],
        "proven": plan.proven,
        "commands": list(list_commands(plan, hold)),
    }


def _describe(move: Move) -> dict[str, Any]:
    return {
        "pod": f"{move.namespace}/{move.pod}",
        "owner": move.owner,
        "from": move.from_node,
        "to": move.to_node,
        "claims": _claims(move.claims),
    }


def _claims(claims: Iterable[tuple[str, Allocation | None]]) -> list[dict[str, Any]]:
    return [
        {"claim": name, "allocation": None if allocation is None else to_json(allocation)}
        for name, allocation in claims
    ]
