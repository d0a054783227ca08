"""Scenarios: legacy manifests of every dialect go through admission and run.

The cases are those of translated.yaml with the same nodes, manifests and devices. Here `kubectl`
applies the legacy manifest in a namespace that is opted in, and `admission_dialects.yaml` lists the
expected messages. The module imports no product package.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import yaml

from e2e.installed.installation import Installation, installed, template_names
from e2e.installed.kubectl import CommandResult, Kubectl
from e2e.scenarios import holdings, translated, volcano
from e2e.scenarios.admission import NEEDS, ORIGINAL
from e2e.scenarios.admission_scope import configure, restored_configuration
from e2e.scenarios.admission_templates import PUBLISHED
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import MAKERS, NAMESPACE, REFUSED, TRANSLATED, ManifestCase
from e2e.scenarios.workload_checks import told_alike

TOLD = Path(__file__).with_name("admission_dialects.yaml")
GAP = " ... "
# The API server's error for replacing a running pod, translated or not.
FIXED = "pod updates may not change fields other than"
SMOKE = frozenset({"koordinator"})


class Told(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person reads when a manifest is applied, by the parts of each line that are stable.

    `refused` is why it is refused. Whoever applies once more reads nothing.
    """

    warnings: list[str] = []
    refused: str = ""


def told() -> dict[str, Told]:
    """Read what is expected of each case."""
    return msgspec.yaml.decode(TOLD.read_bytes(), type=dict[str, Told])


def play(case: ManifestCase, stage: Stage, cluster: Installation, wanted: Told | None) -> None:
    """Build the cluster, apply the manifest in every way there is, and look at its pods.

    Without `wanted` the messages may be any.
    """
    translated.build(case, stage)
    if case.configuration:
        stage.enter(configured(stage, cluster, case.configuration))
    decided(stage, cluster)
    kubectl = cluster.kubectl.inside(stage.namespace)
    text = translated.manifest(stage, case)
    if case.exit == REFUSED:
        drop_older_facts(stage, cluster)
        again = ("apply", "--dry-run=server", "-f", "-")
        stage.wait("admission refuses it", lambda: kubectl(*again, stdin=text).code)
    tried = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
    assert left_by(stage) == [], "a dry run leaves nothing"
    applied = kubectl("apply", "-f", "-", stdin=text)
    told_alike(applied, tried)
    if case.exit != REFUSED:
        applied.check()
    if wanted:
        compare(applied, wanted.warnings)
    if case.exit == REFUSED:
        _refused(stage, applied, wanted.refused if wanted else "")
        return
    try:
        _running(stage, case)
        _again(stage, kubectl, text)
    finally:
        # Only pods stay, for the report on a failure; no controller recreates them.
        kubectl("delete", MAKERS, "--all", "--cascade=orphan", "--wait=false").check()


def _refused(stage: Stage, applied: CommandResult, wanted: str) -> None:
    """Check what a person reads when a manifest is refused, and that nothing is there."""
    assert applied.code == 1, applied
    assert wanted, f"nothing says how it is refused\n{applied}"
    assert says(applied.err, wanted), applied
    assert left_by(stage) == [], "what is refused is not there"


def _running(stage: Stage, case: ManifestCase) -> None:
    """Wait until all pods run, and compare what they have."""
    if case.jobs:
        volcano.make_pods(stage)
    for pods in case.pods:
        for made in stage.wait(f"pods {pods.name}", partial(translated.made, stage, pods)):
            pod = stage.wait_running(made["metadata"]["name"])
            holdings.compare(stage, pods, pod)
            marked = ORIGINAL in pod["metadata"].get("annotations", {})
            assert marked == (case.exit == TRANSLATED), pod["metadata"]
    assert bool(template_names(stage)) == (case.exit == TRANSLATED)


