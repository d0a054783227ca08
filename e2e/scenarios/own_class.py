"""Scenarios: names of drivers that nobody knows become prepared claims, as the page says.

The commands of docs/drivers.md are run word for word, and print what the page shows; a line `...`
stands for any lines. The drivers publish the slices of examples/own-class.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.bridge.placement import BridgeStage, bridge_scenario
from e2e.installed.configuring import used_by_all
from e2e.installed.installation import Installation, installed
from e2e.nodes.driver import Driver
from e2e.nodes.families.own_class import FPGA, NIC
from e2e.realnodes.documented import blocks
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.admission_scope import restored_configuration
from e2e.scenarios.lifecycle import run_documented
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "own-class"
PAGE = ROOT / "docs" / "drivers.md"
PREPARED = {FPGA: ["card-0", "card-2-a", "card-3"], NIC: ["port-0", "port-1"]}
NAMESPACE = "own-class"


@scenario("full", since="1.36", rig="installed", needs=NEEDS)
def names_of_unknown_drivers_become_prepared_claims(stage: Stage) -> None:
    """An FPGA, its half, a part of it and NICs: kube-scheduler allocates, the drivers prepare."""
    play(stage, installed(stage, mode=""), "Native placement")


@bridge_scenario("full", "1.36")
def names_of_unknown_drivers_become_prepared_claims_in_bridge_placement(
    stage: BridgeStage,
) -> None:
    """The same with the allocator of Drawbridge, whose marks the driver does not need."""
    play(stage, stage.placement.cluster, "Bridge placement", "Claims of the allocator")


def play(stage: Stage, cluster: Installation, placement: str, *more: str) -> None:
    """Follow the page for one placement; `more` are sections about the driver."""
    # The page shows which devices the pods get, and the drivers of the example list them in order.
    stage.enter(stage.fleet.listing_in_order())
    stage.node("a", "lab-2g2n", {FPGA: None, NIC: None}, labels={"pool": "bridge"})
    stage.enter(restored_configuration(stage, cluster))
    node = stage.node_name("a")
    try:
        follow(cluster, "Classes and a namespace")
        with used_by_all(cluster):
            follow(cluster, placement)
        stage.wait("admission translates by the facts", lambda: is_translated(cluster))
        follow(cluster, "Pods")
        for driver, devices in PREPARED.items():
            assert prepared(stage.fleet.driver(driver), node) == devices, driver
            check_repeated(stage.fleet.driver(driver), node)
        follow(cluster, "Results", *more)
    finally:
        follow(cluster, "The way back")
    stage.wait("the drivers have released all", lambda: is_released(stage, node))


def is_translated(cluster: Installation) -> bool:
    """Whether admission gives a claim to every pod of the example."""
    words = ("apply", "--dry-run=server", "-f", str(EXAMPLES / "pods.yaml"), "-o", "yaml")
    result = cluster.kubectl(*words)
    pods = yaml.safe_load(result.out)["items"] if result.code == 0 else [{"spec": {}}]
    return all("resourceClaims" in pod["spec"] for pod in pods)


def prepared(driver: Driver, node: str) -> list[str]:
    """Return the devices that a driver has prepared on a node."""
    orders = driver.stations[node].prepared.values()
    return sorted(result.device for order in orders for result in order.results)


def is_released(stage: Stage, node: str) -> bool:
    """Whether no driver has a prepared device on a node."""
    return not any(prepared(stage.fleet.driver(each), node) for each in PREPARED)


def check_repeated(driver: Driver, node: str) -> None:
    """Prepare every claim again: the answer and what is prepared stay the same."""
    for uid, order in dict(driver.stations[node].prepared).items():
        first, second = (driver.prepare(node, order.namespace, order.name, uid) for _ in range(2))
        assert first == second
        assert driver.stations[node].prepared[uid] == order


def follow(cluster: Installation, *headings: str) -> None:
    """Run the commands below these headings; each prints what the page shows."""
    text = PAGE.read_text(encoding="utf-8")
    for heading in headings:
        ran = 0
        for block in blocks(text, heading, "console"):
            for command, shown in steps(block):
                result = run_documented(cluster, command, ROOT)
                assert fits(shown, result.out), f"{PAGE.name}: {shown}\n{result}"
                ran += 1
        assert ran, f"{PAGE.name}: no command below {heading}"


def steps(block: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a block with the lines that the page shows below them."""
    for part in re.split(r"^\$ ", "\n".join(block), flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def fits(shown: list[str], printed: str) -> bool:
    """Whether the output is as shown; `...` stands for any lines."""
    parts = (r"(?:.*\n)*?" if line == "..." else re.escape(line) + r" *\n" for line in shown)
    ended = printed if printed.endswith("\n") or not printed else f"{printed}\n"
    return re.fullmatch("".join(parts), ended) is not None
