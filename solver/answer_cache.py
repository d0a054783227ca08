"""Answers kept from call to call: a node is asked again only when something about it changed.

The same question is the same specs of claims and the same classes. About a node, its pools and what
is held of them count; whoever hands in views keeps what did not change the same object.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from dra.claim import Claim
from dra.classes import DeviceClass
from dra.inventory import Pool
from dra.nodes import Node
from dra.quantity import Quantity
from solver.answers import Answer
from solver.demand import Demand
from solver.node_classes import Alike
from solver.state import Taken
from solver.world import Use, World

MOST_QUESTIONS = 128


class Known(msgspec.Struct, frozen=True, eq=False):
    """An answer and what it was made of; `taken` is there when it has to be written anew."""

    node: Node
    pools: tuple[Pool, ...]
    uses: tuple[Use, ...]
    answer: Answer
    taken: tuple[Taken, ...] = ()

    def holds(self, node: Node, pools: tuple[Pool, ...], uses: tuple[Use, ...]) -> bool:
        """Tell whether nothing changed since."""
        if self.uses != uses or not (self.node is node or self.node == node):
            return False
        return self.pools is pools or (
            len(self.pools) == len(pools)
            and all(_same(one, other) for one, other in zip(self.pools, pools, strict=True))
        )


def _same(one: Pool, other: Pool) -> bool:
    # Slices that did not change are the same objects, so that this compares no contents.
    return one is other or (
        one.id == other.id
        and one.incomplete == other.incomplete
        and one.invalid == other.invalid
        and one.slices == other.slices
        and one.elsewhere == other.elsewhere
        and one.counter_sets == other.counter_sets
    )


class Question(msgspec.Struct, eq=False):
    """What was asked, and the last answer for each node by name."""

    demand: Demand
    classes: dict[str, DeviceClass]
    known: dict[str, Known] = {}
    alike: Alike = msgspec.field(default_factory=Alike)

    def stands(self, world: World) -> bool:
        """Tell whether the classes are still the same."""
        return all(world.classes.get(name) is each for name, each in self.classes.items())


def question_key(claims: Sequence[Claim]) -> bytes:
    """Give what is equal for claims that ask the same, whatever they are called."""
    return _ENCODER.encode([claim.spec for claim in claims])


def question(demand: Demand) -> Question:
    """Start to remember answers to a demand."""
    used = {o.device_class.metadata.name: o.device_class for o in demand.options()}
    return Question(demand, used)


def _plain(value: Any) -> str:  # noqa: ANN401  # what msgspec cannot write
    if isinstance(value, Quantity):
        return f"{value}"
    raise TypeError(f"{type(value).__name__} cannot be written")


_ENCODER = msgspec.json.Encoder(enc_hook=_plain)
