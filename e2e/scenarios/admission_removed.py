"""Everything removed by the words of docs/installing.md: nothing of ours goes on deciding."""

from collections import Counter
from pathlib import Path

from e2e.installed import manifest
from e2e.installed.installation import Installed, installed
from e2e.scenarios.admission import NEEDS, legacy
from e2e.scenarios.admission_quota import KINDS, create, held, shared
from e2e.scenarios.kept import DUAL, HOOKS, MODE, QUOTA
from e2e.scenarios.registry import RIGS, scenario, stock
from e2e.scenarios.stage import Stage

PAGE = Path(__file__).parents[2] / "docs" / "installing.md"
PROMPT = "$ kubectl "
RIGS["removed"] = stock


def commands() -> list[list[str]]:
    """Read the commands of the page; the folder of the reader's own patches is ours here."""
    part = PAGE.read_text(encoding="utf-8").partition("## Roll back")[2]
    lines = [each.removeprefix(PROMPT) for each in part.splitlines() if each.startswith(PROMPT)]
    return [
        [str(manifest.BASE) if word == "." else word for word in line.split()] for line in lines
    ]


def follow(town: Installed, words: list[str]) -> None:
    """Give a command as an administrator would."""
    if words[:2] == ["delete", "-k"]:
        # Kubelets end the processes with their Deployments; here nobody else does.
        for replica in town.replicas:
            assert replica.stop() == 0, replica.name
    town.kubectl(*words).done()


def left(stage: Stage) -> list[str]:
    """Say what of ours could still decide about anything."""
    everywhere = {
        "/api/v1/namespaces": MODE,
        "/api/v1/nodes": DUAL,
        "/api/v1/resourcequotas": QUOTA,
        HOOKS.rpartition("/")[0]: "drawbridge",
    }
    found = []
    for path, name in everywhere.items():
        for each in stage.client.get(path)["items"]:
            about = each["metadata"]
            if name == about["name"] or name in about.get("labels", {}):
                found.append(f"{path}/{about['name']}")
    return found


@scenario("full", rig="removed", needs=NEEDS)
def what_is_removed_by_the_book_decides_nothing_any_more(stage: Stage) -> None:
    """Pods with claims go on running; a new pod is what its manifest says, and is not counted."""
    town = installed(stage)
    stage.enter(shared(stage, town))
    for number in range(2):
        for kind in KINDS:
            assert not create(stage, kind, number)
            stage.running(f"{kind}-{number}")
    assert left(stage)
    for words in commands():
        follow(town, words)
    assert not left(stage)
    asked = legacy(stage, "afterwards")
    assert stage.client.create(stage.pod_path(), asked)["spec"].get("resourceClaims") is None
    stage.running("afterwards")
    assert held(stage) == Counter(claims=2, plugins=3)
