"""The rig's comparison of what pods have sees every difference; every dialect is played on it."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from drawbridge.translate.decisions.rows import ROWS
from drawbridge.translate.legacy.read import read_pod
from e2e.controlplane.client import Client
from e2e.nodes import order
from e2e.nodes.family import FAMILIES
from e2e.nodes.fleet import Fleet
from e2e.nodes.kubelet import Prepared
from e2e.nodes.machine import machine
from e2e.scenarios import holdings
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import ROOT, ManifestCase, cases
from tests.tables import read_yaml_documents

GPU, NIC, HAMI = "gpu.nvidia.com", "dra.net", "hami-core-gpu.project-hami.io"
NODE = "stage-a"


def pods_of(document: Any) -> Iterator[Any]:  # noqa: ANN401  # a manifest
    """The pods of a manifest, as they would be made."""
    if document["kind"] == "Pod":
        yield document
    elif "tasks" in document["spec"]:
        yield from (task["template"] for task in document["spec"]["tasks"])
    else:
        yield document["spec"]["template"]


def manifest(case: ManifestCase) -> str:
    if case.example:
        return (ROOT / "examples" / "legacy" / case.example).read_text(encoding="utf-8")
    return case.manifest


def test_every_dialect_is_played() -> None:
    spoken = {
        ask.row.partition("/")[0]
        for case in cases()
        for document in read_yaml_documents(manifest(case))
        for pod in pods_of(document)
        for ask in read_pod(pod).asks
    }
    assert {row.partition("/")[0] for row in ROWS} | {"vendors"} <= spoken


def test_every_example_is_played() -> None:
    examples = {path.name for path in (ROOT / "examples" / "legacy").glob("*.yaml")}
    assert {case.example for case in cases() if case.example} == examples


def test_a_case_that_is_translated_says_what_its_pods_have() -> None:
    for case in cases():
        assert bool(case.pods) == (case.exit != 2), case.name
        assert {at for pods in case.pods for at in pods.at} <= case.nodes.keys(), case.name


def test_names_differ_within_the_length_of_a_stage() -> None:
    names = [f"translated-{case.name}"[:40] for case in cases()]
    assert len(set(names)) == len(names)


class World:
    """A node and the books of its drivers, without an API server."""

    def __init__(self, fleet: Fleet, shape: str, modes: dict[str, str | None]) -> None:
        self.fleet = fleet
        hardware = fleet.machines[NODE] = machine(NODE, shape)
        for name, mode in modes.items():
            layout = FAMILIES[name].publish(hardware, mode)
            fleet.published[name, NODE] = layout
            fleet.driver(name).settle(layout)

    def prepare(self, *results: dict[str, Any]) -> None:
        """Note in the books that these were prepared for the pod."""
        whole = [{"pool": NODE, **result} for result in results]
        claim = {
            "metadata": {"namespace": "e2e-stage", "name": "made", "uid": "c"},
            "status": {"allocation": {"devices": {"results": whole}}},
        }
        drivers = sorted({result["driver"] for result in whole})
        for name in drivers:
            station = self.fleet.driver(name).stations[NODE]
            station.prepared["c"] = order.read(name, NODE, claim)
        prepared = Prepared(NODE, "c", "e2e-stage", "made", drivers, pods={"u"})
        prepared.devices = [
            (one["driver"], SimpleNamespace(pool_name=NODE, device_name=one["device"]))
            for one in whole
        ]
        self.fleet.kubelet.prepared[NODE, "c"] = prepared

    def compare(self, wanted: dict[str, Any], *requests: str) -> None:
        """Compare a pod whose one container refers to these requests."""
        uses = [{"name": "own", "request": request} for request in requests]
        pod = {
            "metadata": {"name": "one", "uid": "u"},
            "spec": {
                "nodeName": NODE,
                "containers": [{"name": "main", "resources": {"claims": uses}}],
            },
            "status": {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "made"}]},
        }
        about = {"name": "one", "at": ["a"], **wanted}
        stage = SimpleNamespace(
            namespace="e2e-stage", fleet=self.fleet, node_name=lambda suffix: f"stage-{suffix}"
        )
        holdings.compare(cast("Stage", stage), msgspec.convert(about, holdings.ExpectedPods), pod)


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with Fleet(cast("Client", None), asleep=True) as made:
        yield made


def gpu(name: str) -> dict[str, Any]:
    return {"request": "gpu", "driver": GPU, "device": name}


def nic(bus: str) -> dict[str, Any]:
    return {"request": "nic", "driver": NIC, "device": f"pci-0000-{bus}-00-0"}


PAIRS = (gpu("gpu-0"), gpu("gpu-1"), nic("0c"), nic("12"))
HAVE = {"devices": {"gpu": 2, "nic": 2}}


@pytest.mark.parametrize(
    ("results", "wanted", "requests", "problem"),
    [
        (PAIRS, {"roots": 1, "numa": 1, "ports": 2}, "gpu nic", ""),
        (PAIRS[:3], {}, "gpu nic", "main has"),
        ((*PAIRS[:3], nic("4b")), {"roots": 1}, "gpu nic", "root of GPUs"),
        ((*PAIRS[:3], nic("4b")), {"numa": 1}, "gpu nic", "numa of GPUs"),
        (PAIRS, {"roots": 2}, "gpu nic", "root: "),
        (PAIRS, {"ports": 1}, "gpu nic", "ports: "),
        ((gpu("gpu-0"), gpu("gpu-0"), *PAIRS[2:]), {}, "gpu nic", "device twice"),
        (PAIRS, {"containers": {"main": {"devices": {"gpu": 2}}}}, "gpu", "in its containers"),
        (PAIRS, {"at": ["b"]}, "gpu nic", "one is on stage-a"),
        (PAIRS, {"containers": {"main": HAVE, "more": {}}}, "gpu nic", "containers: "),
        (PAIRS, {"containers": {"main": {**HAVE, "units": {"x/y": 1}}}}, "gpu nic", "units: "),
    ],
)
def test_devices_are_compared(
    fleet: Fleet,
    results: tuple[dict[str, Any], ...],
    wanted: dict[str, Any],
    requests: str,
    problem: str,
) -> None:
    world = World(fleet, "dgx-a100", {GPU: "full", NIC: None})
    world.prepare(*results)
    wanted = {"containers": {"main": HAVE}, **wanted}
    if not problem:
        world.compare(wanted, *requests.split())
        return
    with pytest.raises(AssertionError, match=problem):
        world.compare(wanted, *requests.split())


@pytest.mark.parametrize(
    ("consumed", "same"),
    [
        ({"memory": "5Gi", "cores": "30"}, True),
        ({"memory": "5120Mi", "cores": "30"}, True),
        ({"memory": "6Gi", "cores": "30"}, False),
        ({"memory": "5Gi", "cores": "0"}, False),
        ({"memory": "5Gi"}, False),
    ],
)
def test_amounts_are_compared(fleet: Fleet, consumed: dict[str, str], *, same: bool) -> None:
    world = World(fleet, "lab-2g2n", {HAMI: None})
    device = {"request": "gpu", "driver": HAMI, "device": "hami-gpu-0", "shareID": "s"}
    world.prepare({**device, "consumedCapacity": consumed})
    have = {"devices": {"hami-gpu": 1}, "consumed": {"memory": "5Gi", "cores": "30"}}
    if same:
        world.compare({"containers": {"main": have}}, "gpu")
        return
    with pytest.raises(AssertionError, match="hami-gpu-0"):
        world.compare({"containers": {"main": have}}, "gpu")


def test_profiles_are_compared(fleet: Fleet) -> None:
    world = World(fleet, "lab-2g2n", {GPU: "static-mig"})
    world.prepare(gpu("gpu-0-mig-1g5gb-19-2"))
    have = {"devices": {"mig": 1}, "profile": "1g.5gb"}
    world.compare({"containers": {"main": have}}, "gpu")
    with pytest.raises(AssertionError, match="1g"):
        world.compare({"containers": {"main": {**have, "profile": "2g.10gb"}}}, "gpu")


def test_what_the_kubelet_does_not_know_of_is_no_holding(fleet: Fleet) -> None:
    world = World(fleet, "dgx-a100", {GPU: "full", NIC: None})
    world.prepare(*PAIRS)
    world.fleet.kubelet.prepared[NODE, "c"].devices.pop()
    with pytest.raises(AssertionError, match="kubelet: "):
        world.compare({"containers": {"main": HAVE}}, "gpu", "nic")
