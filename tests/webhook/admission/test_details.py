"""The command in the last warning prints the findings that do not fit."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.running import command
from tests.tables import YamlValue, write_yaml
from tests.webhook.admission.harness import AdmissionHarness, FakeClusterView, pod
from tests.webhook.admission.test_workloads import deployment
from webhook.admission.responses import compose_file_command

pytestmark = pytest.mark.asyncio
FACTS = {"classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]}
NUMBER = 24
LINE = compose_file_command("team")
# More warnings than fit.
CONTAINERS = [
    {
        "name": f"a-worker-{i:02}",
        "resources": {"limits": {"nvidia.com/gpu": 1}} if i == 0 else {},
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    for i in range(NUMBER)
]


def make_harness(mode: str) -> AdmissionHarness:
    labels = {"drawbridge.dev/translate": mode}
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": labels}))
    harness.configure({}, FACTS)
    return harness


def follow(folder: Path, line: str, manifest: YamlValue, *more: str) -> str:
    """Return what the command of a line prints, with the facts of the webhook."""
    (folder / "pod.yaml").write_text(write_yaml([manifest]))
    (folder / "facts.json").write_text(json.dumps(FACTS))
    words = line.removeprefix("details: drawbridge ").removesuffix(" --context").split()
    named = (str(folder / "pod.yaml") if each == "FILE" else each for each in words)
    return command(*named, "--facts", str(folder / "facts.json"), *more).err


@pytest.mark.parametrize("mode", ["enforce", "report"])
@pytest.mark.parametrize("dry_run", [False, True])
async def test_the_command_prints_the_findings_that_were_cut(
    tmp_path: Path, mode: str, *, dry_run: bool
) -> None:
    answer = await make_harness(mode).pod(pod(containers=CONTAINERS), dryRun=dry_run)
    *shown, last = answer.warnings
    assert last == LINE
    told = follow(tmp_path, last, pod(containers=CONTAINERS))
    assert {*answer.reply.codes} <= {*re.findall(r"\[(\w+)\]$", told, re.MULTILINE)}
    paths = [f"spec.containers[{i}].env[0]: NVIDIA_VISIBLE" for i in range(1, NUMBER)]
    assert not all(any(path in each for each in shown) for path in paths)
    assert [path for path in paths if path not in told] == []


async def test_the_command_names_the_namespace_that_decides(tmp_path: Path) -> None:
    bridge = {
        "placement": "bridge",
        "ownedPools": [{"driver": "gpu.nvidia.com", "nodeSelector": {"matchLabels": {"a": "b"}}}],
        "bridge": {"namespaceSelector": {"matchLabels": {"placed": "bridge"}}},
    }
    labels = {"drawbridge.dev/translate": "enforce", "placed": "bridge"}
    harness = AdmissionHarness(FakeClusterView(namespaces={"team": labels}))
    harness.configure(bridge, FACTS)
    answer = await harness.pod(pod(containers=CONTAINERS))
    assert "SchedulerOurs" in answer.reply.codes
    head = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    (config := tmp_path / "config.yaml").write_text(write_yaml([{**head, **bridge}]))
    meta = {"name": "team", "labels": labels}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    (file := tmp_path / "namespace.yaml").write_text(write_yaml([namespace]))
    manifest = pod(containers=CONTAINERS)
    manifest["metadata"].pop("namespace", None)
    told = follow(tmp_path, answer.warnings[-1], manifest, "--config", str(config), "-f", str(file))
    assert {*answer.reply.codes} <= {*re.findall(r"\[(\w+)\]$", told, re.MULTILINE)}


async def test_what_the_command_does_not_know_is_told_first() -> None:
    labelled = pod(containers=CONTAINERS)
    labelled["metadata"]["labels"] = {"drawbridge.dev/translate": "report"}
    answer = await make_harness("enforce").pod(labelled)
    translated, first, *_ = answer.warnings
    assert translated.startswith("translated: ")
    assert first.startswith("PodLabelUnknown: ")


@pytest.mark.parametrize(("name", "dry_run"), [("", False), ("train", True)])
async def test_the_command_for_a_workload_that_cannot_be_read_reads_a_file(
    name: str, *, dry_run: bool
) -> None:
    spec = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    answer = await make_harness("enforce").workload(deployment({}, spec), name=name, dryRun=dry_run)
    assert answer.warnings[-1] == LINE
