"""The protocol of strategies: how good a node is for a task, and with which devices."""

from typing import Final, NamedTuple, Protocol

from drawbridge.choice.amounts import NodeRoom, Taken, Task

# A strategy remembers what it knows of so many states of nodes.
MAX_REMEMBERED: Final = 65_536


class Part(NamedTuple):
    """A part of a score: what it is about, and how much it adds."""

    name: str
    value: int


class JudgedNode(NamedTuple):
    """The devices that a task takes on a node, and how good that is; more is better."""

    score: int
    taken: Taken


class ChoiceStrategy(Protocol):
    """Judges nodes for tasks; the same answer for the same arguments."""

    @property
    def name(self) -> str:
        """The name in configuration and output."""

    @property
    def draws(self) -> bool:
        """Whether one of equally good nodes is drawn for each task; otherwise it is the first."""

    def judge(self, node: NodeRoom, task: Task) -> JudgedNode | None:
        """Return the best choice of devices on a node; None if the task does not fit."""

    def parts(self, node: NodeRoom, task: Task, taken: Taken) -> tuple[Part, ...]:
        """Return the parts of the score of a choice; their sum is the score."""
