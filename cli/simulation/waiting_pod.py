"""Simulates where a pod of a live cluster that waits could go now, for `drawbridge explain`."""

import argparse
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from cli.input.live_cluster import ClusterReadError, as_documents
from cli.simulation.input import read_input
from cli.simulation.placements import (
    DEVICES_NOTE,
    format_rating,
    format_reasons,
    rating_as_data,
)
from cli.simulation.stages import format_stages, stages_as_data
from cli.terminal.cluster_options import CURRENT
from cli.terminal.streams import Streams
from drawbridge.documents.values import Value, as_mapping
from drawbridge.dra.counted import count_noun
from drawbridge.finding import Severity
from drawbridge.ledger.placing import PodPlacement
from drawbridge.ledger.stages import PodStages

_MAX_REASONS: Final = 10


class WaitingPod(NamedTuple):
    """The placement by the allocator of the pod's scheduler, or why there is none."""

    placement: PodPlacement | None = None
    allocator: str = ""
    not_simulated: str = ""
    stages: tuple[PodStages, ...] = ()


def simulate_waiting(options: argparse.Namespace, pod: Value, streams: Streams) -> WaitingPod:
    """Place the pod alone, with what the claims of the cluster leave."""
    from cli.simulation.placing import simulate  # noqa: PLC0415  # loads the CEL engine

    chosen = argparse.Namespace(
        context=CURRENT if options.context is None else options.context,
        kubeconfig=options.kubeconfig,
        config=options.config,
        cluster=[],
        filename=[],
        node=None,
        preempt=False,
        pods=False,
        allocator_url=None,
        kubernetes_version=None,
        feature_gates="",
    )
    value = {"apiVersion": "v1", "kind": "Pod", **as_mapping(pod)}
    try:
        inputs = read_input(chosen, streams, as_documents([value]))
    except ClusterReadError as error:
        return WaitingPod(not_simulated=error.finding.message)
    errors = [e.finding for e in inputs.findings if e.finding.severity is Severity.ERROR]
    if errors or not inputs.pods:
        text = "; ".join(each.message for each in errors) or "the pod has ended"
        return WaitingPod(not_simulated=text)
    simulation = simulate(inputs, by_stage=options.stages)
    (placement,) = simulation.placements
    allocator = simulation.allocators[-1].value
    return WaitingPod(placement, allocator, stages=simulation.stages)


def format_waiting(waiting: WaitingPod) -> Iterator[str]:
    """Format the nodes that have the devices, or the reasons of those that do not."""
    placement = waiting.placement
    yield from format_stages(waiting.stages)
    if placement is None:
        yield f"  simulation: not possible: {waiting.not_simulated}"
    elif placement.node is not None:
        yield f"  simulation: the devices are free on {placement.node} ({waiting.allocator})"
        if placement.rating is not None:
            yield f"    {format_rating(placement.rating)}"
        yield f"    {DEVICES_NOTE}"
    else:
        yield f"  simulation: no node can take the pod ({waiting.allocator})"
        yield from format_reasons(placement.reasons[:_MAX_REASONS], "    ")
        if (more := len(placement.reasons) - _MAX_REASONS) > 0:
            yield f"    and {count_noun(more, 'more reason')}"


def waiting_as_data(waiting: WaitingPod) -> dict[str, object]:
    """Return the fields for JSON and YAML."""
    placement = waiting.placement
    if placement is None:
        return {"notSimulated": waiting.not_simulated}
    reasons = [msgspec.to_builtins(each) for each in placement.reasons]
    result: dict[str, object]
    result = {"allocator": waiting.allocator, "node": placement.node, "reasons": reasons}
    if placement.rating is not None:
        result["rating"] = rating_as_data(placement.rating)
    if waiting.stages:
        result["stages"] = stages_as_data(waiting.stages)[0]
    return {"simulation": result}
