"""What must hold of preemptions: as few pods as possible go, and budgets are violated last."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tests.cluster.fake.kinds import JSON
from tests.world.fitting import Need, fit_together
from tests.world.gangs import gang_of
from tests.world.nodes import count_held
from tests.world.objects import NODES
from tests.world.preemptions import Answered
from tests.world.team_quota import EVERYTHING
from tests.world.waiting_pods import has_claims, is_waiting, list_needs, name_of, namespace_of

if TYPE_CHECKING:
    from tests.world.world import World


def a_preemption_spares_whom_it_can(world: "World") -> Iterator[str]:
    """Each victim is needed, and one that a budget protects goes only where no other is enough.

    That is judged for who has no devices, and whom no quota limits; of a gang, whether it violates
    a budget. What violates one is counted in any case.
    """
    for pair in world.pairs.values():
        evictions = pair.scheduler.evictions
        answers, evictions.answered = evictions.answered, []
        for answered in answers:
            yield from _compare_violations(answered)
            yield from _judge(world, answered)


def _compare_violations(answered: Answered) -> Iterator[str]:
    """Yield what an allocator says of the budgets that it violates, if it is something else."""
    reply = answered.reply
    chosen = {*reply.victims, *(uid for each in reply.evictions for uid in each.victims)}
    if reply.violations != len(chosen & answered.violating):
        yield (
            f"{name_of(answered.pod)} evicts {sorted(chosen)}: {reply.violations} violations, and"
            f" {sorted(answered.violating)} are protected"
        )


def _judge(world: "World", answered: Answered) -> Iterator[str]:
    pod, reply = answered.pod, answered.reply
    if namespace_of(pod) in world.spaces.limited or not _can_run(world, pod):
        return
    if reply.evictions:
        yield from _judge_gang(world, answered)
    elif gang_of(pod) is None:
        yield from _judge_alone(world, answered)


def _judge_alone(world: "World", answered: Answered) -> Iterator[str]:
    reply, name = answered.reply, name_of(answered.pod)
    needs, chosen = list_needs(world, [answered.pod]), {*reply.victims}
    if any(node for _, node in needs) or not any(asks for asks, _ in needs):
        return
    for victim in sorted(chosen):
        world.network.count("victim that is judged")
        if _fits(answered, needs, [reply.node], chosen - {victim}):
            yield f"{name} evicts {victim} and can have devices of {reply.node} without that"
    if answered.was_cut or not chosen & answered.violating:
        return
    world.network.count("violation of a budget that is judged")
    for node in answered.request.nodes or ():
        if _fits(answered, needs, [node.node], answered.find_unprotected([node.node])):
            yield f"{name} violates a budget on {reply.node}, and {node.node} has other victims"


def _judge_gang(world: "World", answered: Answered) -> Iterator[str]:
    """Judge a gang that evicts who is protected, by the nodes of its victims and all members."""
    nodes = [each.node for each in answered.reply.evictions]
    chosen = {uid for each in answered.reply.evictions for uid in each.victims}
    gang = gang_of(answered.pod)
    members = [pod for pod in world.all("pods") if gang_of(pod) == gang and is_waiting(pod)]
    is_judged = members and all(_can_run(world, pod) for pod in members)
    if answered.was_cut or not is_judged or not chosen & answered.violating:
        return
    world.network.count("violation of a budget by a gang that is judged")
    needs = list_needs(world, members)
    if _fits(answered, needs, nodes, answered.find_unprotected(nodes)):
        yield f"{gang} violates a budget on {', '.join(nodes)}, which have enough other victims"


def _can_run(world: "World", pod: JSON) -> bool:
    return has_claims(world, pod) and not world.large.may_wait(pod)


def _fits(
    answered: Answered, needs: Sequence[Need], nodes: Collection[str], gone: Collection[str]
) -> bool:
    """Whether pods fit on nodes if some others, which alone use their claims, are gone."""
    left = [
        hold
        for each in answered.held.values()
        if not each.consumers or each.consumers.difference(gone)
        for hold in each.holds
    ]
    always_ours = [name for name in nodes if name in NODES]
    return fit_together(always_ours, count_held([*left, *answered.unknown]), needs, EVERYTHING)
