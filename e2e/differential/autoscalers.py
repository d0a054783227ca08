"""Asks whether autoscalers would add a node for translated pods, and whether they then run.

    python -m e2e.differential.autoscalers [pods] [seed] [--karpenter]

Cluster Autoscaler copies an existing node of a group with its slices under other names, and asks
the plugin of kube-scheduler whether a waiting pod fits the copy. Here Kubernetes' own allocator is
asked the same of an empty copy. Our solver then says where the scheduler of the placement puts the
pod on such a node. Exit code 1 if the two differ with native placement.

Karpenter asks an allocator of its own. With --karpenter it is asked too, with the devices of the
node as what the cloud provider says of an instance type; its program builds for a long time.
"""

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from drawbridge.config.model import Configuration, Placement
from drawbridge.dra.classes import read_class
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.slices import read_slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.solver.deviations import OURS, UPSTREAM
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from e2e.checker.quantities import Json
from e2e.differential.ours import answer, encoded, sure
from e2e.differential.theirs import Oracle, Program
from e2e.nodes.family import CLASSES, FAMILIES
from e2e.nodes.machine import machine
from e2e.nodes.slices import objects
from e2e.oracle.build import binary, karpenter
from e2e.scenarios.objects import device_class

VERSION: Final = "1.36"
TEMPLATE: Final = "template-node-for-group"
EXAMPLES: Final = 5
ALLOCATED: Final = "allocated"
_CLAIM: Final = re.compile(r'^validating claim "[^"]*": claim "[^"]*"( request "[^"]*")?: ')
JOINT: Final = {
    "scheduling.koordinator.sh/device-joint-allocate": (
        '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}'
    )
}
GPU, HAMI, NIC = "gpu.nvidia.com", "hami-core-gpu.project-hami.io", "dra.net"
# The node groups: a machine with its drivers and their modes.
GROUPS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "a100": ("dgx-a100", {GPU: "full", NIC: ""}),
    "h100": ("hgx-h100", {GPU: "full", NIC: ""}),
    "pairs": ("koordinator-fake-8g4n", {GPU: "full", NIC: ""}),
    "partitions": ("dgx-a100", {GPU: "static-mig"}),
    "on-demand": ("lab-2g2n", {GPU: "dynamic-mig"}),
    "shares": ("lab-2g2n", {HAMI: ""}),
    "amd": ("lab-2amd", {"gpu.amd.com": "full"}),
    "intel": ("lab-2intel", {"gpu.intel.com": ""}),
}


class Drawn(NamedTuple):
    """What a pod asks by a dialect, and the group of the copied node."""

    dialect: str
    group: str
    limits: Mapping[str, int]
    annotations: Mapping[str, str] = {}


def _whole(draw: random.Random) -> Drawn:
    group = draw.choice(("a100", "h100", "pairs"))
    return Drawn("nvidia", group, {"nvidia.com/gpu": draw.randint(1, 9)})


def _partitions(draw: random.Random) -> Drawn:
    group = draw.choice(("partitions", "on-demand"))
    profile = draw.choice(("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"))
    return Drawn("nvidia mig", group, {f"nvidia.com/mig-{profile}": draw.randint(1, 8)})


def _share(draw: random.Random) -> Drawn:
    amounts = {"nvidia.com/gpu": draw.randint(1, 3), "nvidia.com/gpumem": draw.randint(1, 90) * 500}
    return Drawn("hami", "shares", {**amounts, "nvidia.com/gpucores": draw.randint(1, 10) * 10})


def _percent(draw: random.Random) -> Drawn:
    percent = draw.randint(1, 100)
    return Drawn(
        "hami percent", "shares", {"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": percent}
    )


def _joint(draw: random.Random) -> Drawn:
    group = draw.choice(("a100", "h100", "pairs"))
    gpus, nics = draw.randint(1, 8), draw.randint(1, 8)
    limits = {"koordinator.sh/gpu": 100 * gpus, "koordinator.sh/rdma": 100 * nics}
    return Drawn("koordinator joint", group, limits, JOINT)


def _token(draw: random.Random) -> Drawn:
    limits = {"nvidia.com/gpu": draw.randint(1, 8), "rdma/hca_shared_devices_a": 1}
    return Drawn("rdma token", draw.choice(("a100", "h100", "pairs")), limits)


def _amd(draw: random.Random) -> Drawn:
    return Drawn("amd", "amd", {"amd.com/gpu": draw.randint(1, 3)})


def _intel(draw: random.Random) -> Drawn:
    return Drawn("intel", "intel", {"gpu.intel.com/i915": draw.randint(1, 3)})


DIALECTS: Final[tuple[Callable[[random.Random], Drawn], ...]] = (
    _whole, _partitions, _share, _percent, _joint, _token, _amd, _intel,
)  # fmt: skip


class Group:
    """A node group: the slices of an existing node, and of the copy that a simulation adds."""

    def __init__(self, shape: str, drivers: Mapping[str, str]) -> None:
        self.template = self._slices(TEMPLATE, shape, drivers)
        existing = self._slices("existing", shape, drivers)
        classes = [device_class(name, expression) for name, expression in CLASSES.items()]
        self.classes = [
            {**each, "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"} for each in classes
        ]
        gates = gates_of_version(VERSION)
        assert isinstance(gates, Gates)
        read = FactsInput(
            tuple(sure(read_slice(encoded(each))) for each in existing),
            tuple(sure(read_class(encoded(each))) for each in self.classes),
            (),
        )
        self.facts = gather_facts(read, gates=gates).facts

    @staticmethod
    def _slices(node: str, shape: str, drivers: Mapping[str, str]) -> list[Json]:
        host = machine(node, shape)
        layouts = [FAMILIES[name].publish(host, mode or None) for name, mode in drivers.items()]
        return [each for layout in layouts for each in objects(layout)]

    def context(self, placement: Placement) -> TranslationContext:
        """Return what a translation needs; the scheduler of bridge placement runs."""
        facts: Facts = msgspec.structs.replace(self.facts, scheduler=True)
        return make_context(Configuration(placement=placement), facts)


