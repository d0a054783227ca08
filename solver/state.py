"""A search's state: what is taken so far, and whether one device more may be.

`judged` asks every question about a candidate in the scheduler's order and changes nothing; `take`
does what it found, `undo` takes the last one back. All parts are values, so that taking back is
putting the old ones in place.
"""

from typing import NamedTuple

from dra.attributes import lookup
from dra.capacity import Amounts, lacking
from dra.compatibility import Companies, clash, place
from dra.counters import Counters, Shortage, charged
from dra.device import Attribute
from dra.inventory import PoolID
from dra.nodes import NodeSelectorError
from dra.taints import untolerated
from solver.abort import Abort, Cause
from solver.candidates import Candidate, asking
from solver.constraints import Constraint
from solver.demand import Demand, Option, shown
from solver.deviations import concerning
from solver.eligibility import SELECTED, Need, Stage, Verdict
from solver.expressions import Failed
from solver.node_view import Site


class Refused(NamedTuple):
    """Not this device: at which stage it fell out, and what there was to say."""

    stage: Stage
    detail: object = None


class Unmet(NamedTuple):
    """A constraint that keeps a device out, and what the device has for it."""

    constraint: Constraint
    attribute: Attribute | None


class Taken(NamedTuple):
    """A device with the state it leads to."""

    option: Option
    candidate: Candidate
    amounts: Amounts | None
    counters: Counters | None
    companies: Companies | None
    constraints: tuple[object, ...]


class _Drawn(NamedTuple):
    """What is left of the hardware with one device more; None where it takes nothing."""

    companies: Companies | None
    counters: Counters | None


HELD = Refused(Stage.HELD)
OURS = Refused(Stage.HELD, "this pod")
ELSEWHERE = Refused(Stage.NODE)
SHARES_NOTHING: tuple[Amounts, ...] = ()


