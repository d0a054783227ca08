"""Scenarios: Drawbridge is uninstalled as docs/installing.md says."""

from collections import Counter
from pathlib import Path

from e2e.installed import manifest
from e2e.installed.installation import Installation, installed
from e2e.scenarios.admission import NEEDS, legacy_pod
from e2e.scenarios.admission_quota import KINDS, create, held, shared
from e2e.scenarios.reconcilers import DUAL, HOOKS, MODE, QUOTA
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

PAGE = Path(__file__).parents[2] / "docs" / "installing.md"
PROMPT = "$ kubectl "
RIGS["removed"] = default_options


def commands() -> list[list[str]]:
    """Read the commands of the page; the folder of the reader's own patches is ours here."""
    part = PAGE.read_text(encoding="utf-8").partition("## Roll back")[2]
    lines = [each.removeprefix(PROMPT) for each in part.splitlines() if each.startswith(PROMPT)]
    return [
        [str(manifest.BASE) if word == "." else word for word in line.split()] for line in lines
    ]


def follow(cluster: Installation, words: list[str]) -> None:
    """Return a command as an administrator would."""
    if words[:2] == ["delete", "-k"]:
        # No kubelet ends the processes with their Deployments here.
        for replica in cluster.replicas:
            assert replica.stop() == 0, replica.name
    cluster.kubectl(*words).check()


def left(stage: Stage) -> list[str]:
    """Say what of ours could still decide about anything."""
    everywhere = {
        "/api/v1/namespaces": MODE,
        "/api/v1/nodes": DUAL,
        "/api/v1/resourcequotas": QUOTA,
        HOOKS.rpartition("/")[0]: "drawbridge",
    }
    paths = []
    for path, name in everywhere.items():
        for item in stage.client.get(path)["items"]:
            about = item["metadata"]
            if name == about["name"] or name in about.get("labels", {}):
                paths.append(f"{path}/{about['name']}")
    return paths


@scenario("full", rig="removed", needs=NEEDS)
def uninstalling_as_documented_leaves_running_pods_alone(stage: Stage) -> None:
    """Pods with claims keep running. A new pod stays legacy, and no mirrored quota counts it."""
    cluster = installed(stage)
    stage.enter(shared(stage, cluster))
    for number in range(2):
        for kind in KINDS:
            assert not create(stage, kind, number)
            stage.wait_running(f"{kind}-{number}")
    assert left(stage)
    for words in commands():
        follow(cluster, words)
    assert not left(stage)
    asked = legacy_pod(stage, "afterwards")
    assert stage.client.create(stage.pod_path(), asked)["spec"].get("resourceClaims") is None
    stage.wait_running("afterwards")
    assert held(stage) == Counter(claims=2, plugins=3)
