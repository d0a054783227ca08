"""Simulates the gangs of the input: all members are placed when the turn of the first one comes.

A gang whose object is not in the input needs all of its members.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from cli.simulation.input import PodsToPlace, SimulationInput
from drawbridge.documents.document import LocatedFinding
from drawbridge.ledger import codes
from drawbridge.ledger.gang_placing import Gang, place_members, without_node
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.placing import Placer, PodPlacement
from drawbridge.ledger.pods import Pod
from drawbridge.ledger.preemption import PreemptingPlacer
from drawbridge.ledger.replicas import MAX_PLACED, PodPlacer
from drawbridge.pod_groups import GroupPolicy, Member, PodGroup, read_policies
from drawbridge.solver.deviations import Allocator
from drawbridge.translate.changes.codes import GANG_SPLIT
from drawbridge.translate.changes.group_members import report_split_gangs
from drawbridge.translate.changes.scheduler import DEFAULT, OURS


class GangPlacer:
    """Places the members of one gang together at the first call."""

    def __init__(self, place: Callable[[], Sequence[PodPlacement]]) -> None:
        self._place = place
        self._placed: dict[str, PodPlacement] = {}

    def place_pod(self, pod: Pod) -> PodPlacement:
        """Return the placement of a member."""
        if not self._placed:
            self._placed = {f"{each.pod}": each for each in self._place()}
        return self._placed[pod.full_name]


def has_gangs(inputs: SimulationInput) -> bool:
    """Whether any pod is a member of a gang."""
    return bool(_find_gangs(inputs))


def place_gangs(
    inputs: SimulationInput,
    placers: Mapping[Allocator, PodPlacer],
    choose: Callable[[Pod], Allocator],
    findings: list[LocatedFinding],
) -> dict[int, PodPlacer]:
    """Return the placer of each gang by the identity of its pods in the input.

    Adds findings about gangs with several schedulers, which place none of their members.
    """
    placer_of: dict[int, PodPlacer] = {}
    policies = read_policies(each.value for each in inputs.objects.others)
    for group, several in _find_gangs(inputs).items():
        gang = _make_gang(group, several, inputs, policies.get(group.policy))
        if gang is None:
            continue
        split = [finding for _, finding in report_split_gangs(_list_members(several, choose))]
        about = (replace(each, object=several[-1].object) for each in split)
        findings += inputs.objects.located(about)
        allocator = choose(several[0].pod)
        placer = _plain(placers[allocator])
        together = allocator is Allocator.DRAWBRIDGE
        shared = GangPlacer(_placing(gang, placer, together=together, split=bool(split)))
        placer_of |= {id(each): shared for each in several}
    return placer_of


def _placing(
    gang: Gang, placer: Placer, *, together: bool, split: bool
) -> Callable[[], Sequence[PodPlacement]]:
    if split:
        reason = make_reason(GANG_SPLIT, "gang", f"{gang.group} has several schedulers")
        return lambda: without_node(gang, reason)
    if len(gang.members) < gang.least:
        text = f"{gang.group} needs {gang.least} members together, and {len(gang.members)} wait"
        reason = make_reason(codes.GANG_NOT_PLACED, "gang", text)
        return lambda: without_node(gang, reason)
    return lambda: place_members(gang, placer, together=together)


def _find_gangs(inputs: SimulationInput) -> dict[PodGroup, list[PodsToPlace]]:
    gangs: dict[PodGroup, list[PodsToPlace]] = {}
    for pod in inputs.pods:
        group = pod.pod.group
        if group is not None and group.is_gang and not pod.pods.on_each_node:
            gangs.setdefault(group, []).append(pod)
    return gangs


def _make_gang(
    group: PodGroup,
    several: Sequence[PodsToPlace],
    inputs: SimulationInput,
    policy: GroupPolicy | None,
) -> Gang | None:
    """Return a gang with the members that run counted; None if each pod is scheduled alone."""
    if policy is not None and not policy.min_count:
        return None
    members = tuple(pod for each in several for pod in islice(each.list_pods(), MAX_PLACED))
    running = sum(each.group == group for each in inputs.running or ())
    least = max(0, policy.min_count - running) if policy else len(members)
    return Gang(group, members, least)


def _list_members(
    several: Sequence[PodsToPlace], choose: Callable[[Pod], Allocator]
) -> Iterator[Member]:
    for to_place in several:
        ours = choose(to_place.pod) is Allocator.DRAWBRIDGE
        scheduler = OURS if ours else to_place.pod.spec.scheduler_name or DEFAULT
        if to_place.pod.group is not None:
            yield Member(to_place.pod.group, to_place.object, scheduler)


def _plain(placer: PodPlacer) -> Placer:
    """Return the placer without preemption: no pod is evicted for a single member of a gang."""
    if isinstance(placer, PreemptingPlacer):
        return placer.without_preemption
    if not isinstance(placer, Placer):
        raise TypeError(f"{type(placer).__name__} places no gangs")
    return placer