class State:
    """What is taken so far in one search on one site."""

    def __init__(self, demand: Demand, site: Site) -> None:
        self.demand = demand
        self.site = site
        self.trail: list[Taken] = []
        self.counts = [0] * len(demand.claims)
        self._before: list[tuple[Counters | None, Companies | None, tuple[object, ...]]] = []
        self._marks: dict[Candidate, list[int]] = {}
        self._shares: dict[Candidate, tuple[Amounts, ...]] = {}
        # How many of the shares were charged for what the device draws.
        self._charges: dict[Candidate, int] = {}
        self._counters: dict[PoolID, Counters] = {}
        self._companies: Companies | None = None
        self.constraints: list[tuple[object, ...]] = [
            tuple(constraint.empty for constraint in constraints)
            for constraints in demand.constraints
        ]
        self._gates = site.gates
        self._deviations = site.world.deviations

    def take(self, option: Option, candidate: Candidate) -> Refused | None:
        """Take a device, or say at which stage it falls out; raises Abort."""
        found = self.judged(option, candidate)
        if isinstance(found, Refused):
            return found
        claim = option.claim
        before = (self._counters.get(candidate.pool), self._companies, self.constraints[claim])
        self._before.append(before)
        self.trail.append(found)
        self.counts[claim] += 1
        self.constraints[claim] = found.constraints
        self._companies = found.companies
        if found.counters is not None:
            self._counters[candidate.pool] = found.counters
        if candidate.shared:
            taken = found.amounts or {}
            self._shares[candidate] = (*self._shares.get(candidate, ()), taken)
            self._charges[candidate] = self._charges.get(candidate, 0) + self._draws(option)
        else:
            self._marks.setdefault(candidate, []).append(claim)
        return None

    def undo(self) -> None:
        """Take the device taken last back."""
        option, candidate, *_ = self.trail.pop()
        counters, self._companies, self.constraints[option.claim] = self._before.pop()
        self.counts[option.claim] -= 1
        if counters is not None:
            self._counters[candidate.pool] = counters
        else:
            self._counters.pop(candidate.pool, None)
        if not candidate.shared:
            self._marks[candidate].pop()
            return
        self._charges[candidate] -= self._draws(option)
        if len(shares := self._shares.pop(candidate)) > 1:
            self._shares[candidate] = shares[:-1]

    def judged(self, option: Option, candidate: Candidate) -> Refused | Taken:
        """Ask all that is asked about a device; raises Abort for what ends the search."""
        refused = self._in_use(option, candidate)
        if refused is None and not option.every:
            refused = self.selected(option, candidate) or self._lacking(option, candidate)
        return refused or self._allocatable(option, candidate)

    def selected(self, option: Option, candidate: Candidate) -> Refused | None:
        """Ask the selectors, then whether the device is for the node."""
        verdict = option.screen.verdict(candidate)
        if verdict is not SELECTED:
            if verdict.failed is not None:
                raise self._selector_error(option, candidate, verdict)
            return Refused(verdict.stage or Stage.SUPPORT, verdict)
        try:
            return None if self.site.here(candidate) else ELSEWHERE
        except NodeSelectorError as error:
            raise Abort(Cause.NODE_SELECTOR, f"device {candidate}: {error}") from None

    def need(self, option: Option, candidate: Candidate) -> Need:
        """Say what an option takes of a device; raises Abort where that cannot be computed."""
        need = option.screen.need(candidate)
        if need.error is not None:
            where = self._where(option)
            raise Abort(Cause.CAPACITY, f"{where}: device {candidate}: {need.error}")
        return need

    def _in_use(self, option: Option, candidate: Candidate) -> Refused | None:
        marks = self._marks.get(candidate)
        if option.admin:
            return OURS if marks and option.claim in marks else None
        if candidate.name in self.site.uses[candidate.pool].dedicated:
            return HELD
        return OURS if marks else None

    def _lacking(self, option: Option, candidate: Candidate) -> Refused | None:
        if not self._gates.consumable_capacity:
            return None
        need = self.need(option, candidate)
        if need.misfit is not None:
            return Refused(Stage.CAPACITY, need.misfit)
        held = self.site.uses[candidate.pool].shares.get(candidate.name)
        mine = self._shares.get(candidate, SHARES_NOTHING)
        if not held and not mine:
            return None
        used = (*mine, held) if held else mine
        misfit = lacking(candidate.device.capacity, need.amounts, *used)
        return Refused(Stage.CAPACITY, misfit) if misfit else None

    def _allocatable(self, option: Option, candidate: Candidate) -> Refused | Taken:
        """Ask the rest: what the hardware has left, taints, the claim's constraints."""
        drawn = self._drawn(option, candidate)
        if isinstance(drawn, Refused):
            return drawn
        if candidate.device.taints and self._gates.device_taints:
            taint = untolerated(candidate.device, option.wanted.tolerations)
            if taint is not None:
                return Refused(Stage.TAINT, taint)
        constraints = self._constrained(option, candidate)
        if isinstance(constraints, Refused):
            return constraints
        if option.every and (refused := self._lacking(option, candidate)):
            return refused
        amounts = option.screen.need(candidate).amounts if candidate.shared else None
        return Taken(option, candidate, amounts, drawn.counters, drawn.companies, constraints)

    def _drawn(self, option: Option, candidate: Candidate) -> Refused | _Drawn:
        """Ask for support, company and counters; only the first share of a device pays."""
        refused = self._unsupported(candidate)
        if refused is not None:
            return refused
        first = not self._further_share(candidate)
        companies = self._companies
        if first and candidate.uses:
            placed = self._placed(candidate, companies or self.site.companies)
            if isinstance(placed, Refused):
                return placed
            companies = placed
        refused = self._unwelcome(option, candidate)
        if refused is not None:
            return refused
        if not first or not candidate.device.consumes_counters:
            return _Drawn(companies, None)
        left = self._charged(option, candidate)
        if isinstance(left, Shortage):
            return Refused(Stage.COUNTERS, left)
        return _Drawn(companies, left)

    def _unsupported(self, candidate: Candidate) -> Refused | None:
        if not self.site.operates(candidate):
            return Refused(Stage.SUPPORT, "DRAOptionalNodeOperations")
        if candidate.device.consumes_counters and not self._gates.partitionable_devices:
            return Refused(Stage.SUPPORT, "DRAPartitionableDevices")
        return None

    def _further_share(self, candidate: Candidate) -> bool:
        """Tell whether a share of the device was charged for it already."""
        if not candidate.shared:
            return False
        shares = self.site.uses[candidate.pool].shares
        return candidate.name in shares or self._charges.get(candidate, 0) > 0

    def _draws(self, option: Option) -> bool:
        """Tell whether what an option takes is charged to counters."""
        return not (option.admin and self._deviations.admin_draws_nothing)

    def _placed(self, candidate: Candidate, companies: Companies) -> Companies | Refused:
        if candidate.broken:
            return Refused(Stage.GROUPS, candidate.broken)
        unset = self.site.world.unset_groups
        placed = place(companies, candidate.pool, candidate.uses, unset)
        return Refused(Stage.GROUPS) if placed is None else placed

    def _unwelcome(self, option: Option, candidate: Candidate) -> Refused | None:
        """Ask the rules that devices have about each other, both ways."""
        if candidate.pool.driver not in self.site.ruled:
            return None
        site = self.site
        mine = (site.member(each.candidate, admin=each.option.admin) for each in self.trail)
        taken = (*site.residents, *mine)
        found = clash(
            site.member(candidate, admin=option.admin), taken, asking(site.memo.expressions)
        )
        return Refused(Stage.COMPANY, found) if found else None

    def _charged(self, option: Option, candidate: Candidate) -> Counters | Shortage | None:
        if not self._draws(option):
            return None
        counters = self._counters.get(candidate.pool) or self.site.counters(candidate.pool)
        if self._deviations.overdraft_stays_in_its_set:
            asked = concerning(counters, candidate.draw)
            found = charged(asked, candidate.draw)
            if isinstance(found, Shortage) or asked is counters:
                return found
            return Counters(found.left, counters.overdrawn)
        return charged(counters, candidate.draw)

    def _constrained(self, option: Option, candidate: Candidate) -> tuple[object, ...] | Refused:
        states = self.constraints[option.claim]
        if not option.covered:
            return states
        new = list(states)
        for index in option.covered:
            constraint = self.demand.constraints[option.claim][index]
            attribute = self.attribute(option, candidate, constraint.name)
            joined = None
            if attribute is not None:
                joined = constraint.joined(states[index], attribute)
            if joined is None:
                if option.every and not self._deviations.all_goes_back:
                    text = f"a claim constraint keeps device {candidate} out, mode All needs it"
                    raise Abort(Cause.REFUSED, f"{self._where(option)}: {text}")
                return Refused(Stage.CONSTRAINT, Unmet(constraint, attribute))
            new[index] = joined
        return tuple(new)

    def attribute(self, option: Option, candidate: Candidate, name: str) -> Attribute | None:
        """Find a constraint's attribute: derived by the request, else the device's own."""
        source = option.derived.get(name)
        if source is None:
            return lookup(candidate.device, candidate.pool.driver, name)
        found = candidate.derived.get(source)
        if found is None:
            expressions = self.site.memo.expressions
            found = expressions.derive(source, candidate.pool.driver, candidate.device)
            candidate.derived[source] = found
        if isinstance(found, Failed):
            where = f"{self._where(option)}: derived attribute {name} on device {candidate}"
            raise Abort(Cause.DERIVED, f"{where}: {found}")
        return found

    def _where(self, option: Option) -> str:
        return f"claim {shown(self.demand.claims[option.claim])}, request {option.name}"

    def _selector_error(self, option: Option, candidate: Candidate, verdict: Verdict) -> Abort:
        if verdict.stage is Stage.CLASS:
            where = f"class {option.device_class.metadata.name}"
        else:
            where = self._where(option)
        text = f"{where}: selector #{verdict.number} on device {candidate}: {verdict.failed}"
        return Abort(Cause.SELECTOR, text)
