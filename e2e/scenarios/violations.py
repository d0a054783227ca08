"""Scenarios: the node side detects every violation, and each check of each driver fails once."""

from e2e.nodes import protocol
from e2e.nodes.family import FAMILIES
from e2e.scenarios import driver_checks, forged
from e2e.scenarios.driver_checks import DriverOnNode, ForgedViolation
from e2e.scenarios.forged import Forgery
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key of a version."""
    return tuple(int(part) for part in version.split("."))


def check_violation(stage: Stage, act: ForgedViolation, index: int) -> None:
    """Forge one violation on its own node; exactly this violation is recorded, once."""
    shape = FAMILIES[act.driver].shape
    machine = stage.node(str(index), shape, {act.driver: act.mode})
    act.trick(DriverOnNode(stage, act.driver, machine))
    codes = forged.tripped(stage, "bad")
    assert codes == [act.code], f"{act} gave {codes}"
    recorded = stage.violations()
    assert {one.by for one in recorded} == {act.driver}, recorded
    for name in ("bad", "first"):
        if stage.exists(stage.pod_path(name)):
            stage.delete_pod(name)
        if stage.exists(stage.claim_path(name)):
            stage.client.delete(stage.claim_path(name))
            stage.wait_gone(stage.claim_path(name))
    stage.wait("unprepared", lambda: not stage.fleet.prepared(act.driver, machine.name))
    stage.fleet.remove([machine.name])
    stage.violations()


def register_driver(driver: str) -> None:
    """Register the scenario of one driver."""

    def play(stage: Stage) -> None:
        able = [act for act in driver_checks.forged_violations() if act.driver == driver]
        able = [act for act in able if version_key(act.since) <= version_key(stage.version)]
        for index, act in enumerate(able):
            check_violation(stage, act, index)

    short = "_".join(driver.split(".", 2)[:2])
    play.__name__ = f"every_check_of_{short}_is_seen_to_fail"
    play.__doc__ = f"Each rule that {driver} checks is broken by hand, and it alone is recorded."
    acts = (act for act in driver_checks.forged_violations() if act.driver == driver)
    oldest = min((act.since for act in acts), key=version_key)
    scenario("smoke", since=oldest)(play)


for _driver in FAMILIES:
    register_driver(_driver)


@scenario("smoke")
def the_kubelet_checks_owner_and_reservation(stage: Stage) -> None:
    """A pod with another pod's claim, or without a reservation, never starts."""
    machine = stage.node("a", "lab-2g2n", {GPU: "full"})
    spec = claim_spec(request("gpu", GPU))
    good = Forgery(machine.name, (forged.device(GPU, machine.name, "gpu-0"),))

    stage.template("gpu", spec)
    stage.pod("not-owned", templates={"gpu": "gpu"}, schedulerName=forged.NOBODY)
    claim = stage.generated_claim("not-owned")
    stage.client.patch(stage.claim_path(claim), {"metadata": {"ownerReferences": None}})
    forged.allocate(stage, claim, good, [stage.get_pod("not-owned")])
    forged.bind(stage, "not-owned", machine.name)
    assert forged.tripped(stage, "not-owned") == ["NotOwned"]

    # Full of users that no controller knows to be gone, the claim has no room for the pod.
    users = [_group(number) for number in range(256)]
    stage.claim("not-reserved", spec)
    stage.pod("not-reserved", claims={"gpu": "not-reserved"}, schedulerName=forged.NOBODY)
    forged.allocate(stage, "not-reserved", good, users)
    forged.bind(stage, "not-reserved", machine.name)
    assert forged.tripped(stage, "not-reserved") == ["NotReserved"]

    for name in ("not-owned", "not-reserved"):
        stage.delete_pod(name)
    status = {"status": {"allocation": None, "reservedFor": None}}
    stage.client.patch(f"{stage.claim_path('not-reserved')}/status", status)
    stage.violations()


def _group(number: int) -> JSON:
    return {
        "apiGroup": "scheduling.k8s.io",
        "resource": "podgroups",
        "name": f"group-{number}",
        "uid": f"group-{number}",
    }


@scenario("smoke")
def the_driver_library_checks_the_claim_of_a_request(stage: Stage) -> None:
    """A claim that is not allocated, or was replaced under the same name, is not prepared."""
    for index, driver in enumerate(FAMILIES):
        machine = stage.node(str(index), FAMILIES[driver].shape, {driver: None})
        name = f"claim-{index}"
        claim = stage.claim(name, claim_spec(request("gpu", driver)))
        uid = claim["metadata"]["uid"]
        assert "not allocated" in _ask(stage, driver, machine.name, name, uid)
        device = next(iter(stage.fleet.layout(driver, machine.name).devices))
        result = forged.device(driver, machine.name, device)
        forged.allocate(stage, name, Forgery(machine.name, (result,)))
        assert "another UID" in _ask(stage, driver, machine.name, name, "another")
        seen = [(one.code, one.by) for one in stage.violations()]
        assert seen == [("NotAllocated", driver), ("ClaimReplaced", driver)]
        status = {"status": {"allocation": None}}
        stage.client.patch(f"{stage.claim_path(name)}/status", status)


def _ask(stage: Stage, driver: str, node: str, name: str, uid: str) -> str:
    """Call a driver as only a kubelet that is wrong would; gives the error."""
    claim = protocol.reference(stage.namespace, name, uid)
    socket = stage.fleet.driver(driver).socket
    answer = protocol.ask(socket, protocol.PREPARE, node, [claim])
    return str(answer.claims[uid].error)
