"""Shows the filters for a pod stage by stage: what each of them got and what it left."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from drawbridge.dra.counted import count_noun
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.stages import FilteredCluster, NodeStage, PodStages, filter_by_stage
from drawbridge.report.tables import align_columns
from drawbridge.solver.stage_counts import RequestStages

_MOST_MESSAGES: Final = 3


class StagesOfPods:
    """The stages of each pod at the moment at which it is placed."""

    def __init__(self, cluster_of: Callable[[Pod], FilteredCluster]) -> None:
        self._cluster_of = cluster_of
        self._stages: dict[str, PodStages] = {}

    def add(self, pod: Pod) -> None:
        """Filter the nodes as they are now."""
        done = filter_by_stage(pod, self._cluster_of(pod))
        self._stages[done.pod] = done

    def replace(self, first: Pod, pod: Pod) -> None:
        """Filter for another pod of the same template instead of the first one."""
        self._stages.pop(first.full_name, None)
        self.add(pod)

    @property
    def stages(self) -> tuple[PodStages, ...]:
        """The stages of all pods, in their order."""
        return tuple(self._stages.values())


def format_stages(several: Iterable[PodStages]) -> Iterator[str]:
    """Format the filters of each pod as tables."""
    for stages in several:
        yield ""
        yield f"{stages.pod}: filters of nodes"
        rows = [("filter", "in", "out", "rejected"), *map(_node_row, stages.nodes)]
        yield from (f"  {line}" for line in align_columns(rows))
        for request in stages.requests:
            yield f"  {_heading(request)}"
            rows = [("filter", "in", "out", "enough"), *_device_rows(request)]
            yield from (f"    {line}" for line in align_columns(rows))


def format_answer(stages: object) -> Iterator[str]:
    """Format the stages that the API of the allocator told."""
    yield from format_stages((msgspec.convert(stages, PodStages),))


def _node_row(stage: NodeStage) -> tuple[str, ...]:
    shown = "; ".join(stage.messages[:_MOST_MESSAGES])
    more = len(stage.messages) - _MOST_MESSAGES
    others = f"; and {count_noun(more, 'more reason')}" if more > 0 else ""
    return (stage.name, f"{stage.before:,}", f"{stage.after:,}", f"{shown}{others}")


def _heading(request: RequestStages) -> str:
    count = "all" if not request.count else f"{request.count:,}"
    asked = f"{count} of class {request.device_class}"
    return f"devices for request {request.request} of claim {request.claim} ({asked})"


def _device_rows(request: RequestStages) -> Iterator[tuple[str, ...]]:
    for stage in request.stages:
        enough = f"on {count_noun(stage.nodes, 'node')}"
        yield (stage.name, f"{stage.before:,}", f"{stage.after:,}", enough)


def stages_as_data(several: Iterable[PodStages]) -> list[object]:
    """Return the stages for JSON and YAML."""
    return [msgspec.to_builtins(each) for each in several]
