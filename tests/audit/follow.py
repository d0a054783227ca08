"""Follows the plan of a drawn cluster to its end, and notes what came otherwise than it says."""

import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from e2e.clusters import DrawnCluster, draw
from tests.audit.player.cluster import PlayedCluster, names_of
from tests.audit.player.commands import Typist
from tests.audit.player.state import Answer, Json
from tests.cli.running import command
from tests.tables import write_yaml


def audit(objects: Iterable[Json], folder: Path) -> Json:
    """Return what the audit says of objects."""
    file = folder / "cluster.yaml"
    file.write_text(write_yaml([*objects]))
    printed = command("audit", "--cluster", str(file), "-o", "json")
    assert printed.code == 0, printed
    told: Json = json.loads(printed.out)
    return told


def answers_of(told: Json) -> dict[str, Answer]:
    """Return what admission says of each workload."""
    return {
        f"{space['namespace']}/{each['owner']}": Answer(
            each["fate"], each.get("demand", {}).get("devices", {})
        )
        for space in told["namespaces"]
        for each in space["workloads"]
    }


class Followed:
    """A cluster whose plan is followed. `misses` are what came otherwise."""

    def __init__(
        self,
        seed: int,
        size: int,
        folder: Path,
        surprises: Iterable[int] | None = None,
        *,
        rig: bool = False,
        chooses: random.Random | None = None,
    ) -> None:
        self.drawn: DrawnCluster = draw(seed, size, surprises, rig=rig)
        self.folder = folder
        self.told = audit(self.drawn.seen(), folder)
        self.answers = answers = answers_of(self.told)
        self.cluster = PlayedCluster(self.drawn.objects, self.drawn.hardware, answers, chooses)
        self.typist = Typist(self.cluster)
        self.misses: list[str] = []
        self.predictions = self.sure = 0
        self.either = Counter[str]()  # pods, by what becomes of them
        self.before = names_of(self.cluster.pods.values())

    def __repr__(self) -> str:
        return f"seed with surprises {self.drawn.surprises}: {self.misses}"

    def follow(self) -> None:
        """Type all commands of the plan, and compare after each step.

        What the reader does not see can come otherwise; then the audit says what it has not read.
        """
        if self.drawn.hidden:
            said = any("PodDisruptionBudget" in each for each in self.told["notes"])
            self._expect("audit", "a note on what was not read", expected=True, seen=said)
            return
        named: set[str] = set()
        for step in self.told["steps"]:
            for typed in step["commands"]:
                try:
                    self.typist.type(typed)
                except AssertionError as problem:
                    self.misses.append(f"{step['title']}: {type(problem).__name__} {problem}")
                    return
            named |= {text.partition(":")[0].partition(" keeps")[0] for text in step["loses"]}
            self._compare(step, named)
            if self.misses:
                return
        self._count_at_end(named)

    def _compare(self, step: Mapping[str, Any], named: set[str]) -> None:
        title, cluster = step["title"], self.cluster
        self._expect(title, "lost", named, cluster.lost)
        self._expect(title, "devices given twice", [], cluster.overlaps())
        counts = cluster.count()
        for told in step["leaves"]:
            seen = counts.get(told["owner"], Counter())
            now = seen["plugin"], seen["driver"], seen["waiting"]
            self._expect(title, f"{told['owner']}", _narrow(told, now), now)
            self.either[self.answers[told["owner"]].fate] += told["either"]
            self.sure += told["onPlugins"] + told["onDrivers"] + told["waiting"]

    def _expect(self, title: str, what: str, expected: object, seen: object) -> None:
        """Count a prediction, and note one that came otherwise."""
        self.predictions += 1
        if expected != seen:
            self.misses.append(f"{title}: {what}: {expected} expected, {seen} seen")

    def _count_at_end(self, named: set[str]) -> None:
        """Each pod of the beginning is there, or named as lost."""
        now = names_of((*self.cluster.pods.values(), *self.cluster.owed))
        expected = {key: n for key, n in self.before.items() if key not in named}
        self._expect("end", "pods", expected, dict(now))
        self._expect("end", "suspended", {}, self.cluster.suspended)


def _narrow(told: Mapping[str, Any], now: tuple[int, int, int]) -> tuple[int, ...]:
    """Return what is expected; those of whom the scheduler decides are as they are."""
    sure = [told["onPlugins"], told["onDrivers"], told["waiting"]]
    left = told["either"]
    for place, seen in enumerate(now):
        more = min(left, max(0, seen - sure[place]))
        sure[place] += more
        left -= more
    return (*sure[:2], sure[2] + left)