def pod_of(drawn: Drawn) -> Json:
    """Return the legacy pod."""
    limits = {name: f"{amount}" for name, amount in drawn.limits.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team", "annotations": dict(drawn.annotations)},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
    }


def claims_of(pod: Json, context: TranslationContext) -> list[Json]:
    """Return the claims that the API server makes of the templates of a translated pod."""
    made = translate(pod, context, "team").templates
    claims: list[Json] = []
    for number, template in enumerate(made):
        spec: Json = msgspec.to_builtins(template.object)["spec"]
        metadata = {**spec.get("metadata", {}), "name": f"p-{number}", "namespace": "team"}
        claims.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {**metadata, "uid": f"uid-{number}"},
                "spec": spec["spec"],
            }
        )
    return claims


def question(group: Group, claims: list[Json]) -> Json:
    """Return the scenario: an empty copy of a node of the group."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": TEMPLATE, "labels": {"kubernetes.io/hostname": TEMPLATE}},
    }
    return {
        "name": "autoscaler",
        "version": VERSION,
        "gates": {},
        "nodes": [node],
        "slices": group.template,
        "classes": group.classes,
        "claims": claims,
        "allocated": [],
        "rules": [],
    }


class Answers(NamedTuple):
    """Whether each autoscaler adds a node, and whether the pod then runs there."""

    added: bool
    runs: bool
    karpenter: str | None  # the verdict of Karpenter with its message, if it was asked


class Counted:
    """Sums by placement and dialect, and examples of differences."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.differences: dict[tuple[str, str], list[str]] = {}

    def add(self, placement: str, drawn: Drawn, answers: Answers) -> None:
        """Count one pod."""
        line = f"{drawn.dialect} on {drawn.group}: {dict(drawn.limits)}"
        what = "node added" if answers.added else "no node"
        if answers.added != answers.runs:
            waits = "node added, and the pod waits"
            what = waits if answers.added else "no node, but the pod would run"
            self.differences.setdefault((placement, what), []).append(line)
        self.counts[placement, drawn.dialect, what] += 1
        if answers.karpenter is not None and answers.added != (answers.karpenter == ALLOCATED):
            added = "adds no node" if answers.added else "adds a node"
            theirs = f"only Karpenter {added}: {answers.karpenter}"
            self.differences.setdefault((placement, theirs), []).append(line)


def ask_karpenter(karpenter: Program, scenario: Json) -> str:
    """Return Karpenter's verdict for a new node, with the reason of its refusal."""
    answer = karpenter.ask(scenario)
    # The name of the claim differs from pod to pod.
    return _CLAIM.sub("", answer.get("message") or str(answer["verdict"]))


def play(pods: int, seed: int, karpenter: Program | None = None) -> Counted:
    """Draw pods until so many are translated, and ask for each placement."""
    draw = random.Random(seed)  # reproducible
    groups = {name: Group(*each) for name, each in GROUPS.items()}
    contexts = {
        (name, placement): each.context(placement)
        for name, each in groups.items()
        for placement in Placement
    }
    counted, oracle = Counted(), Oracle(binary())
    done = 0
    while done < pods:
        drawn = draw.choice(DIALECTS)(draw)
        group = groups[drawn.group]
        asked = {
            placement: question(group, claims)
            for placement in Placement
            if (claims := claims_of(pod_of(drawn), contexts[drawn.group, placement]))
        }
        done += bool(asked)
        for placement, scenario in asked.items():
            deviations = OURS if placement is Placement.BRIDGE else UPSTREAM
            answers = Answers(
                oracle.answer(scenario)[TEMPLATE]["verdict"] == ALLOCATED,
                answer(scenario, deviations)[TEMPLATE]["verdict"] == ALLOCATED,
                None if karpenter is None else ask_karpenter(karpenter, scenario),
            )
            counted.add(placement.value, drawn, answers)
    oracle.close()
    return counted


def main() -> int:
    """Print the sums and the first differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pods", nargs="?", type=int, default=2000)
    parser.add_argument("seed", nargs="?", type=int, default=1)
    parser.add_argument("--karpenter", action="store_true")
    arguments = parser.parse_args()
    program = Program(karpenter()) if arguments.karpenter else None
    counted = play(arguments.pods, arguments.seed, program)
    if program is not None:
        program.close()
    lines = [f"{' | '.join(key)}: {count}" for key, count in sorted(counted.counts.items())]
    for (placement, what), examples in sorted(counted.differences.items()):
        lines.append(f"{placement}: {what}: {len(examples)}")
        lines += [f"  {line}" for line in examples[:EXAMPLES]]
    print("\n".join(lines))  # noqa: T201  # a command's output
    differ = (placement for placement, what in counted.differences if "Karpenter" not in what)
    return int(Placement.NATIVE.value in differ)


if __name__ == "__main__":
    sys.exit(main())
