"""What must hold of preemptions: as few pods as possible go, and budgets are violated last."""

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tests.world.fitting import Need, fit_together
from tests.world.gangs import gang_of
from tests.world.nodes import count_held
from tests.world.preemptions import Answered
from tests.world.team_quota import EVERYTHING
from tests.world.waiting_pods import has_claims, list_needs, name_of, namespace_of

if TYPE_CHECKING:
    from tests.world.world import World


def a_preemption_spares_whom_it_can(world: "World") -> Iterator[str]:
    """Each victim is needed, and one that a budget protects goes only where no other is enough.

    That is judged without faults, for a pod alone that has no devices, and that no quota limits.
    What violates a budget is counted in any case.
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
    pod, reply, name = answered.pod, answered.reply, name_of(answered.pod)
    is_other = (
        gang_of(pod) is not None or namespace_of(pod) in world.spaces.limited or reply.evictions
    )
    if is_other or not has_claims(world, pod) or world.large.may_wait(pod):
        return
    needs, chosen = list_needs(world, [pod]), {*reply.victims}
    if any(node for _, node in needs) or not any(asks for asks, _ in needs):
        return
    for victim in sorted(chosen) if reply.node in answered.whole else ():
        world.network.count("victim that is judged")
        if _fits(answered, needs, reply.node, chosen - {victim}):
            yield f"{name} evicts {victim} and can have devices of {reply.node} without that"
    if not chosen & answered.violating:
        return
    world.network.count("violation of a budget that is judged")
    for node in answered.request.nodes or ():
        others = {each.uid for each in node.pods or () if not each.violates}
        if node.node in answered.whole and _fits(answered, needs, node.node, others):
            yield f"{name} violates a budget on {reply.node}, and {node.node} has other victims"


def _fits(answered: Answered, needs: Sequence[Need], node: str, gone: Collection[str]) -> bool:
    """Whether a pod fits on a node if some pods, which alone use their claims, are gone."""
    left = (
        hold
        for each in answered.held.values()
        if not each.consumers or each.consumers.difference(gone)
        for hold in each.holds
    )
    return fit_together([node], count_held(left), needs, EVERYTHING)
