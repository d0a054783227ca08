"""The processes of bridge placement in the rig: their hosts, options and configuration."""

import subprocess
import sys

import pytest
import yaml

from config.load import load_configuration
from config.model import Configuration, Placement
from e2e.bridge.pair import on_host
from e2e.bridge.placement import COMPONENT, HEADER, bridge_fields, container_words
from e2e.installed.manifest import find
from e2e.scenarios.bridge_translated import runs_in_bridge_placement
from e2e.scenarios.translated import cases
from registration.codes import CODES


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
    deployment = find(yaml.safe_load_all(text), "Deployment", "drawbridge-scheduler")
    words = container_words(deployment)
    assert "--leader-elect-resource-namespace=drawbridge-system" in words["scheduler"]
    assert any(word.startswith("--socket=") for word in words["allocator"])


@pytest.mark.parametrize("unfenced", [False, True])
def test_every_driver_of_the_rig_is_owned(*, unfenced: bool) -> None:
    value = yaml.safe_load(HEADER + bridge_fields(unfenced=unfenced))
    loaded = load_configuration(value, CODES)
    assert isinstance(loaded, Configuration), loaded
    assert loaded.placement is Placement.BRIDGE
    assert {each.unfenced for each in loaded.owned_pools} == {unfenced}


def test_every_dialect_without_rules_or_a_scheduler_of_its_own_runs() -> None:
    examples = {each.example for each in cases() if each.example}
    played = {each.example for each in cases() if runs_in_bridge_placement(each)}
    left = {each.rpartition("/")[2].removesuffix(".yaml") for each in examples - played}
    assert left == {"kai", "koordinator", "volcano"}