def _again(stage: Stage, kubectl: Kubectl, text: str) -> None:
    """Apply, compare and replace what runs: all of it goes on as it is."""
    before = living(stage)
    different = kubectl("diff", "-f", "-", stdin=text)
    assert (different.code, different.out) == (0, ""), different
    again = kubectl("apply", "-f", "-", stdin=text).check()
    assert ("created" in again.out, again.warnings) == (False, []), again
    for pod in (one for one in yaml.safe_load_all(text) if one["kind"] == "Pod"):
        ran = kubectl("replace", "-f", "-", stdin=pod)
        assert ran.code == 1, ran
        assert FIXED in ran.err, ran
    assert living(stage) == before


def living(stage: Stage) -> dict[str, JSON]:
    """Return what must not change of running pods, by UID."""
    pods = stage.client.get(stage.pod_path())["items"]
    return {pod["metadata"]["uid"]: pod["spec"] for pod in pods}


def left_by(stage: Stage) -> list[str]:
    """Return the name of the pods, claims and templates of the namespace."""
    paths = (stage.pod_path(), stage.claim_path())
    objects = [one for path in paths for one in stage.client.get(path)["items"]]
    return [*(one["metadata"]["name"] for one in objects), *template_names(stage)]


def compare(ran: CommandResult, wanted: Sequence[str]) -> None:
    """Check that each expected line was printed, in order, and no other."""
    lines = ran.warnings
    assert len(lines) == len(wanted), f"{len(wanted)} lines are expected\n{ran}"
    for line, parts in zip(lines, wanted, strict=True):
        assert says(line, parts), f"expected {parts}\n{ran}"
        assert len(line) <= 256, line


def says(line: str, wanted: str) -> bool:
    """Return whether a line has these parts, one after the other."""
    for part in wanted.split(GAP):
        _, matched, line = line.partition(part)
        if not matched:
            return False
    return True


def decided(stage: Stage, cluster: Installation) -> None:
    """Wait until admission decides by what the cluster has now."""

    def published() -> bool:
        ran = cluster.drawbridge("config", "facts", "--context", "-o", "json").check()
        return _counted(json.loads(ran.out)) == _counted(cluster.facts() or {})

    def followed() -> bool:
        used = [each.messages("facts in use")[-1]["hash"] for each in cluster.webhooks]
        return used == [cluster.facts_hash()] * len(used)

    stage.wait("the controller has counted everything", published)
    stage.wait("both webhooks decide by it", followed)


def drop_older_facts(stage: Stage, cluster: Installation) -> None:
    """Drop the facts of earlier cases: devices that nodes offered then can come back."""
    data = stage.client.get(PUBLISHED)["data"]
    current = cluster.facts_hash().removeprefix("sha256:")[:16]
    older = [each for each in data if each not in ("current", f"facts-{current}.json")]
    stage.client.patch(PUBLISHED, {"data": dict.fromkeys(older)})


def _counted(facts: Mapping[str, object]) -> dict[str, object]:
    # The controller probes which fields the server keeps; the command derives it from the version:
    # 1.34 keeps tolerations of devices although their gate is off.
    return {name: item for name, item in facts.items() if name not in ("hash", "cluster")}


@contextlib.contextmanager
def configured(stage: Stage, cluster: Installation, text: str) -> Iterator[None]:
    """Let a case's configuration be in use."""
    with restored_configuration(stage, cluster) as whole:
        more: Mapping[str, object] = yaml.safe_load(text.replace(NAMESPACE, stage.namespace))
        configure(stage, cluster, yaml.safe_dump({**whole, **more}))
        yield


def _register(case: ManifestCase, wanted: Told) -> None:
    def play_it(stage: Stage) -> None:
        play(case, stage, installed(stage), wanted)

    play_it.__name__ = f"admitted_{case.name}".replace("-", "_")
    play_it.__doc__ = case.shows
    suite = "smoke" if case.name in SMOKE else "full"
    scenario(suite, since=case.since, rig="installed", needs=NEEDS)(play_it)


_told = told()
for _case in translated.cases():
    _register(_case, _told.get(_case.name, Told()))
