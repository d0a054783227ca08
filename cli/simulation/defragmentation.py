"""`drawbridge simulate --defrag`: which few pods would have to move so that a pod fits.

Moves nothing: prints the plan with the commands that carry it out.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cli.input import codes as input_codes
from cli.input import live_cluster
from cli.input.live_cluster import ClusterReadError
from cli.simulation.input import SimulationInput, read_input
from cli.simulation.preemption import find_evictable
from cli.simulation.schedulers import SimulatedSchedulers, find_schedulers
from cli.terminal import output
from cli.terminal.durations import parse_duration
from cli.terminal.exit_codes import DONE, NOTICE
from cli.terminal.streams import Streams
from drawbridge.cluster import resources
from drawbridge.documents.document import Document, LocatedFinding, has_errors
from drawbridge.ledger import codes
from drawbridge.ledger.defragmentation import (
    ClusterCopy,
    FragmentedCluster,
    MovablePods,
    MovePlan,
    NoPlan,
    plan_moves,
)
from drawbridge.ledger.node_fit import ClusterNodes
from drawbridge.ledger.node_holds import MAX_HOLD_SECONDS, NodeHold
from drawbridge.ledger.placing import Placer
from drawbridge.ledger.planner import Planner
from drawbridge.ledger.pods import Pod
from drawbridge.names import SCHEDULER_NAME
from drawbridge.report.moves import format_plan, hold_for, plan_as_data

if TYPE_CHECKING:
    from drawbridge.cluster.session import Session


def add_options(group: argparse._ArgumentGroup) -> None:
    """Declare the pod, and the hold."""
    group.add_argument(
        "--defrag",
        metavar="POD",
        nargs="?",
        const="",
        help="which few pods would have to move so that this pod (a name, or namespace/name) fits;"
        " without POD, the only one in the input",
    )
    group.add_argument(
        "--hold",
        metavar="DURATION",
        type=_parse_hold,
        help="with --defrag: add commands that hold what the evicted pods release for the pod, for"
        " at most so long (such as 30m; bridge placement only)",
    )


def answer(options: argparse.Namespace, streams: Streams) -> int:
    """Print the plan for one pod: 0 if it fits, now or after the moves, 1 if no moves help."""
    inputs = read_input(options, streams, _read_waiting(options))
    findings = [*inputs.findings]
    pod = _choose_pod(options, inputs, findings)
    if inputs.running is None:
        message = "the pods of the cluster cannot be listed"
        findings.append(LocatedFinding(input_codes.CLUSTER_UNREADABLE.at("", message)))
    plan = hold = None
    if pod is not None and not has_errors(findings):
        plan = plan_for(pod, inputs, findings)
        hold = _hold_for(plan, pod, options, inputs, findings)
    if plan is None or has_errors(findings):
        return output.print_unreadable(findings, options, streams)
    output.print_findings(findings, streams.err)
    data = plan_as_data(plan, hold) | output.findings_as_data(findings)
    output.print_answer(options.output, data, format_plan(plan, hold), streams.out)
    return DONE if isinstance(plan, MovePlan) else NOTICE


def _read_waiting(options: argparse.Namespace) -> Sequence[Document]:
    """Read the pod of a live cluster; raises ClusterReadError."""
    if options.context is None or not options.defrag or options.filename:
        return ()
    namespace, _, name = options.defrag.rpartition("/")

    async def read(session: "Session") -> Sequence[Document]:
        where = namespace or options.namespace or session.namespace
        value = await live_cluster.read_object(session, resources.PODS, name, where)
        if value is None:
            message = f"Pod {name} not found in namespace {where}"
            raise ClusterReadError(input_codes.POD_UNKNOWN.at("", message))
        return live_cluster.as_documents([{"apiVersion": "v1", "kind": "Pod", **value}])

    return live_cluster.run_with_session(options, read)


def _choose_pod(
    options: argparse.Namespace, inputs: SimulationInput, findings: list[LocatedFinding]
) -> Pod | None:
    """Return the pod that the plan is for; of a workload, one of its pods."""
    namespace, _, name = (options.defrag or "").rpartition("/")
    namespace = namespace or options.namespace or ""
    pods = [
        each.pod
        for each in inputs.pods
        if (not name or each.pod.metadata.name == name)
        and (not namespace or each.pod.namespace == namespace)
    ]
    if len(pods) == 1:
        return pods[0]
    message = f"no pod of the input waits{f' in namespace {namespace}' if namespace else ''}"
    if name:
        message = f"{options.defrag} is not among the pods that wait"
    if pods:
        names = ", ".join(each.full_name for each in pods[:10])
        message = f"{len(pods):,} pods wait, and a plan is for one: {names}"
    findings.append(LocatedFinding(input_codes.POD_UNKNOWN.at("", message)))
    return None


def plan_for(
    pod: Pod, inputs: SimulationInput, findings: list[LocatedFinding]
) -> MovePlan | NoPlan:
    """Plan moves for a pod of the input."""
    running, budgets, priorities = find_evictable(inputs, findings)
    pods = {each.full_name: each for each in inputs.running or ()}
    priority = priorities.find(pod)
    movable = MovablePods(running, pods, budgets, priority.value if priority else 0)
    return plan_moves(pod, _Input(inputs), movable)


def _parse_hold(text: str) -> float:
    seconds = parse_duration(text)
    if seconds > MAX_HOLD_SECONDS:
        raise argparse.ArgumentTypeError(f"{text}: a hold lasts 24h at most")
    return seconds


def _hold_for(
    plan: MovePlan | NoPlan,
    pod: Pod,
    options: argparse.Namespace,
    inputs: SimulationInput,
    findings: list[LocatedFinding],
) -> NodeHold | None:
    """Return the hold of what a plan frees, if the command asks for one."""
    if options.hold is None or not isinstance(plan, MovePlan):
        return None
    name, uid = f"Pod/{pod.full_name}", pod.metadata.uid
    if pod.spec.scheduler_name != SCHEDULER_NAME:
        text = f"its scheduler is {pod.spec.scheduler_name or 'not set'}, which holds no devices"
    elif pod.group is not None and pod.group.is_gang:
        text = "devices are held for one pod, and it is a member of a gang"
    elif not uid or not all(move.uid for move in plan.moves):
        text = "it, or a pod that moves, has no UID in the input"
    else:
        until = datetime.fromtimestamp(inputs.now() + options.hold, UTC)
        return hold_for(plan, uid, until.replace(microsecond=0))
    finding = codes.HOLD_IMPOSSIBLE.at("--hold", text, object=name)
    findings.append(LocatedFinding(finding))
    return None


class _Input:
    """The cluster of the input."""

    def __init__(self, inputs: SimulationInput) -> None:
        self._schedulers = find_schedulers(inputs, also_of=inputs.running or ())

    def copy(self) -> ClusterCopy:
        """Return the cluster as it was read."""
        return _Copy(self._schedulers)


class _Copy:
    """A copy of the cluster, which a plan changes."""

    def __init__(self, schedulers: SimulatedSchedulers) -> None:
        self._schedulers = schedulers
        self._placers = schedulers.plain_placers(schedulers.new_placer())

    def world(self, pod: Pod) -> tuple[Planner, ClusterNodes]:
        """Return what the scheduler of a pod sees."""
        return self._schedulers.world_of(self._schedulers.of_pod(pod))

    def placer(self, pod: Pod) -> Placer:
        """Return the placer of the scheduler of a pod."""
        return self._placers[self._schedulers.of_pod(pod)]


_: tuple[type[FragmentedCluster], type[ClusterCopy]] = (_Input, _Copy)
