"""The members of a group that ask the same or share claims, and what each gets where they fit."""

from collections import Counter
from collections.abc import Collection, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain, islice, pairwise
from typing import Final

import msgspec
from msgspec.structs import replace

from allocator.decisions.basis import Basis
from allocator.decisions.group_questions import STAGE, GroupQuestion
from allocator.decisions.group_searches import run_to_end
from allocator.decisions.member_nodes import MAX_KINDS, MemberNodes
from allocator.decisions.node_searches import request_key
from allocator.decisions.quota import QuotaSelection
from allocator.decisions.shortlist import FittingNode, NodeSearch
from allocator.scheduler.protocol import GroupReference
from allocator.state.awaited_claims import find_awaited
from allocator.state.cluster_state import AllocatorState
from allocator.state.records import PodRequest, consumer_of
from drawbridge.agreement import allocator_codes as codes
from drawbridge.dra.allocation import MAX_CONSUMERS, Allocation
from drawbridge.dra.claim import Claim
from drawbridge.ledger.ledger import name_of, uid_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.ranking import rank_solution
from drawbridge.pod_groups import COSCHEDULING_LABEL
from drawbridge.solver.answers import Solution
from drawbridge.solver.gangs import GangPlacement, MemberKind
from drawbridge.solver.reasons import Reason

# Of few members, so few different ones are left out in all ways: in so many at most, of more that
# are found and that can be the same.
_MOST_MEMBERS: Final = 512
_FEW_KINDS: Final = 16
_MOST_CHOICES: Final = 32
_MOST_WAYS: Final = 1024
_SETS_PER_STEP: Final = 64


class AskingMember(msgspec.Struct, frozen=True):
    """A member, and the search for it as if nothing were promised to it.

    Members with the same `key` ask the same.
    """

    request: PodRequest
    search: NodeSearch
    key: bytes

    @property
    def uid(self) -> str:
        """The UID of the pod."""
        return self.request.pod.uid


