"""Finds where the members of a group fit, by its choices of members and the uses of devices."""

import itertools

from allocator.decisions.group_members import GroupMembers, MemberPlaces
from allocator.decisions.group_searches import GroupDecision
from allocator.decisions.member_nodes import MemberNodes
from allocator.state.cluster_state import AllocatorState
from drawbridge.solver.gangs import Steps, placing


def find_places(
    own: GroupDecision, members: GroupMembers, state: AllocatorState
) -> Steps[MemberPlaces]:
    """Find where members fit, in the first use of devices in which enough do.

    If too few fit, the other choices of members are tried.
    """
    nodes = MemberNodes(state)
    for choice in members.list_choices(own.needed):
        kinds, wanted = choice.kinds(nodes), choice.count_wanted(own.needed)
        for own.use in itertools.count():
            places = MemberPlaces(choice, kinds, (yield from placing(kinds)), wanted)
            if not places.lacking or not own.has_other_use():
                break
        if not places.lacking:
            break
    return places
