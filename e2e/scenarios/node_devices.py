"""Scenarios on real nodes: what containers get from drivers and plugins, and what restarts change.

What a container has is what it printed itself. It is compared with the books of the driver and with
the kubelet's podresources API.
"""

from e2e.realnodes.device_plugin import device_path, variable
from e2e.realnodes.stage import Printed, RealStage, container, real
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPUS = "gpu.nvidia.com"
LEGACY = "nvidia.com/gpu"


def expected(stage: RealStage, claim: JSON, *requests: str) -> Printed:
    """Return what a container must print that uses some requests of a claim, or all of it."""
    uid = claim["metadata"]["uid"]
    results = claim["status"]["allocation"]["devices"]["results"]
    variables: dict[str, str] = {}
    nodes = []
    for driver in sorted({result["driver"] for result in results}):
        node = next(result["pool"] for result in results if result["driver"] == driver)
        injected = stage.fleet.registered(driver).injected(node, uid)
        mine = [result for result in results if result["driver"] == driver]
        for given, result in zip(injected, mine, strict=True):
            if not requests or result["request"].partition("/")[0] in requests:
                variables |= given.variables
                nodes.append(given.node)
    return Printed(variables, tuple(sorted(nodes)))


@scenario("node", rig="nodes")
def a_container_has_exactly_the_devices_of_its_requests(stage: Stage) -> None:
    """Two containers use two requests of one claim, a third container has no device."""
    nodes = real(stage)
    machine = nodes.node("a", "dgx-a100", {GPUS: "full"})
    spec = claim_spec(request("two", GPUS, count=2), request("one", GPUS))
    nodes.template("gpus", spec)
    pod = nodes.pod_object("train", templates={"gpu": "gpus"})
    pod["spec"]["containers"] = [
        container(name="two", resources={"claims": [{"name": "gpu", "request": "two"}]}),
        container(name="one", resources={"claims": [{"name": "gpu", "request": "one"}]}),
        container(name="none"),
    ]
    nodes.client.create(nodes.pod_path(), pod)
    running = nodes.wait_running("train")
    claim = nodes.get_claim(nodes.generated_claim("train"))
    for name, count in (("two", 2), ("one", 1)):
        printed = nodes.printed("train", name)
        assert len(printed.nodes) == count, printed
        assert printed == expected(nodes, claim, name), name
    assert nodes.printed("train", "none") == Printed({}, ())
    assert len(nodes.fleet.held_by(running)) == 3
    nodes.delete_pod("train")
    nodes.wait("it is unprepared", lambda: not nodes.fleet.prepared(GPUS, machine.name))
    assert not list(nodes.fleet.real_node(machine.name).path("cdi").iterdir())


@scenario("node", rig="nodes")
def a_container_has_exactly_the_units_of_its_plugin(stage: Stage) -> None:
    """The device manager gives two of eight units, and the checkpoint agrees."""
    nodes = real(stage)
    machine = nodes.hardware("a", "dgx-a100")
    uuids = tuple(gpu.uuid for gpu in machine.gpus)
    nodes.node("a", "dgx-a100", plugins={LEGACY: uuids})
    running = nodes.run_pod("train", limits={LEGACY: "2"})
    units = nodes.fleet.units(running)[LEGACY]
    assert len(units) == 2
    assert set(units) <= set(uuids)
    printed = nodes.printed("train")
    assert printed.variables == {variable(LEGACY): ",".join(sorted(units))}
    assert printed.nodes == tuple(sorted(map(device_path, units)))