class MemberSet(msgspec.Struct, frozen=True, dict=True):  # for the cached properties
    """Members that need one node, because they share claims without devices; often it is one.

    What they share has devices once, and pools are local to nodes.
    """

    members: tuple[AskingMember, ...]

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims that need devices, each once."""
        claims: dict[str, Claim] = {}
        for claim in chain.from_iterable(each.search.unallocated for each in self.members):
            # A quota can leave a member fewer alternatives of what it shares.
            uid = uid_of(claim)
            other = claims.get(uid)
            if other is None:
                claims[uid] = claim
            elif other is not claim:
                claims[uid] = min(other, claim, key=_count_choices)
        return tuple(claims.values())

    @cached_property
    def key(self) -> tuple[tuple[bytes, ...], tuple[int, ...]]:
        """What is equal for sets that ask the same, and share it in the same way."""
        places = {uid_of(claim): place for place, claim in enumerate(self.claims)}
        named = (uid_of(claim) for each in self.members for claim in each.search.unallocated)
        return tuple(each.key for each in self.members), tuple(places[uid] for uid in named)

    @property
    def searches(self) -> Collection[NodeSearch]:
        """The searches of members that ask for different things."""
        return {each.key: each.search for each in self.members}.values()

    def usable_nodes(self, nodes: MemberNodes) -> Collection[str]:
        """Return the nodes that all members can use."""
        of_key = {each.key: each.search for each in self.members}
        first, *others = (nodes.usable(key, search) for key, search in of_key.items())
        common = frozenset(first).intersection(*others)
        return [name for name in first if name in common] if others else first

    def without_spare(self, spare: int, like: bytes | None = None) -> "MemberSet":
        """Return at least one member, without up to `spare` of those that do not only share.

        With a key, those `like` it are left out, and no others.
        """
        users = Counter(uid_of(claim) for each in self.members for claim in each.search.unallocated)
        spared = [
            each
            for each in self.members
            if (
                any(users[uid_of(claim)] == 1 for claim in each.search.unallocated)
                if like is None
                else each.key == like
            )
        ]
        count = min(spare, len(spared), len(self.members) - 1)
        left_out = {each.uid for each in spared[len(spared) - count :]}
        return MemberSet(tuple(each for each in self.members if each.uid not in left_out))

    def parts(self) -> list[list[AskingMember]]:
        """Return the members by what they ask for and what claims they share with others."""
        users = Counter(uid_of(claim) for each in self.members for claim in each.search.unallocated)
        alike: dict[tuple[bytes, frozenset[str]], list[AskingMember]] = {}
        for member in self.members:
            uids = map(uid_of, member.search.unallocated)
            shared = frozenset(uid for uid in uids if users[uid] > 1)
            alike.setdefault((member.key, shared), []).append(member)
        return [*alike.values()]

    def fit(
        self, node: str, allocations: Sequence[Allocation]
    ) -> Iterator[tuple[AskingMember, FittingNode]]:
        """Yield what each member gets on a node; what they share, each of them has."""
        given = dict(zip(map(uid_of, self.claims), allocations, strict=True))
        for member in self.members:
            claims = member.search.unallocated
            solution = Solution(node, tuple(given[uid_of(claim)] for claim in claims))
            yield member, FittingNode(node, rank_solution(claims, solution), solution)


class GroupMembers(msgspec.Struct, frozen=True):
    """The members that need devices, in sets that ask the same, and the others.

    Those that need none are decided about `alone`. `exceeds` says which quota or claim has no room
    for further members. `others` have room in their place; those that ask for the `foremost` thing
    come first there.
    """

    of_kind: Sequence[Sequence[MemberSet]]
    alone: tuple[str, ...]
    exceeds: Reason | None = None
    others: tuple["GroupMembers", ...] = ()
    foremost: bytes | None = None

    def __len__(self) -> int:
        sets = chain.from_iterable(self.of_kind)
        return len(self.alone) + sum(len(each.members) for each in sets)

    def count_wanted(self, needed: int) -> int:
        """Return how many members must get devices so that so many have what they need."""
        return max(needed - len(self.alone), 0)

    def list_choices(self, needed: int) -> Iterator["GroupMembers"]:
        """Yield what to search for: all, the fewest, and others of as many members.

        What has room in their place follows.
        """
        listed, is_large = set[Hashable](), len(self) > _MOST_MEMBERS
        for choice in chain(self._list_parts(needed), self._list_others(needed)):
            if is_large:
                yield choice  # to compare them takes long
                continue
            key = (*((sets[0].key, len(sets)) for sets in choice.of_kind), len(choice.alone))
            if key not in listed:
                listed.add(key)
                yield choice

    def _list_others(self, needed: int) -> Iterator["GroupMembers"]:
        """Yield what has room in the place of others."""
        for members in self.others:
            if len(members) >= needed:
                joined = members._joined()  # noqa: SLF001  # of this class
                behind = (key for key in sorted(joined) if key != members.foremost)
                yield members.choose_fewest(needed, dict.fromkeys(behind, len(members)))

    def _joined(self) -> Counter[bytes]:
        """Count, by what they ask for, the members that share claims."""
        joined = (each for sets in self.of_kind for each in sets if len(each.members) > 1)
        return Counter(member.key for each in joined for member in each.members)

    def _list_parts(self, needed: int) -> Iterator["GroupMembers"]:
        """Yield all members, and others with fewer of those that share claims.

        Those of a set that share no more when others are left out can be on different nodes.
        """
        yield self
        spare, joined = len(self) - needed, sorted(self._joined())
        if spare <= 0 or not joined:
            return
        most_of_one = [{key: spare} for key in joined] if len(joined) > 1 else []
        for left_out in ({}, *most_of_one):
            if (choice := self.choose_fewest(needed, left_out)) is not self:
                yield choice
        shared = [sets for sets in self.of_kind if len(sets[0].members) > 1]
        single = [sets for sets in self.of_kind if len(sets[0].members) == 1]
        count = sum(len(each.members) for sets in shared for each in sets)
        numbers = range(min(count - 1, needed), max(0, needed - len(self) + count) - 1, -1)
        for chosen in _choose_parts(shared, numbers):
            left = run_to_end(_join(chosen))
            yield replace(self, of_kind=_sort_alike((*left, *chain.from_iterable(single))))

    def choose_fewest(self, needed: int, left_out: Mapping[bytes, int]) -> "GroupMembers":
        """Return only so many members of sets whose members do not only share claims.

        At first those with some keys are `left_out`, at most so many of each, in their order. Which
        of the others get devices, the search finds.
        """
        spare, sets = len(self) - needed, [*chain.from_iterable(self.of_kind)]
        for key, most in (*left_out.items(), (None, spare)):
            end = max(0, spare - most)
            for at, members in enumerate(sets):
                if spare > end:
                    sets[at] = members.without_spare(spare - end, key)
                    spare -= len(members.members) - len(sets[at].members)
        if spare == len(self) - needed:
            return self
        return replace(self, of_kind=_sort_alike(sets))

    def find_problem(self, needed: int, nodes: MemberNodes) -> Reason | None:
        """Return why so many members are not searched for."""
        if self.exceeds is not None and max(map(len, (self, *self.others))) < needed:
            return self.exceeds
        text = nodes.find_problem(search for sets in self.of_kind for search in sets[0].searches)
        return make_reason(codes.GANG_TOO_VARIED, STAGE, text) if text else None

    def kinds(self, nodes: MemberNodes) -> list[MemberKind]:
        """Return what the sets of each kind ask for, and the nodes that they can use."""
        first_sets = (min(sets, key=lambda each: each.members[0].uid) for sets in self.of_kind)
        return [
            MemberKind(each.claims, len(sets), each.usable_nodes(nodes), len(each.members))
            for sets, each in zip(self.of_kind, first_sets, strict=True)
        ]


class MemberPlaces(msgspec.Struct, frozen=True):
    """Where a search has found that members fit, of whom so many are `wanted`."""

    members: GroupMembers
    kinds: Sequence[MemberKind]
    placement: GangPlacement
    wanted: int

    @property
    def lacking(self) -> bool:
        """Whether too few members fit."""
        return self.placement.placed < self.wanted

    def count_fitting(self) -> int:
        """Return how many members have what they need."""
        return self.placement.placed + len(self.members.alone)

    def usable_in(self, state: AllocatorState) -> "MemberPlaces":
        """Return the places on nodes that members can still use."""
        kinds = self.members.kinds(MemberNodes(state))
        return replace(self, placement=self.placement.only_on(kinds))

    def assign(self) -> Iterator[tuple[AskingMember, FittingNode]]:
        """Yield the members that have a place, and what each gets."""
        left = [iter(some) for some in self.members.of_kind]
        for on_node in self.placement.nodes:
            for waiting, of_sets in zip(left, on_node.allocations(self.kinds), strict=True):
                # The sets behind those that are placed stay in the iterator.
                for allocations, placed in zip(of_sets, waiting, strict=False):
                    yield from placed.fit(on_node.node, allocations)


def _choose_parts(
    of_kind: Iterable[Sequence[MemberSet]], numbers: Iterable[int]
) -> Iterator[list[AskingMember]]:
    """Yield so many members, of few different ones in all ways, at most in so many."""
    parts, alike = list[Sequence[AskingMember]](), list[tuple[slice, slice]]()
    for sets in of_kind:
        if len(sets[0].members) == 1:
            parts.append([each.members[0] for each in sets])
            continue
        of_sets = [each.parts() for each in islice(sets, _FEW_KINDS)]
        ends = [*accumulate(map(len, of_sets), initial=len(parts))]
        alike += pairwise(slice(*each) for each in pairwise(ends))
        parts += chain.from_iterable(of_sets)
        if len(sets) > len(of_sets):
            return
    counts = [*map(len, parts)]
    if len(parts) > _FEW_KINDS or sum(counts) > _MOST_MEMBERS:
        return
    ways = islice(chain.from_iterable(_share_out(each, counts) for each in numbers), _MOST_WAYS)
    # Of sets that ask the same, the first have most.
    ordered = (way for way in ways if all(way[a] >= way[b] for a, b in alike))
    for way in islice(ordered, _MOST_CHOICES):
        chosen = (part[:count] for part, count in zip(parts, way, strict=True))
        yield [*chain.from_iterable(chosen)]


def _share_out(number: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield each way to share out a number, of which each place gets at most so many."""
    if not most:
        yield ()
        return
    first, *others = most
    for count in range(min(first, number), max(0, number - sum(others)) - 1, -1):
        for rest in _share_out(number - count, others):
            yield count, *rest


