"""The processes of bridge placement in the rig: their hosts, options and configuration."""

import subprocess
import sys
from typing import Any

import pytest

from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration, Placement
from e2e.bridge.judgement import broken_rules
from e2e.bridge.pair import on_host
from e2e.bridge.placement import COMPONENT, HEADER, bridge_fields, container_words
from e2e.bridge.timings import Kind, row
from e2e.installed.manifest import find
from e2e.scenarios import objects
from e2e.scenarios.bridge_translated import runs_in_bridge_placement
from e2e.scenarios.translated import cases
from e2e.timings import Run
from tests.tables import read_yaml, read_yaml_documents


def test_a_process_runs_on_a_host_of_its_own() -> None:
    program = "import socket; print(socket.gethostname())"
    ran = subprocess.run(  # noqa: S603  # the interpreter of the tests
        on_host("pair-7", [sys.executable, "-c", program]),
        check=False,
        capture_output=True,
        text=True,
    )
    if "unshare" in ran.stderr:
        pytest.skip(f"NOT RUN: {ran.stderr.strip()}")
    assert ran.stdout == "pair-7\n"


def test_both_containers_have_the_options_of_the_manifests() -> None:
    text = (COMPONENT / "scheduler-deployment.yaml").read_text("utf-8")
    deployment = find(read_yaml_documents(text), "Deployment", "drawbridge-scheduler")
    words = container_words(deployment)
    assert "--leader-elect-resource-namespace=drawbridge-system" in words["scheduler"]
    assert any(word.startswith("--socket=") for word in words["allocator"])


@pytest.mark.parametrize("unfenced", [False, True])
def test_every_driver_of_the_rig_is_owned(*, unfenced: bool) -> None:
    value = read_yaml(HEADER + bridge_fields(unfenced=unfenced))
    loaded = accept_configuration(value, ACCEPTED_NAMES)
    assert isinstance(loaded, Configuration), loaded
    assert loaded.placement is Placement.BRIDGE
    assert {each.unfenced for each in loaded.owned_pools} == {unfenced}


def test_every_dialect_without_a_scheduler_of_its_own_runs() -> None:
    examples = {each.example for each in cases() if each.example}
    played = {each.example for each in cases() if runs_in_bridge_placement(each)}
    left = {each.rpartition("/")[2].removesuffix(".yaml") for each in examples - played}
    assert left == {"kai", "volcano"}


def test_ratios_compare_turns_that_were_played_beside_each_other() -> None:
    def runs(*rates: float) -> list[Run]:
        return [Run(rate, rate, {"a": 1.0, "b": 2.0, "kube-apiserver": 3.0}) for rate in rates]

    told = row("single", Kind("pair", "drawbridge", ("a", "b")), runs(60, 30), runs(30, 20))
    assert told == "| single | pair | 60 30 | 2.00 1.50 | 1.0 + 2.0 | 3.0 |"


class ApiServer:
    """Two nodes with one GPU each."""

    @staticmethod
    def get(path: str) -> dict[str, Any]:
        """Return a collection."""
        nodes = [{"metadata": {"name": name, "labels": {}}, "spec": {}} for name in ("a", "b")]
        slices = [
            {
                "metadata": {"name": f"slice-{name}"},
                "spec": {
                    "driver": "d.io",
                    "nodeName": name,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "gpu"}],
                },
            }
            for name in ("a", "b")
        ]
        classes = [{"metadata": {"name": "gpu"}, "spec": {}}]
        objects = {"nodes": nodes, "resourceslices": slices, "deviceclasses": classes}
        return {"items": objects.get(path.rpartition("/")[2], [])}


def claim(name: str, pool: str, node: str) -> dict[str, Any]:
    result = {**objects.result("d.io", pool, "gpu")}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "spec": objects.claim_spec(
            objects.request("gpu", "gpu", allocationMode="ExactCount", count=1)
        ),
        "status": {"allocation": objects.allocation(node, [result])},
    }


@pytest.mark.usefixtures("oracle")
def test_each_allocation_is_judged_by_the_devices_of_its_node() -> None:
    def judge(*claims: dict[str, Any]) -> list[str]:
        return broken_rules(ApiServer(), "1.36", list(claims))  # type: ignore[arg-type]  # reads only

    assert judge() == []
    assert judge(claim("one", "a", "a"), claim("two", "b", "b")) == []
    assert any(
        "TakenTwice" in violation
        for violation in judge(claim("one", "a", "a"), claim("two", "a", "a"))
    )
    assert any("UnknownDevice" in each for each in judge(claim("one", "b", "a")))
