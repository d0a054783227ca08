"""Asks autoscalers for a claim of each form, and compares the answers with the table of verdicts.

    python -m e2e.differential.verdicts [--karpenter] [--program VERSION=PATH ...]

Kubernetes' own allocator is asked for Cluster Autoscaler, which calls the plugin of kube-scheduler
for a copy of a node. With --karpenter, Karpenter's allocator is asked with the devices of a node as
those of an instance type, and without any, as where its provider has no gate on: then it must
refuse each form of which the table says nothing else. Its versions are built, which takes long;
--program names one that is there. Exit code 1 if an answer differs from the table.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from drawbridge.agreement.verdicts import CLUSTER_AUTOSCALER, KARPENTER, Form, find_verdicts
from e2e.checker.quantities import Json
from e2e.differential.autoscalers import (
    ALLOCATED,
    GROUPS,
    TEMPLATE,
    Group,
    ask_karpenter,
    question,
)
from e2e.differential.theirs import Oracle, Program
from e2e.oracle.build import KARPENTER_PINS, binary, karpenter

GPU, HAMI, NIC = "gpu.nvidia.com", "hami-core-gpu.project-hami.io", "dra.net"
PCIE: Final = "resource.kubernetes.io/pcieRoot"
CLUSTER_AUTOSCALER_VERSION: Final = (1, 36)


class Asked(NamedTuple):
    """A claim that a node of a group satisfies."""

    group: str
    requests: tuple[Json, ...]
    constraints: tuple[Json, ...] = ()


def exactly(name: str, class_name: str, **fields: Any) -> Json:  # noqa: ANN401  # JSON
    """Return a request."""
    return {"name": name, "exactly": _wanted(class_name, **fields)}


def _wanted(class_name: str, count: int = 1, **fields: Any) -> Json:  # noqa: ANN401  # JSON
    """Return what is requested, with the defaults of the API server."""
    counted = {} if "allocationMode" in fields else {"allocationMode": "ExactCount", "count": count}
    return {"deviceClassName": class_name, **counted, **fields}


def _share(name: str) -> Json:
    return exactly(name, HAMI, capacity={"requests": {"memory": "1Gi"}})


CLAIMS: Final[Mapping[Form, Asked]] = {
    Form.COUNT: Asked("a100", (exactly("gpu", GPU, count=8),)),
    Form.SHARE: Asked("shares", (_share("gpu"),)),
    Form.PARTITION: Asked("on-demand", (exactly("mig", "mig.nvidia.com", count=2),)),
    Form.ALTERNATIVES: Asked(
        "a100",
        (
            {
                "name": "gpu",
                "firstAvailable": [
                    {"name": "many", **_wanted(GPU, 9)},
                    {"name": "few", **_wanted(GPU, 2)},
                ],
            },
        ),
    ),
    Form.JOINT: Asked(
        "a100",
        (exactly("gpu", GPU), exactly("nic", NIC)),
        ({"matchAttribute": PCIE, "requests": ["gpu", "nic"]},),
    ),
    Form.DISTINCT: Asked(
        "a100",
        (exactly("nic", NIC, count=2),),
        ({"distinctAttribute": f"{NIC}/pciAddress", "requests": ["nic"]},),
    ),
    Form.ALL: Asked("a100", (exactly("gpu", GPU, allocationMode="All"),)),
}


class Difference(NamedTuple):
    """An answer that is not the one of the table."""

    product: str
    form: Form
    serves: bool | None
    answer: str


def scenario_of(asked: Asked, *, described: bool = True) -> Json:
    """Return the question about one claim; without devices if nobody describes them."""
    devices = {"requests": list(asked.requests), "constraints": list(asked.constraints)}
    metadata = {"name": "c", "namespace": "team", "uid": "uid"}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": devices},
    }
    scenario = question(Group(*GROUPS[asked.group]), [claim])
    return scenario if described else {**scenario, "slices": []}


def compare(
    product: str, version: tuple[int, ...], answers: Mapping[Form, str]
) -> Iterator[Difference]:
    """Yield what differs between the answers of a program and the table."""
    table = {each.form: each.serves for each in find_verdicts(product, version)}
    for form, answer in answers.items():
        if table.get(form) is not (answer == ALLOCATED):
            yield Difference(product, form, table.get(form), answer)


def ask_scheduler() -> dict[Form, str]:
    """Return the answers of Kubernetes' allocator."""
    oracle = Oracle(binary())
    answers = {
        form: str(oracle.answer(scenario_of(asked))[TEMPLATE]["verdict"])
        for form, asked in CLAIMS.items()
    }
    oracle.close()
    return answers


def ask_each_of_karpenter(program: Path, *, described: bool) -> dict[Form, str]:
    """Return the answers of Karpenter's allocator."""
    running = Program(program)
    answers = {
        form: ask_karpenter(running, scenario_of(asked, described=described))
        for form, asked in CLAIMS.items()
    }
    running.close()
    return answers


def _find_programs(given: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for version in KARPENTER_PINS:
        if version in given:
            yield version, Path(given[version])
            continue
        try:
            yield version, karpenter(version)
        except subprocess.CalledProcessError:
            print(f"{KARPENTER} {version}: not asked, its build failed")  # noqa: T201  # a command


def _report(product: str, version: str, answers: Mapping[Form, str]) -> list[Difference]:
    number = tuple(map(int, version.split(".")))
    for form, answer in answers.items():
        print(f"{product} {version}: {form.value}: {answer}")  # noqa: T201  # a command's output
    return list(compare(product, number, answers))


def _report_unknown(version: str, answers: Mapping[Form, str]) -> list[Difference]:
    """Print what is served without devices of a provider, and return what differs."""
    served = {form for form, answer in answers.items() if answer == ALLOCATED}
    names = ", ".join(sorted(served)) or "none"
    print(f"{KARPENTER} {version}: served without devices of its provider: {names}")  # noqa: T201
    verdicts = find_verdicts(KARPENTER, tuple(map(int, version.split("."))))
    expected = {each.form for each in verdicts if each.serves_unknown}
    return [
        Difference(KARPENTER, form, form in expected, answers[form]) for form in served ^ expected
    ]


def main() -> int:
    """Print each answer, and what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--karpenter", action="store_true")
    parser.add_argument("--program", action="append", default=[], metavar="VERSION=PATH")
    arguments = parser.parse_args()
    version = ".".join(map(str, CLUSTER_AUTOSCALER_VERSION))
    differences = _report(CLUSTER_AUTOSCALER, version, ask_scheduler())
    given = dict(each.split("=", 1) for each in arguments.program)
    for version, program in _find_programs(given) if arguments.karpenter else ():
        answers = ask_each_of_karpenter(program, described=True)
        differences += _report(KARPENTER, version, answers)
        unknown = ask_each_of_karpenter(program, described=False)
        differences += _report_unknown(version, unknown)
    for each in differences:
        print(f"differs: {each}")  # noqa: T201  # a command's output
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
