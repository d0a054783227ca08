"""Compares judgements with Kubernetes' allocator: what it can satisfy must not be refused.

    python -m e2e.differential.judged 0:2000 [processes]

Each seed is a generated scenario on an empty state. If it can be satisfied, one of its fields is
tightened until it cannot, which gives a pair on both sides of the boundary. A refusal is also held
against the state with the allocated devices of the scenario, and against the devices without their
taints. Exit code 1 if anything is refused that the allocator can satisfy, in any of these states.
"""

import copy
import sys
from collections import Counter
from dataclasses import dataclass, field

from drawbridge.dra.claim import read_claim
from drawbridge.dra.nodes import node_reader
from drawbridge.finding import Finding, Severity
from drawbridge.judge.context import ObjectLookups, build_context
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.solver.deviations import UPSTREAM
from e2e.checker.quantities import Json
from e2e.differential.ours import encoded, sure, world_of
from e2e.differential.seeds import compare_seeds
from e2e.differential.theirs import Oracle
from e2e.differential.tighten import tightened
from e2e.generator import scenario
from e2e.oracle.build import binary

BLOCK = 25
EXAMPLES = 10
GENERATED = "generated"


@dataclass
class Tally:
    """Sums over scenarios. `wrong` describes satisfiable scenarios that were refused."""

    satisfiable: int = 0
    unsatisfiable: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Take in what another process counted."""
        self.satisfiable += other.satisfiable
        for name in ("unsatisfiable", "refused", "warned", "codes"):
            getattr(self, name).update(getattr(other, name))
        self.silent += other.silent
        self.wrong += other.wrong


def judge_scenario(asked: Json) -> tuple[Finding, ...]:
    """Judge the claims of a scenario as those of one pod, where kube-scheduler allocates."""
    world = world_of(asked, UPSTREAM).as_upstream()
    reader = node_reader()
    nodes = [sure(reader.read(encoded(each))) for each in asked["nodes"]]
    context = build_context(world, nodes, lookups=ObjectLookups(complete=True))
    claims = [sure(read_claim(encoded(each))) for each in asked["claims"]]
    judged = tuple(JudgedClaim(each, f"ResourceClaim/{each.metadata.name}") for each in claims)
    return judge_subject(Subject("Pod/default/p", "default", judged), context)


def is_satisfiable(asked: Json, oracle: Oracle) -> bool | None:
    """Whether any node has an allocation; None if the allocator ran out of time."""
    verdicts = {each["verdict"] for each in oracle.answer(asked).values()}
    if "allocated" in verdicts:
        return True
    return None if verdicts & {"timeout", "panic"} else False


def judge_seeds(seeds: range) -> Tally:
    """Judge the scenarios of these seeds, and their boundary pairs."""
    tally, oracle = Tally(), Oracle(binary())
    for seed in seeds:
        original = without_config(scenario(seed))
        asked = original | {"allocated": []}
        satisfiable = is_satisfiable(asked, oracle)
        if satisfiable is not None:
            compare(asked, original, GENERATED, tally, oracle, satisfiable=satisfiable)
        if satisfiable:
            follow(asked, original, seed, tally, oracle)
    oracle.close()
    return tally


def follow(asked: Json, original: Json, seed: int, tally: Tally, oracle: Oracle) -> None:
    """Tighten a satisfiable scenario until it is not, and judge both sides of the boundary."""
    name, tighter = tightened(asked, seed)
    last = None
    for demand in tighter:
        satisfiable = is_satisfiable(demand, oracle)
        if satisfiable:
            last = demand
            continue
        if satisfiable is False:
            compare(demand, original, name, tally, oracle, satisfiable=False)
        break
    if last is not None:
        compare(last, original, name, tally, oracle, satisfiable=True)


def compare(  # noqa: PLR0913  # what is compared, and where it is counted
    asked: Json,
    original: Json,
    name: str,
    tally: Tally,
    oracle: Oracle,
    *,
    satisfiable: bool,
) -> None:
    """Judge a scenario, and count the judgement."""
    findings = judge_scenario(asked)
    refused = any(each.severity is Severity.ERROR for each in findings)
    tally.satisfiable += satisfiable
    where = f"seed {asked['seed']} {name}"
    if refused:
        states = (asked, asked | {"allocated": original["allocated"]}, untainted(asked))
        if satisfiable or any(is_satisfiable(each, oracle) for each in states[1:]):
            tally.wrong.append(
                f"{where}: {findings[0].code} {findings[0].path}: {findings[0].message}"
            )
    if not satisfiable:
        tally.unsatisfiable[name] += 1
        tally.refused[name] += refused
        tally.warned[name] += bool(findings) and not refused
        tally.codes.update({f"{each.code} ({each.severity})" for each in findings})
        if not findings:
            tally.silent.append(where)


def without_config(asked: Json) -> Json:
    """The scenario without configuration for the driver, which no allocator reads."""
    copied: Json = copy.deepcopy(asked)
    for device_class in copied["classes"]:
        device_class["spec"].pop("config", None)
    for claim in copied["claims"]:
        claim["spec"]["devices"].pop("config", None)
    return copied


def untainted(asked: Json) -> Json:
    """The scenario when all taints are removed, which any administrator can do."""
    slices = []
    for slice_ in asked["slices"]:
        devices = [
            {key: value for key, value in device.items() if key != "taints"}
            for device in slice_["spec"].get("devices", ())
        ]
        spec = slice_["spec"] | ({"devices": devices} if devices else {})
        slices.append(slice_ | {"spec": spec})
    return asked | {"slices": slices, "rules": []}


def share(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{part / max(1, whole):.1%}"


def describe(tally: Tally) -> list[str]:
    """The figures, one line for each field that was tightened and each code."""
    total = tally.unsatisfiable.total()
    caught = tally.refused.total() + tally.warned.total()
    refused = share(tally.refused.total(), total)
    lines = [
        f"scenarios: {tally.satisfiable + total}, satisfiable: {tally.satisfiable}",
        f"satisfiable and refused: {len(tally.wrong)}",
        *tally.wrong[:EXAMPLES],
        f"unsatisfiable: {total}, reported: {share(caught, total)}, refused: {refused}",
    ]
    for name, count in sorted(tally.unsatisfiable.items()):
        reported = share(tally.refused[name] + tally.warned[name], count)
        among = share(tally.refused[name], count)
        lines.append(f"  {name}: {count}, reported: {reported}, refused: {among}")
    lines += [f"  {code}: {count}" for code, count in sorted(tally.codes.items())]
    return [*lines, f"without a finding: {', '.join(tally.silent[:EXAMPLES]) or 'none'}"]


def main() -> int:
    """Judge the seeds in blocks over processes, and print the figures."""
    tally = Tally()
    seconds = compare_seeds(judge_seeds, tally.add, BLOCK)
    if seconds is None:
        return 0
    print("\n".join(describe(tally)))  # noqa: T201  # a command's output
    print(f"{seconds:.0f} s")  # noqa: T201  # a command's output
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
