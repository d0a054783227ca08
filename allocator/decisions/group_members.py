"""The members of a group that ask the same together, and what each gets where they fit."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.group_questions import STAGE, GroupQuestion
from allocator.decisions.node_searches import request_key
from allocator.decisions.quota import QuotaSelection
from allocator.decisions.shortlist import FittingNode, NodeSearch, count_expressions, usable_nodes
from allocator.scheduler.protocol import GroupReference
from allocator.state.cluster_state import AllocatorState
from allocator.state.records import PodRequest
from drawbridge.agreement import allocator_codes as codes
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.ranking import rank_solution
from drawbridge.pod_groups import COSCHEDULING_LABEL
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import GangPlacement, MemberKind
from drawbridge.solver.reasons import Reason

# Each kind of members costs a look at all nodes, and a gang has few: a launcher, and workers.
MAX_KINDS: Final = 16
MAX_EXPRESSIONS: Final = 64


class AskingMember(msgspec.Struct, frozen=True):
    """A member, and the search for it as if nothing were promised to it."""

    request: PodRequest
    search: NodeSearch


class GroupMembers(msgspec.Struct, frozen=True):
    """The members of each kind, and the others.

    Of members that share a claim, the first one asks for it. The others, of which so many follow,
    and those that need no devices, are decided about `alone`. `exceeds` says which quota has no
    room for further members.
    """

    of_kind: Sequence[Sequence[AskingMember]]
    alone: tuple[str, ...]
    following: int = 0
    exceeds: Reason | None = None

    def count_wanted(self, needed: int) -> int:
        """Return how many members of a kind must fit so that so many have devices.

        Without the first member that asks for a shared claim, the others have none.
        """
        least = min(1, needed - len(self.alone) + self.following) if self.following else 0
        return max(needed - len(self.alone), least)

    def count_fitting(self, placed: int) -> int:
        """Return how many members have devices if so many of a kind do."""
        return placed + len(self.alone) - (0 if placed else self.following)

    def find_problem(self, needed: int) -> Reason | None:
        """Return why so many members are not searched for."""
        if self.exceeds is not None and len(self.alone) + sum(map(len, self.of_kind)) < needed:
            return self.exceeds
        return self._find_variety()

    def _find_variety(self) -> Reason | None:
        """Return why a look at all nodes for each kind would take too long, if it would."""
        count = len(self.of_kind)
        expressions = sum(count_expressions(members[0].search) for members in self.of_kind)
        if count > MAX_KINDS:
            text = f"the members of the group ask for {count} different things, at most {MAX_KINDS}"
        elif expressions > MAX_EXPRESSIONS:
            text = (
                f"the members of the group have {expressions} expressions of node affinity "
                f"together, at most {MAX_EXPRESSIONS}"
            )
        else:
            return None
        return make_reason(codes.GANG_TOO_VARIED, STAGE, text)

    def kinds(self, state: AllocatorState) -> list[MemberKind]:
        """Return what the members of each kind ask for, and the nodes that they can use."""
        searches = (min(members, key=_uid_of).search for members in self.of_kind)
        return [
            MemberKind(search.unallocated, len(members), usable_nodes(search, state))
            for members, search in zip(self.of_kind, searches, strict=True)
        ]

    def assign(
        self, placement: GangPlacement, kinds: Sequence[MemberKind]
    ) -> Iterator[tuple[AskingMember, FittingNode]]:
        """Yield the members that have a place, and what each gets."""
        left = [iter(some) for some in self.of_kind]
        for on_node in placement.nodes:
            for waiting, of_members in zip(left, on_node.allocations(kinds), strict=True):
                # The members behind those that are placed stay in the iterator.
                for allocations, member in zip(of_members, waiting, strict=False):
                    solution = Solution(on_node.node, allocations)
                    rank = rank_solution(member.search.unallocated, solution)
                    yield member, FittingNode(on_node.node, rank, solution)


def known_group(question: GroupQuestion, basis: Basis) -> GroupReference:
    """Return a group with what the scheduler did not tell of it.

    The PodGroup of Coscheduling has the minimum if no pod says it. A member can be bound of which
    the scheduler had not heard when it asked: it is not among those that ask, and did not count.
    """
    group = question.group
    bound = basis.state.pods.bound_members_beside(question.members[0])
    scheduled = max(group.scheduled, len(set(bound).difference(question.members)))
    namespace, _, name = group.key.partition(f"/{COSCHEDULING_LABEL}=")
    says_minimum = group.min_count or not name
    minimum = group.min_count if says_minimum else basis.around.min_member(namespace, name)
    return replace(group, min_count=minimum, scheduled=scheduled)


def find_members(uids: Collection[str], basis: Basis) -> Generator[None, None, GroupMembers]:
    """Find the members that can use their claims, whatever is promised to them.

    They have room together in the quotas of their namespace. Each member is a step.
    """
    promised, requests = basis.reserved.promised_claims(uids), basis.requests
    quotas, asking = QuotaSelection(basis.state), list[AskingMember]()
    for uid in uids:
        request = requests.find(uid)
        if request is not None and not requests.find_problem(request):
            search = requests.search(request).as_unallocated(promised)
            if quotas.admits(search):
                asking.append(AskingMember(request, search))
        yield
    users = _users_of_claims(asking)
    of_kind = yield from _alike(asking, users)
    together = frozenset(map(_uid_of, chain.from_iterable(of_kind)))
    alone = [each for each in asking if _uid_of(each) not in together]
    following = sum(_follows(each, users, together) for each in alone)
    return GroupMembers(of_kind, tuple(map(_uid_of, alone)), following, quotas.reason)


def _users_of_claims(members: Iterable[AskingMember]) -> Mapping[str, list[str]]:
    """Return the members that use each claim, in an order that does not depend on who asks."""
    users: dict[str, list[str]] = {}
    for member in sorted(members, key=_uid_of):
        for claim in member.request.claims:
            users.setdefault(claim, []).append(_uid_of(member))
    return users


def _alike(
    members: Sequence[AskingMember], users: Mapping[str, Sequence[str]]
) -> Generator[None, None, list[list[AskingMember]]]:
    """Return the members that ask the same; those for whom others wait get a place first."""
    alike: dict[bytes, list[AskingMember]] = {}
    for member in members:
        claims = member.request.claims
        if member.search.unallocated and all(users[uid][0] == _uid_of(member) for uid in claims):
            of_kind = alike.setdefault(request_key(member.search), [])
            is_first = any(len(users[uid]) > 1 for uid in claims)
            of_kind.insert(0 if is_first else len(of_kind), member)
        yield
    # The question does not depend on the member that the scheduler asks about.
    return [alike[key] for key in sorted(alike)]


def _follows(
    member: AskingMember, users: Mapping[str, Sequence[str]], together: Collection[str]
) -> bool:
    """Whether a member gets a claim with the first one that shares it."""
    claims = map(uid_of, member.search.unallocated)
    return any(users[uid][0] in together for uid in claims)


def _uid_of(member: AskingMember) -> str:
    return member.request.pod.uid
