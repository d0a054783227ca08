"""Generates docs/placing.md: what joint requests become on published machines, and all rules."""

import json
import re
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from drawbridge.dra.rules import (
    Distinct,
    Joint,
    Near,
    Rules,
    RuleStrategy,
    encode_rules,
    rules_schema,
)
from e2e.koordinator.joint import (
    MAX_GPUS,
    RELATED,
    UNRELATED,
    Groups,
    count_devices,
    translate_joint,
)

TEXT: Final = Path(__file__).parent / "placing.md"
_PARTS: Final = ("joint[]", "near[]", "distinct[]", "strategy")
_EXAMPLE: Final = Rules(
    joint=(Joint(("gpu",), ("nic",), ("resource.kubernetes.io/pcieRoot",)),),
    strategy=RuleStrategy(devices="packed"),
)


def render_page() -> str:
    """Render the page of docs/."""
    text = TEXT.read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: _parts()[found[1]], text)


@cache
def _parts() -> dict[str, str]:
    return {
        "plain": _table(),
        "refused": translate_joint(UNRELATED[0], 1, 100).findings[0],
        "changed": translate_joint(UNRELATED[0], 1, 100, numa=True).findings[0],
        "small": translate_joint("hgx-h100", 4, 200).findings[0],
        "example": _render_example(),
        "fields": _render_fields(),
    }


def _table() -> str:
    rows = ["| GPUs | " + " | ".join(RELATED) + " |", "|---" * (len(RELATED) + 1) + "|"]
    rows += [
        f"| {gpus} | " + " | ".join(_native(each, gpus) for each in RELATED) + " |"
        for gpus in range(1, MAX_GPUS + 1)
    ]
    return "\n".join(rows)


def _native(shape: str, gpus: int) -> str:
    """Return the groups of a pod with one NIC for each root."""
    groups = translate_joint(shape, gpus, 100).groups
    nics = sum(number for _, number in groups)
    if groups == (count_devices(shape),):
        return f"all ({nics} NICs)"
    return f"{_runs(groups)} ({nics} NIC{'s' if nics > 1 else ''})"


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
