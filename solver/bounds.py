"""What refutes a search by counting, and tells interchangeable devices; made once it went wrong.

Every shortcut is sound in two ways: no solution is lost, and no error that the scheduler would meet
on the way. So counting stops before the first wish whose devices may give an error.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

from dra.device import Attribute
from solver.abort import Abort
from solver.candidates import Candidate
from solver.constraints import Distinct, values
from solver.demand import Option, Wish
from solver.search import Search
from solver.state import Refused, State

# Sets of candidates, or of values, as bits of a number.
Bits: TypeAlias = int
MOST_UNIONS = 10
MOST_COMBINATIONS = 256


class Profile:
    """How all candidates stand with options that ask the same.

    `eligible` are those that can ever be taken, `attributes` what constraints look at, `having` by
    constraint and value the candidates that have the value, `hazard` that one gives an error.
    """

    __slots__ = ("attributes", "eligible", "failing", "having")

    def __init__(self) -> None:
        self.eligible: Bits = 0
        self.failing: Bits = 0
        self.attributes: dict[int, dict[Candidate, Attribute]] = {}
        self.having: dict[int, dict[Hashable, Bits]] = {}


class Want(NamedTuple):
    """So many devices are needed out of those of any part; parts are of alternative options."""

    wanted: int
    parts: tuple[tuple[Option, Bits], ...]

    @property
    def among(self) -> Bits:
        """All that would do."""
        union = 0
        for _, bits in self.parts:
            union |= bits
        return union


class Bounds:
    """The shortcuts of one search."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.state = search.state
        self.demand = search.state.demand
        self.candidates = self.state.site.candidates
        self.initial = State(self.demand, self.state.site)
        self.bit = {candidate: 1 << i for i, candidate in enumerate(self.candidates)}
        self.shared: Bits = sum(bit for each, bit in self.bit.items() if each.shared)
        self._by_question: dict[Hashable, Profile] = {}
        self._twins: dict[Candidate, int] = {}
        self._kinds: dict[Hashable, int] = {}
        self.profiles = {option: self._profile(option) for option in self.demand.options()}
        # Mode All tries its devices one by one, and which comes first decides between a no and an
        # error: then no two devices are interchangeable.
        self._positional = any(o.every and self._hazardous(o) for o in self.profiles)

    def refuted(self) -> bool:
        """Tell whether counting finds that there is no solution at all."""
        wants = self._wants(0, 0)
        return wants is None or self._impossible(self.initial, wants)

    def hopeless(self, option: Option, number: int, start: int) -> bool:
        """Tell whether counting finds that no solution follows."""
        profile = self.profiles[option]
        if self._hazardous(option):
            return False
        taken = 0 if option.admin else self._taken(self.state)
        free = profile.eligible & ~taken
        behind = free if option.every else free >> start << start
        first = Want(self._count(option) - number, ((option, behind),))
        if first.wanted > behind.bit_count():
            return True
        wants = self._wants(option.wish + 1, taken)
        return wants is None or self._impossible(self.state, [first, *wants])

    def twin(self, candidate: Candidate) -> int:
        """Give what is equal for candidates that no search can tell apart."""
        known = self._twins.get(candidate)
        if known is None:
            kind = candidate if self._positional else self._kind(candidate)
            known = self._twins[candidate] = self._kinds.setdefault(kind, len(self._kinds))
        return known

    def situation(self, option: Option) -> Hashable:
        """Give what is equal for states that differ by interchangeable devices only."""
        if self._positional:
            return None
        alone: list[tuple[object, ...]] = []
        sharing: dict[Candidate, list[tuple[object, ...]]] = {}
        for taken in self.state.trail:
            mine = taken.option if taken.option.claim == option.claim else None
            how: tuple[object, ...] = (taken.option.admin,)
            if mine is not None:
                how = (*how, mine.covered, id(mine) if mine.derived else 0)
            if taken.candidate.shared:
                amounts = tuple(sorted((k, v.nanos()) for k, v in (taken.amounts or {}).items()))
                sharing.setdefault(taken.candidate, []).append((how, amounts))
            else:
                alone.append((self.twin(taken.candidate), how))
        together = [(self.twin(each), tuple(sorted(held))) for each, held in sharing.items()]
        return option, tuple(sorted(alone)), tuple(sorted(together))

    def likeness(self) -> Hashable | None:
        """Give what is equal for sites on which every search goes alike; None where none may."""
        if any(profile.failing for profile in self._by_question.values()) or self._positional:
            return None
        site = self.state.site
        if site.ruled:
            return None
        left = [site.memo.baseline(each, site.uses[each.id]) for each in site.pools]
        pools = tuple(
            (
                tuple(sorted(each.counters.left.items())),
                tuple((key.name, company) for key, company in sorted(each.companies.items())),
            )
            for each in left
        )
        kinds = tuple([self._kind(candidate) for candidate in self.candidates])
        every = tuple(len(taken) for taken in self.search.every.values())
        return kinds, pools, every

    def _profile(self, option: Option) -> Profile:
        question = option.question()
        known = self._by_question.get(question)
        if known is None:
            known = self._by_question[question] = Profile()
            for candidate in self.search.every[option] if option.every else self.candidates:
                self._enter(known, option, candidate)
            if option.every and known.eligible.bit_count() < self._count(option):
                known.eligible = 0
        return known

    def _enter(self, profile: Profile, option: Option, candidate: Candidate) -> None:
        """File a candidate under what it is to an option."""
        bit = self.bit[candidate]
        try:
            if isinstance(self.initial.judged(option, candidate), Refused):
                return
        except Abort:
            profile.failing |= bit
            return
        profile.eligible |= bit
        for index in option.covered:
            name = self.demand.constraints[option.claim][index].name
            attribute = self.initial.attribute(option, candidate, name)
            if attribute is None:
                continue
            profile.attributes.setdefault(index, {})[candidate] = attribute
            having = profile.having.setdefault(index, {})
            # What is of no known type is like nothing else.
            for value in values(attribute) or (candidate,):
                having[value] = having.get(value, 0) | bit

    def _kind(self, candidate: Candidate) -> Hashable:
        bit = self.bit[candidate]
        stands = tuple(
            (
                bool(profile.eligible & bit),
                bool(profile.failing & bit),
                tuple(known.get(candidate) for known in profile.attributes.values()),
            )
            for profile in self._by_question.values()
        )
        draws = None
        if candidate.uses:
            uses = tuple((use.counter_set, use.compatibility_groups) for use in candidate.uses)
            # Pools by their number, so that sites with pools of other names can be alike.
            pool = list(self.state.site.by_id).index(candidate.pool)
            draws = (pool, uses, tuple(sorted(candidate.draw.items())))
        alone = candidate if candidate.pool.driver in self.state.site.ruled else None
        return (stands, draws, alone, self._sharing(candidate) if candidate.shared else None)

    def _sharing(self, candidate: Candidate) -> Hashable:
        """Say what matters of a device that several may have: what there is, held and asked."""
        held = self.state.site.uses[candidate.pool].shares.get(candidate.name)
        screens = {option.screen for option in self.profiles}
        asked = (screen.need(candidate).amounts for screen in sorted(screens, key=id))
        amounts = [{k: each.value for k, each in candidate.device.capacity.items()}, *asked]
        return (
            held is not None,
            tuple(sorted((k, v.nanos()) for k, v in (held or {}).items())),
            tuple(tuple(sorted((k, v.nanos()) for k, v in each.items())) for each in amounts),
        )

    def _count(self, option: Option) -> int:
        return len(self.search.every[option]) if option.every else option.wanted.count

    def _hazardous(self, option: Option) -> bool:
        """Tell whether an error may be met when the option's devices are tried."""
        aborts = option.every and option.covered
        if aborts and not self.state.site.world.deviations.all_goes_back:
            return True
        return bool(self.profiles[option].failing)

    def _taken(self, state: State) -> Bits:
        """Give the devices that nobody else can have."""
        taken = 0
        for each in state.trail:
            taken |= self.bit[each.candidate]
        return taken & ~self.shared

    def _wants(self, wish: int, taken: Bits) -> list[Want] | None:
        """Give what the wishes from `wish` on want, up to where errors may be; None if too much."""
        wants = []
        for each in self.demand.wishes[wish:]:
            if any(self._hazardous(option) for option in each.options):
                break
            want = self._want(each, taken)
            if want is None:
                return None
            wants.append(want)
        return wants

    def _want(self, wish: Wish, taken: Bits) -> Want | None:
        parts: list[tuple[Option, Bits]] = []
        count = 0
        for option in wish.options:
            eligible = self.profiles[option].eligible
            free = eligible if option.admin else eligible & ~taken
            wanted = self._count(option)
            if wanted and wanted <= free.bit_count():
                count = min(count, wanted) if parts else wanted
                parts.append((option, free))
        return Want(count, tuple(parts)) if parts else None

    def _impossible(self, state: State, wants: Sequence[Want]) -> bool:
        if self._short(wants):
            return True
        if not any(option.covered for want in wants for option, _ in want.parts):
            return False
        if any(self._repeats(state, about) for about in self._by_constraint(wants, Distinct)):
            return True
        return all(self._short(restricted) for restricted in self._partitions(state, wants))

    def _short(self, wants: Sequence[Want]) -> bool:
        """Tell whether there are too few devices for some of the wants together."""
        exclusive: dict[Bits, int] = {}
        for want in wants:
            among = want.among
            # Each may have every shared device once, whoever else has it.
            count = want.wanted - (among & self.shared).bit_count()
            if count > 0 and not want.parts[0][0].admin:
                alone = among & ~self.shared
                exclusive[alone] = exclusive.get(alone, 0) + count
            elif want.wanted > among.bit_count():
                return True
        return _too_many(exclusive)

    def _by_constraint(
        self, wants: Sequence[Want], kind: type
    ) -> Iterator[tuple[int, int, tuple[Want, ...]]]:
        """Give the constraints of a kind with the wants that they are about, whatever is chosen."""
        for claim, constraints in enumerate(self.demand.constraints):
            for index, constraint in enumerate(constraints):
                about = tuple(
                    want
                    for want in wants
                    if all(o.claim == claim and index in o.covered for o, _ in want.parts)
                )
                if about and isinstance(constraint, kind):
                    yield claim, index, about

    def _repeats(self, state: State, about: tuple[int, int, tuple[Want, ...]]) -> bool:
        """Tell whether devices with distinct values are more than there are values."""
        claim, index, wants = about
        numbers: dict[Hashable, Bits] = {}
        used: set[Hashable] = set()
        now = state.constraints[claim][index]
        for attribute in now if isinstance(now, tuple) else ():
            used |= values(attribute)
        wanted: dict[Bits, int] = {}
        for want in wants:
            among = 0
            for option, bits in want.parts:
                for value, having in self.profiles[option].having.get(index, {}).items():
                    if having & bits and value not in used:
                        among |= numbers.setdefault(value, 1 << len(numbers))
            wanted[among] = wanted.get(among, 0) + want.wanted
        return _too_many(wanted)

    def _partitions(self, state: State, wants: Sequence[Want]) -> Iterator[Sequence[Want]]:
        """Give the wants once for each choice of the values that devices must have in common."""
        found: list[list[dict[Option, Bits]]] = []
        combinations = 1
        for claim, index in self._matches(wants):
            ways = self._ways(state, claim, index, wants)
            if combinations * len(ways) <= MOST_COMBINATIONS:
                combinations *= len(ways)
                found.append(ways)
        for chosen in product(*found):
            yield [_restricted(want, chosen) for want in wants]

    def _matches(self, wants: Sequence[Want]) -> Iterator[tuple[int, int]]:
        covered = {(o.claim, index) for want in wants for o, _ in want.parts for index in o.covered}
        for claim, index in sorted(covered):
            if not isinstance(self.demand.constraints[claim][index], Distinct):
                yield claim, index

    def _ways(
        self, state: State, claim: int, index: int, wants: Sequence[Want]
    ) -> list[dict[Option, Bits]]:
        """Give for each value that may be common to all what the options then have."""
        about = [
            option
            for want in wants
            for option, _ in want.parts
            if option.claim == claim and index in option.covered
        ]
        now = state.constraints[claim][index]
        fixed = values(now) if isinstance(now, Attribute) else now
        assert fixed is None or isinstance(fixed, frozenset)  # noqa: S101  # a Match's
        having = {option: self.profiles[option].having.get(index, {}) for option in about}
        common = fixed or {value for each in having.values() for value in each}
        ways = ({option: each.get(value, 0) for option, each in having.items()} for value in common)
        covered = [want for want in wants if all(option in having for option, _ in want.parts)]
        return [
            way
            for way in ways
            if all(_restricted(want, [way]).among.bit_count() >= want.wanted for want in covered)
        ]


def _restricted(want: Want, chosen: Sequence[dict[Option, Bits]]) -> Want:
    parts = []
    for option, bits in want.parts:
        left = bits
        for way in chosen:
            left &= way.get(option, left)
        parts.append((option, left))
    return Want(want.wanted, tuple(parts))


def _too_many(wanted: dict[Bits, int]) -> bool:
    """Tell whether some of the wishes together want more than there is for them (Hall)."""
    if len(wanted) > MOST_UNIONS:
        total, union = 0, 0
        for among, count in wanted.items():
            if count > among.bit_count():
                return True
            total, union = total + count, union | among
        return total > union.bit_count()
    unions = [(0, 0)]
    for among, count in wanted.items():
        for union, total in list(unions):
            more = (union | among, total + count)
            if more[1] > more[0].bit_count():
                return True
            unions.append(more)
    return False
