"""What admission says of the cases of the rig is what the rig expects, without a control plane."""

import asyncio
import copy
import json
from pathlib import Path
from typing import cast

import pytest
import yaml

from drawbridge.dra.quantity import from_json
from e2e.controlplane.client import Client
from e2e.installed.kubectl import CommandResult
from e2e.nodes.fleet import Fleet
from e2e.runner import create_classes
from e2e.scenarios import translated
from e2e.scenarios.admission_dialects import compare, says, told
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import REFUSED, ManifestCase, cases
from tests.cli.running import command
from tests.tables import YamlValue
from tests.webhook.admission.harness import ENFORCE, HEAD, AdmissionHarness, Response

ADMIN = "resource.kubernetes.io/admin-access"
KINDS = {
    "/api/v1/nodes": ("v1", "Node"),
    "/apis/resource.k8s.io/v1/deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
    "/apis/resource.k8s.io/v1/resourceslices": ("resource.k8s.io/v1", "ResourceSlice"),
}


class RecordingClient:
    """Keeps what is created."""

    def __init__(self) -> None:
        self.objects: list[YamlValue] = []

    def create(self, path: str, body: YamlValue) -> YamlValue:
        """Keep an object with its kind and a UID."""
        api_version, kind = KINDS[path]
        made = {"apiVersion": api_version, "kind": kind, **copy.deepcopy(body)}
        made["metadata"]["uid"] = f"uid-{len(self.objects)}"
        self.objects.append(made)
        return made

    def apply(self, path: str, body: YamlValue) -> YamlValue:
        """Keep an object."""
        return self.create(path.rpartition("/")[0], body)

    def get(self, *_: YamlValue, **__: YamlValue) -> YamlValue:
        """Return no objects: nothing was there before."""
        return {"items": []}


def facts_of(case: ManifestCase, folder: Path) -> tuple[Stage, YamlValue, YamlValue]:
    """Return a stage with the nodes of a case, its configuration, and the facts of its cluster."""
    client = RecordingClient()
    with Fleet(cast("Client", client), asleep=True) as fleet:
        create_classes(cast("Client", client))
        name = f"admitted-{case.name}"
        stage = Stage(name, "1.36", cast("Client", client), fleet, None)
        translated.build(case, stage)
    cluster = folder / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": client.objects}))
    configuration = yaml.safe_load(
        case.configuration.replace(translated.NAMESPACE, stage.namespace)
    )
    whole = {**HEAD, "kind": "Configuration", **(configuration or {})}
    written = folder / "config.json"
    written.write_text(json.dumps(whole))
    words = ("--config", f"{written}", "--kubernetes-version", "1.36", "-o", "json")
    printed = command("config", "facts", "--cluster", f"{cluster}", *words)
    assert printed.code == 0, printed
    return stage, whole, json.loads(printed.out)


TOLD = told()
CASES = [case for case in cases() if not case.jobs and not case.scheduler]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_admission_says_what_the_rig_expects(case: ManifestCase, tmp_path: Path) -> None:
    stage, configuration, facts = facts_of(case, tmp_path)
    harness = AdmissionHarness()
    harness.cluster.namespaces = {stage.namespace: {**ENFORCE, ADMIN: "true"}}
    harness.configure(configuration, facts)
    made = [*map(stored, yaml.safe_load_all(translated.manifest(stage, case)))]
    answers = asyncio.run(review_all(harness, stage.namespace, made))
    # kubectl prints each line once.
    lines = dict.fromkeys(f"Warning: {each}\n" for answer in answers for each in answer.warnings)
    compare(CommandResult((), 0, "", "".join(lines)), TOLD[case.name].warnings)
    refused = [each.status["message"] for each in answers if not each.allowed]
    assert bool(refused) == (case.exit == REFUSED)
    for each in refused:
        assert says(f"denied the request: {each}", TOLD[case.name].refused)


def stored(value: YamlValue) -> YamlValue:
    """Return a value as the API server sends it: sorted, with canonical quantities."""
    if isinstance(value, list):
        return [stored(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: f"{from_json(each)}" for name, each in sorted(value[key].items())}
        if key in ("limits", "requests")
        else stored(value[key])
        for key in sorted(value)
    }


async def review_all(
    harness: AdmissionHarness, namespace: str, made: list[YamlValue]
) -> list[Response]:
    """Review objects one after the other."""
    answers = []
    for applied in made:
        applied["metadata"]["namespace"] = namespace
        review = harness.pod if applied["kind"] == "Pod" else harness.workload
        answers.append(await review(applied, namespace=namespace))
    return answers
