"""All commands name what is planted, with one holder, and nothing in clean clusters."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cli.input.files import read_values
from cli.served_page.objects import ReadObjects
from drawbridge.config.model import Scope
from drawbridge.report.page.stuck import find_stuck_on_page
from tests.cli.planted import NOW, PLANTS, Cluster, draw
from tests.cli.running import command, on_api


def write(cluster: Cluster, path: Path) -> str:
    heartbeat = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n0", "namespace": "kube-node-lease"},
        "spec": {"renewTime": NOW},
    }
    items = [*cluster.objects, heartbeat]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_planted_problems_are_named_and_nothing_else(tmp_path: Path) -> None:
    cluster = draw(1, 12)
    planted = [plant(cluster) for plant in PLANTS]
    done = command("audit", "--cluster", write(cluster, tmp_path / "dump.json"), "-o", "json")
    told = {each["object"] for each in json.loads(done.out)["stuck"]}
    assert len({*planted}) == len(PLANTS)
    assert told == {*planted}


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_stuck_in_a_clean_cluster(tmp_path: Path, seed: int) -> None:
    done = command(
        "audit", "--cluster", write(draw(seed, 12), tmp_path / "dump.json"), "-o", "json"
    )
    assert json.loads(done.out)["stuck"] == []


@pytest.mark.parametrize("number", range(len(PLANTS)))
def test_audit_and_explain_name_the_same_holder(tmp_path: Path, number: int) -> None:
    cluster = draw(2, 6)
    name = PLANTS[number](cluster)
    path = write(cluster, tmp_path / "dump.json")
    every = json.loads(command("audit", "--cluster", path, "-o", "json").out)["stuck"]
    # A node that is down holds other pods, too.
    (stuck,) = (each for each in every if each["object"] == name)
    exist = {f"{e['metadata'].get('namespace')}/{e['metadata']['name']}" for e in cluster.objects}
    pods = [pod for pod in stuck["pods"] if pod in exist]
    for pod in pods:
        told = command("explain", pod, "--cluster", path)
        assert f"held by {stuck['heldBy']}" in told.out
        assert f"[{stuck['code']}]" in told.out
    if stuck["devices"]:
        held = json.loads(command("explain", "devices", "--cluster", path, "-o", "json").out)
        assert stuck in held["stuck"] or name.startswith("Namespace/")
    assert pods or stuck["devices"] or stuck["code"] == "ConsumerGone"


def test_what_is_stuck_has_a_line_with_its_holder(tmp_path: Path) -> None:
    claim: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "left", "namespace": "team-a"},
        "spec": {},
        "status": {"reservedFor": [{"resource": "pods", "name": "gone", "uid": "u"}]},
    }
    printed = on_api(tmp_path, [claim], "doctor", "-o", "json")
    (line,) = (e for e in json.loads(printed.out)["checks"] if e["check"] == "stuck")
    assert (line["code"], line["status"]) == ("ConsumerGone", "warning")
    assert line["message"].startswith("ResourceClaim/team-a/left: pod gone is gone; held by ")
    assert "kube-controller-manager" in line["remedy"]


def test_the_page_shows_what_the_audit_says(tmp_path: Path) -> None:
    cluster = draw(8, 12)
    for plant in PLANTS:
        plant(cluster)
    path = write(cluster, tmp_path / "dump.json")
    audited = json.loads(command("audit", "--cluster", path, "-o", "json").out)["stuck"]
    read = ReadObjects(Scope())
    for value in read_values([path], io.BytesIO(), []):
        read.add(value)
    shown = find_stuck_on_page(read.as_page_objects(), read.latest)
    assert {each.object for each in shown} == {each["object"] for each in audited}
