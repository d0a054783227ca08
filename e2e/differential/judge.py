"""One seed, from scenario to findings: the unit of work of the differential."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from drawbridge.solver.deviations import OURS, UPSTREAM
from e2e.checker import check
from e2e.checker.expressions import Expressions
from e2e.checker.quantities import Json
from e2e.differential.compare import EXCEPTIONS, differences
from e2e.differential.ours import answer
from e2e.differential.theirs import Oracle
from e2e.generator import scenario
from e2e.oracle.build import binary


@dataclass
class Found:
    """Sums over seeds; `examples` keeps the first lines of each kind, smallest scenario first."""

    counts: Counter[str] = field(default_factory=Counter)
    exceptions: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def differ(self, kind: str, line: str) -> None:
        """Note a difference that nothing excuses."""
        self.differences[kind] += 1
        self.examples.setdefault(kind, []).append(line)

    def add(self, other: "Found") -> None:
        """Take in what another process found."""
        self.counts += other.counts
        self.exceptions += other.exceptions
        self.differences += other.differences
        for kind, lines in other.examples.items():
            self.examples.setdefault(kind, []).extend(lines)


def judge(seeds: range) -> Found:
    """Compare and check the scenarios of these seeds."""
    tally = Found()
    oracle = Oracle(binary())
    with Expressions(binary()) as expressions:
        for seed in seeds:
            compare_seed(seed, oracle, expressions, tally)
    oracle.close()
    return tally


def compare_seed(seed: int, oracle: Oracle, expressions: Expressions, tally: Found) -> None:
    """Compare our answers of one scenario with theirs, then what we say on purpose with both."""
    asked = scenario(seed)
    theirs = oracle.answer(asked)
    tally.counts["scenarios"] += 1
    tally.counts["satisfiable"] += any(a["verdict"] == "allocated" for a in theirs.values())
    try:
        strict, own = answer(asked, UPSTREAM), answer(asked, OURS)
    except Exception as error:  # noqa: BLE001  # any exception of ours is a finding, and the run goes on
        tally.differ("crash", f"seed {seed}: {type(error).__name__}: {error}")
        return
    for node, verdict in theirs.items():
        where = f"seed {seed} {node}"
        tally.counts[f"theirs {verdict['verdict']}"] += 1
        if strict[node]["verdict"] == "gave up" or own[node]["verdict"] == "gave up":
            tally.differ("gave up", where)
        elif verdict["verdict"] not in ("timeout", "panic"):
            for difference in differences(strict[node], verdict):
                tally.differ(difference.kind, f"{where}: {difference.message}")
        for answers in (strict, own):
            if answers[node]["verdict"] == "allocated":
                valid(asked, node, answers[node], expressions, tally)
        if differences(own[node], strict[node]):
            excuse(asked, node, own[node], tally)


def valid(asked: Json, node: str, ours: Json, expressions: Expressions, tally: Found) -> None:
    """Put a solution of ours before the checker."""
    allocations = ours["allocations"]
    assert isinstance(allocations, list)
    tally.counts["checked"] += 1
    for violation in check(asked, node, allocations, expressions):
        tally.differ(
            f"invalid: {violation.rule}", f"seed {asked['seed']} {node}: {violation.message}"
        )


def excuse(asked: Json, node: str, own: Json, tally: Found) -> None:
    """Find the deviation that makes our own answer another one, and count it by its name."""
    for name, number in EXCEPTIONS.items():
        alone = msgspec.structs.replace(UPSTREAM, **{name: True})
        if not differences(own, answer(asked, alone)[node]):
            tally.exceptions[number] += 1
            return
    for name, number in EXCEPTIONS.items():
        without = msgspec.structs.replace(OURS, **{name: False})
        if differences(own, answer(asked, without)[node]):
            tally.exceptions[f"{number}, with others"] += 1
            return
    tally.differ("unexplained", f"seed {asked['seed']} {node}")
