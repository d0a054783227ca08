"""Generates docs/placing.md, and e2e/koordinator/README.md with what each machine gives.

Fills the results of `tools.joint` on each machine and the fields of the rules into placing.md and
koordinator.md here, and compares the machines with Koordinator.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from drawbridge.config.model import Placement
from drawbridge.dra.rules import (
    Distinct,
    Joint,
    Near,
    Rules,
    RuleStrategy,
    encode_rules,
    rules_schema,
)
from e2e.koordinator.machines import OccupiedMachine
from e2e.koordinator.ours import answer
from e2e.koordinator.request import DeviceRequest
from e2e.koordinator.steps import ChosenHardware, place
from tools.joint import (
    IN_USE,
    MAX_GPUS,
    RELATED,
    UNRELATED,
    Groups,
    bridge_answer,
    count_devices,
    find_bridge_differences,
    find_derived_differences,
    find_differences,
    groups_by_root,
    koordinator_groups,
    nic_names,
    translate_joint,
)

TEXT: Final = Path(__file__).parent / "placing.md"
MACHINES: Final = Path(__file__).parent / "koordinator.md"
_PARTS: Final = ("joint[]", "near[]", "distinct[]", "strategy")
_EXAMPLE: Final = Rules(
    joint=(Joint(("gpu",), ("nic",), ("resource.kubernetes.io/pcieRoot",)),),
    strategy=RuleStrategy(devices="packed"),
)


def render_page() -> str:
    """Render the page of docs/."""
    return _render(TEXT)


def render_machines() -> str:
    """Render the page of all machines, beside the comparison with Koordinator."""
    return _render(MACHINES)


def _render(template: Path) -> str:
    text = template.read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: _parts()[found[1]], text)


@cache
def _parts() -> dict[str, str]:
    return {
        "plain": _table(RELATED, lambda shape, gpus: _native(shape, gpus, 100)),
        "counted": _table(RELATED, lambda shape, gpus: _native(shape, gpus, 100 * gpus)),
        "refused": translate_joint(UNRELATED[0], 1, 100).findings[0],
        "numa": _table(UNRELATED, lambda shape, gpus: _native(shape, gpus, 100, numa=True)),
        "derived": compare_derived(),
        "changed": translate_joint(UNRELATED[0], 1, 100, numa=True).findings[0],
        "small": translate_joint("hgx-h100", 4, 200).findings[0],
        "same": compare(),
        "bridge": _table(RELATED, _bridge),
        "bridge_same": compare_bridge(),
        "used": _table_in_use(),
        "example": _render_example(),
        "fields": _render_fields(),
    }


def compare() -> str:
    """Describe how the numbers differ from Koordinator's."""
    if differences := list(find_differences()):
        return "On an empty machine the numbers differ for " + "; ".join(differences) + "."
    return (
        "On an empty machine the results are equal: every line of the first two tables has the\n"
        "same GPUs and NICs on each root, and the same machines refuse the pod."
    )


def compare_derived() -> str:
    """Describe how derived attributes differ from a common attribute."""
    if differences := list(find_derived_differences()):
        return "The devices differ for " + "; ".join(differences) + "."
    return "Each pod of the table above then has the same groups, and the same devices."


def compare_bridge() -> str:
    """Describe how bridge placement differs from Koordinator on empty machines."""
    if differences := list(find_bridge_differences()):
        return "The numbers differ from Koordinator for " + "; ".join(differences) + "."
    return (
        "Every other cell, and every cell with `rdma: 100`, has the same numbers of devices on\n"
        "each root as Koordinator. No choice of devices satisfies a pod that is refused."
    )


def _table(shapes: tuple[str, ...], cell: Callable[[str, int], str]) -> str:
    rows = ["| GPUs | " + " | ".join(shapes) + " |", "|---" * (len(shapes) + 1) + "|"]
    for gpus in range(1, MAX_GPUS + 1):
        cells = (cell(shape, gpus) for shape in shapes)
        rows.append(f"| {gpus} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _native(shape: str, gpus: int, rdma: int, *, numa: bool = False) -> str:
    translated = translate_joint(shape, gpus, rdma, numa=numa)
    if not translated.groups:
        return f"refused: {translated.findings[0].partition(': ')[2].rpartition(' [')[0]}"
    nics = sum(number for _, number in translated.groups)
    if translated.groups == (count_devices(shape),):
        return f"all ({nics} NICs)"
    return f"{_runs(translated.groups)} ({nics} NIC{'s' if nics > 1 else ''})"


def _bridge(shape: str, gpus: int) -> str:
    """Return a cell; italic where Koordinator allocates nothing."""
    ours = bridge_answer(shape, gpus, 100 * gpus)
    if ours.chosen is None:
        return f"refused: {ours.refused.partition(': ')[2]}"
    text = _runs(groups_by_root(shape, ours.chosen))
    return text if koordinator_groups(shape, gpus, 100 * gpus) else f"*{text}*"


def _runs(groups: Groups) -> str:
    """Write equal groups once with their number."""
    runs = ((a, b, len(list(alike))) for (a, b), alike in groupby(groups))
    return ", ".join(f"{n} of {a}:{b}" if n > 1 else f"{a}:{b}" for a, b, n in runs)


def _render_example() -> str:
    text = json.dumps(json.loads(encode_rules(_EXAMPLE)), indent=2)
    return f"```json\n{text}\n```"


def _render_fields() -> str:
    """Render each part of the rules with its fields."""
    lines = ["| field | meaning |", "|---|---|"]
    for part, title in zip((Joint, Near, Distinct, RuleStrategy), _PARTS, strict=True):
        fields = rules_schema()["$defs"][part.__name__]["properties"]  # type: ignore[index]
        lines.append(f"| **`{title}`** | **{part.__doc__}** |")
        lines += [f"| `{name}` | {each['description']} |" for name, each in fields.items()]
    return "\n".join(lines)


def _table_in_use() -> str:
    rows = [
        "| machine | in use | requested | Koordinator | native | bridge |",
        "|---|---|---|---|---|---|",
    ]
    for case in IN_USE:
        occupied, request = case.occupied, case.request
        native = answer(occupied, request, Placement.NATIVE)
        cells = (
            case.shape,
            _devices(occupied, ChosenHardware(case.gpus, case.nics)) or "nothing",
            _requested(request),
            _taken(occupied, place(occupied, request)),
            "refused" if native.refused else _taken(occupied, native.chosen),
            _taken(occupied, answer(occupied, request).chosen),
        )
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _requested(request: DeviceRequest) -> str:
    gpus = "1 GPU" if request.gpus == 1 else f"{request.gpus} GPUs"
    if not request.rdma:
        return gpus
    return f"{gpus}, `rdma: {request.rdma}`" + ("" if request.same_pcie else ", no `requiredScope`")


def _taken(on: OccupiedMachine, chosen: ChosenHardware | None) -> str:
    return _devices(on, chosen) if chosen else "waits"


def _devices(on: OccupiedMachine, chosen: ChosenHardware) -> str:
    return " ".join([*(f"gpu-{number}" for number in chosen.gpus), *nic_names(on, chosen)])
