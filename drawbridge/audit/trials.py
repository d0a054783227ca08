"""What the plan tries: commands that are typed in the models, and what a step would do there."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from drawbridge.audit.typed import Typed
from drawbridge.models.cluster import BLOCKED, HELD, LOST, Change, ModelCluster


class Namespaces(NamedTuple):
    """What the plan needs to know of namespaces: the labels that they have, and who uses them."""

    modes: Mapping[str, str]  # the label as it is; empty without one
    translatable: frozenset[str]  # with workloads that are to be translated
    idle: frozenset[str]  # of these, those without pods
    managers: Mapping[str, str] = {}  # the charts and tools that can take a label back


class Trial(NamedTuple):
    """What a step would do: who loses, and whom it lets wait.

    `others` are the clusters where the scheduler chose otherwise, and `stopped` the kinds of which
    a budget or a rollout stops pods, there or here.
    """

    cluster: ModelCluster
    changes: tuple[Change, ...]
    commands: tuple[Typed, ...]
    loses: int
    blocked: int
    waits: int  # afterwards
    paused: int  # meanwhile
    stopped: frozenset[int]
    others: tuple[ModelCluster, ...] = ()
    jobs: tuple[tuple[str, str], ...] = ()  # those that are suspended meanwhile

    @property
    def cost(self) -> tuple[int, ...]:
        """What is bad about it, the worst first."""
        return self.blocked, self.loses, self.waits, self.paused

    @property
    def can_stop(self) -> bool:
        """Whether a command may never end."""
        return bool(self.stopped)

    @property
    def is_clean(self) -> bool:
        """Whether nobody loses, nothing stops, and nobody who did not wait before waits after."""
        return not (self.blocked or self.loses)


class Typing:
    """Types commands, and lets the models do what they do."""

    def __init__(self, cluster: ModelCluster) -> None:
        self.cluster = cluster
        self.typed: list[Typed] = []

    def type(self, commands_: Iterable[Typed]) -> None:
        """Type commands in their order."""
        for step_command in commands_:
            self.typed.append(step_command)
            step_command.play(self.cluster)

    def finish(self, paused: int = 0) -> Trial:
        """Return what the commands did; `paused` pods waited meanwhile."""
        changes = self.cluster.take_changes()
        told = Counter(each.what for each in changes)
        return Trial(
            self.cluster,
            changes,
            tuple(self.typed),
            told[LOST] + told[HELD],
            told[BLOCKED],
            self.cluster.count_waiting(),
            paused,
            frozenset(each.kind for each in changes if each.what == BLOCKED),
        )
