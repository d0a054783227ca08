"""Devices as candidates: what can be said of one without knowing who asks and who holds it.

A candidate lives as long as its slice. What it was asked is remembered on it, under the object that
asked, so that it is forgotten with the slice.
"""

from collections.abc import Callable, Sequence

from dra.compatibility import Declaration, EvaluationError, Peer, Rule, annotated, groups, rule
from dra.counters import Draw, draw
from dra.device import Attribute, CounterUse, Device
from dra.inventory import Pool, PoolID
from dra.slices import Slice
from solver.expressions import Expressions, Failed
from solver.world import World


class Candidate:
    """One device of a slice; compared by identity."""

    __slots__ = (
        "broken", "derived", "device", "draw", "name", "needs", "pool", "rule", "shared", "slice",
        "uses", "verdicts",
    )  # fmt: skip

    def __init__(self, each: Slice, device: Device, *, sharing: bool) -> None:
        self.slice = each
        self.device = device
        self.name = device.name
        self.pool = PoolID(each.driver, each.pool)
        self.shared = sharing and device.allow_multiple_allocations
        self.uses: tuple[CounterUse, ...] = device.consumes_counters
        self.draw: Draw = draw(device) if device.consumes_counters else {}
        self.rule: Rule | None = None
        self.broken = ""
        self.verdicts: dict[object, object] = {}
        self.needs: dict[object, object] = {}
        self.derived: dict[str, Attribute | Failed] = {}

    def __repr__(self) -> str:
        return f"{self.pool.driver}/{self.pool.name}/{self.name}"


class Candidates:
    """The candidates of slices, each made once."""

    def __init__(self, world: World, expressions: Expressions) -> None:
        self._expressions = expressions
        self._declarations = world.compatibility
        self._sharing = world.gates.consumable_capacity
        # By identity, which the slice beside keeps from being given to another.
        self._of_slice: dict[int, tuple[Slice, tuple[Candidate, ...]]] = {}

    def of(self, each: Slice) -> tuple[Candidate, ...]:
        """Give the devices of a slice as candidates, in listed order."""
        known = self._of_slice.get(id(each))
        if known is None:
            made = tuple(Candidate(each, device, sharing=self._sharing) for device in each.devices)
            self._declare(each, made)
            known = self._of_slice[id(each)] = (each, made)
        return known[1]

    def in_pool(self, pool: Pool) -> tuple[Candidate, ...]:
        """Give the candidates of a pool in the order they are tried."""
        return tuple(candidate for each in pool.slices for candidate in self.of(each))

    def keep(self, slices: Sequence[Slice]) -> None:
        """Forget all slices but these."""
        kept = {id(each) for each in slices}
        self._of_slice = {key: value for key, value in self._of_slice.items() if key in kept}

    def _declare(self, each: Slice, made: tuple[Candidate, ...]) -> None:
        """Apply what somebody else than the device itself says of its company."""
        said, _ = annotated(each)
        plain = any(device.compatible_only_with for device in each.devices)
        if not (said or self._declarations or plain):
            return
        for candidate in made:
            self._declare_one(candidate, said)

    def _declare_one(self, candidate: Candidate, said: tuple[Declaration, ...]) -> None:
        peer = Peer(candidate.pool, candidate.device)
        ask = asking(self._expressions)
        candidate.rule = rule(peer, self._declarations, said, ask)
        try:
            candidate.uses = groups(peer, self._declarations, said, ask)
        except EvaluationError as error:
            # Nothing safe can be assumed of its groups, so it is not to be had.
            candidate.broken = f"its compatibility groups cannot be told: {error}"


def asking(expressions: Expressions) -> Callable[[str, Peer], bool]:
    """Give the evaluation that rules about company ask for."""

    def ask(expression: str, peer: Peer) -> bool:
        outcome = expressions.selects(expression, peer.pool.driver, peer.device)
        if isinstance(outcome, Failed):
            raise EvaluationError(str(outcome))
        return outcome

    return ask
