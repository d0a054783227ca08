"""Generates docs/joint.md: the translation of Koordinator's joint allocation on each machine.

Fills the results of `tools.joint` into the text of joint.md, and compares them with Koordinator.
"""

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from tools.joint import (
    MAX_GPUS,
    RELATED,
    UNRELATED,
    JointResult,
    koordinator_groups,
    make_cluster,
    translate_joint,
)
from tools.joint_bridge import (
    build_bridge_table,
    build_table_in_use,
    find_bridge_differences,
)

TEXT: Final = Path(__file__).parent / "joint.md"


def build_page() -> str:
    """Build the page."""
    parts = {
        "plain": _table(RELATED, lambda shape, gpus: translate_joint(shape, gpus, 100)),
        "counted": _table(RELATED, lambda shape, gpus: translate_joint(shape, gpus, 100 * gpus)),
        "given": _devices("aws-p4d"),
        "refused": translate_joint(UNRELATED[0], 1, 100).findings[0],
        "numa": _table(UNRELATED, lambda shape, gpus: translate_joint(shape, gpus, 100, numa=True)),
        "changed": translate_joint(UNRELATED[0], 1, 100, numa=True).findings[0],
        "small": translate_joint("hgx-h100", 4, 200).findings[0],
        "same": compare(),
        "bridge": build_bridge_table(lambda gpus: 100 * gpus),
        "bridge_same": compare_bridge(),
        "used": build_table_in_use(),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], TEXT.read_text("utf-8"))


def compare_bridge() -> str:
    """Describe how bridge placement differs from Koordinator on empty machines."""
    if found := list(find_bridge_differences()):
        return "The numbers differ from Koordinator for " + "; ".join(found) + "."
    return (
        "Every other cell, and every cell with `rdma: 100`, has the same numbers of devices on\n"
        "each root as Koordinator. No choice of devices satisfies a pod that is refused."
    )


def _table(shapes: tuple[str, ...], found: Callable[[str, int], JointResult]) -> str:
    rows = ["| GPUs | " + " | ".join(shapes) + " |", "|---" * (len(shapes) + 1) + "|"]
    for gpus in range(1, MAX_GPUS + 1):
        cells = (_cell(found(shape, gpus), shape) for shape in shapes)
        rows.append(f"| {gpus} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _cell(each: JointResult, shape: str) -> str:
    if not each.groups:
        text = each.findings[0].partition(": ")[2].rpartition(" [")[0]
        return f"refused: {text}"
    machine = make_cluster(shape).machine
    if each.groups == ((len(machine.gpus), len(machine.nics)),):
        return f"all ({each.nics} NICs)"
    runs = ((group, len(list(alike))) for group, alike in groupby(each.groups))
    texts = (f"{n} of {a}:{b}" if n > 1 else f"{a}:{b}" for (a, b), n in runs)
    return ", ".join(texts) + f" ({each.nics} NIC{'s' if each.nics > 1 else ''})"


def _devices(shape: str) -> str:
    rows = ["| GPUs | each group's devices |", "|---|---|"]
    for gpus in range(1, MAX_GPUS + 1):
        groups = (
            " ".join([*(f"gpu-{number}" for number in numbers), *names])
            for numbers, names in translate_joint(shape, gpus, 100).devices
        )
        rows.append(f"| {gpus} | " + ", ".join(groups) + " |")
    return "\n".join(rows)


def find_differences() -> Iterator[str]:
    """Yield the pods of the tables for which Koordinator takes other numbers of devices."""
    for shape in (*RELATED, *UNRELATED):
        for gpus in range(1, MAX_GPUS + 1):
            for rdma in dict.fromkeys((100, 100 * gpus)):
                ours, theirs = (
                    translate_joint(shape, gpus, rdma).groups,
                    koordinator_groups(shape, gpus, rdma),
                )
                if _numbers(shape, ours) != _numbers(shape, theirs or ()):
                    yield f"{shape} with {gpus} GPUs and rdma {rdma}"


def _numbers(shape: str, groups: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """Return the groups in sorted order; their sums if they take all devices of a machine."""
    total = (sum(gpus for gpus, _ in groups), sum(nics for _, nics in groups))
    machine = make_cluster(shape).machine
    return [total] if total == (len(machine.gpus), len(machine.nics)) else sorted(groups)


def compare() -> str:
    """Describe how the numbers differ from Koordinator's."""
    found = list(find_differences())
    if found:
        return "On an empty machine the numbers differ for " + "; ".join(found) + "."
    return (
        "On an empty machine the results are equal: every line of the first two tables has the\n"
        "same GPUs and NICs on each root, and the same machines refuse the pod."
    )