def _count_choices(claim: Claim) -> int:
    return sum(len(each.first_available) for each in claim.spec.devices.requests)


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


def find_unread(group: GroupReference, basis: Basis) -> str:
    """Return why the minimum of a group is not known yet; empty if it is, or nothing says it."""
    is_of_object = not group.min_count and f"/{COSCHEDULING_LABEL}=" in group.key
    return basis.around.unread_groups() if is_of_object else ""


def find_members(
    uids: Collection[str], needed: int, basis: Basis
) -> Generator[None, None, GroupMembers]:
    """Find the members that can use their claims, whatever is promised to them.

    They have room together in the quotas of their namespace, and in their claims. If all of them
    together have not, those that ask for each thing come first once, and of few different members
    so many as are needed are selected in all ways. Each member is a step.
    """
    promised, requests = basis.reserved.promised_claims(uids), basis.requests
    asking = list[AskingMember]()
    for uid in uids:
        request = requests.find(uid)
        if request is not None and not requests.find_problem(request):
            search = requests.search(request).as_unallocated(promised)
            asking.append(AskingMember(request, search, request_key(search)))
        yield
    first = yield from _select(asking, uids, basis.state)
    if not first.exceeds:
        return first
    others, keys = list[GroupMembers](), {each.key for each in asking}
    for key in sorted(keys) if 1 < len(keys) <= MAX_KINDS else ():
        of_key = [each for each in asking if each.key == key]
        behind = [each for each in asking if each.key != key]
        selected = yield from _select((*of_key, *behind), uids, basis.state)
        others.append(replace(selected, foremost=key))
    every = yield from _group_alike(asking, None)
    alone = [each for each in asking if not each.search.unallocated]
    for chosen in _choose_parts(every.of_kind, (needed - len(alone),)):
        others.append((yield from _select((*alone, *chosen), uids, basis.state)))
    return replace(first, others=tuple(others))


