"""Plans of generated clusters, typed on a cluster that knows nothing of the models.

With `THOROUGH=1`, a thousand of them.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.audit.generated_clusters import draw
from tests.audit.played_commands import Typist
from tests.cli.running import command
from tests.tables import write_yaml
from tests.thorough import drawn

# In these, a pod waits for the devices that a step frees before it drains the node.
WAITING = {62, 105, 409}
SEEDS = sorted({*range(drawn(12, 1_000)), *WAITING})


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_leaves_what_it_says(seed: int, tmp_path: Path) -> None:
    play(seed, 5 + seed % 16, tmp_path)


def play(seed: int, nodes: int, folder: Path) -> None:
    """Audit a cluster, type all commands of the plan, and compare."""
    objects = draw(seed, nodes)
    file = folder / "cluster.yaml"
    file.write_text(write_yaml(objects))
    printed = command("audit", "--cluster", str(file), "-o", "json")
    assert printed.code == 0, printed
    steps: list[dict[str, Any]] = json.loads(printed.out)["steps"]
    typist = Typist(objects)
    before = Counter(f"{each.space}/{each.owner}" for each in typist.pods.values())
    named: set[str] = set()
    for step in steps:
        for each in step["commands"]:
            typist.type(each)
        named |= {text.partition(":")[0] for text in step["loses"]}
        assert typist.lost == named, (step["title"], typist.lost, named)
        assert typist.overlaps() == [], step["title"]
    now = Counter(f"{each.space}/{each.owner}" for each in typist.pods.values())
    assert {key: n for key, n in before.items() if key not in named} == now
    assert not typist.suspended