def _select(
    asking: Iterable[AskingMember], uids: Collection[str], state: AllocatorState
) -> Generator[None, None, GroupMembers]:
    """Select members that have room in their claims and in the quotas, in this order."""
    consumers, quotas = _ConsumerSelection(state, uids), QuotaSelection(state)
    selected = list[AskingMember]()
    for member in asking:
        if consumers.has_room(member.request) and quotas.admits(member.search):
            consumers.add(member.request)
            selected.append(member)
        yield
    return (yield from _group_alike(selected, consumers.reason or quotas.reason))


def _group_alike(
    members: Sequence[AskingMember], exceeds: Reason | None
) -> Generator[None, None, GroupMembers]:
    alone = tuple(each.uid for each in members if not each.search.unallocated)
    sets = yield from _join(members)
    for number, members_of_set in enumerate(sets, 1):
        is_large = len(members_of_set.members) > 1
        if is_large:
            _ = members_of_set.claims  # remembered, because it takes long for a large set
            yield
        _ = members_of_set.key
        if is_large or number % _SETS_PER_STEP == 0:
            yield
    return GroupMembers(_sort_alike(sets), alone, exceeds)


class _ConsumerSelection:
    """Selects members whose claims can be reserved for all of them, one after the other.

    A claim can be reserved for so many pods only; its group is one. It is not while others wait for
    its release. `reason` says what stops the first member that has no room.
    """

    def __init__(self, state: AllocatorState, members: Collection[str]) -> None:
        self._state = state
        self._claims, self._records = state.claims, state.records
        self._members = frozenset(members)
        self._consumers: dict[str, set[str]] = {}  # by the UID of a claim
        self.reason: Reason | None = None

    def has_room(self, request: PodRequest) -> bool:
        """Whether a member has room beside those before it."""
        waits = find_awaited(request.claims, request.pod.priority, self._state)
        if waits is not None:
            self.reason = self.reason or waits
            return False
        for uid in request.claims:
            others, claim = self._consumers_of(uid), self._claims.get(uid)
            is_one = consumer_of(request.pod, uid).uid in others
            if claim is not None and not is_one and len(others) >= MAX_CONSUMERS:
                self.reason = self.reason or _no_room_in(claim)
                return False
        return True

    def add(self, request: PodRequest) -> None:
        """Count a member."""
        for uid in request.claims:
            self._consumers_of(uid).add(consumer_of(request.pod, uid).uid)

    def _consumers_of(self, uid: str) -> set[str]:
        """Return who uses a claim: also who has devices, and for whom it will be reserved."""
        if uid not in self._consumers:
            # A claim can be gone since its pod was looked at.
            claim = self._claims.get(uid)
            reserved = claim.status.reserved_for if claim is not None else ()
            self._consumers[uid] = {each.uid for each in reserved}
            for user in self._records.reserved_for(uid):
                request = self._records.get(user).request
                if user not in self._members and request is not None:
                    self._consumers[uid].add(consumer_of(request.pod, uid).uid)
        return self._consumers[uid]


def _no_room_in(claim: Claim) -> Reason:
    message = (
        f"ResourceClaim {name_of(claim)} can be reserved for {MAX_CONSUMERS} pods at most, and "
        "more members of the group use it; a claim of their PodGroup is reserved for that only"
    )
    return make_reason(codes.CLAIM_HAS_MAX_CONSUMERS, STAGE, message)


def _join(members: Sequence[AskingMember]) -> Generator[None, None, list[MemberSet]]:
    """Return the sets of members that share claims without devices."""
    users: dict[str, list[AskingMember]] = {}
    for member in members:
        for claim in member.search.unallocated:
            users.setdefault(uid_of(claim), []).append(member)
    sets, joined = list[MemberSet](), set[str]()
    for member in members:
        of_set, reached = list[AskingMember](), [member] if member.search.unallocated else []
        while reached:
            other = reached.pop()
            if other.uid not in joined:
                joined.add(other.uid)
                of_set.append(other)
                for claim in other.search.unallocated:
                    reached += users.pop(uid_of(claim), ())
                yield
        if of_set:
            sets.append(MemberSet(tuple(sorted(of_set, key=lambda each: (each.key, each.uid)))))
    return sets


def _sort_alike(sets: Iterable[MemberSet]) -> list[list[MemberSet]]:
    """Return the sets that ask the same, in an order that does not depend on who asks."""
    alike: dict[tuple[tuple[bytes, ...], tuple[int, ...]], list[MemberSet]] = {}
    for each in sets:
        alike.setdefault(each.key, []).append(each)
    return [of_key for _, of_key in sorted(alike.items())]
