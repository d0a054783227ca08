"""Scenarios with NVIDIA's own driver: legacy pods are translated, and have what they asked for.

The cases are those of translated.yaml that this driver can serve; Drawbridge runs as pods. NVIDIA's
program publishes the devices, prepares the claims and injects the device nodes.
"""

from collections import Counter
from functools import partial

import yaml

from e2e.drivers.nvidia import GPUS, NEWEST
from e2e.drivers.stage import DriverStage, with_drivers
from e2e.realnodes.installation import installed_as_pods
from e2e.realnodes.runnable import runnable
from e2e.scenarios import holdings, translated
from e2e.scenarios.admission import ORIGINAL
from e2e.scenarios.holdings import ExpectedPods
from e2e.scenarios.node_translated import CONFIGURED_SECONDS, DECIDED_SECONDS, configured
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import MAKERS, TRANSLATED, ManifestCase

CASES = (
    "nvidia",
    "nvidia-partitions-made-on-demand",
    "nvidia-init-and-sidecar",
    "nvidia-left-to-a-class",
    "nvidia-replicas-as-shares",
    "kai",
    # NICs are those of the simulated driver.
    "koordinator",
    "rdma-of-a-cloud",
)
# The kinds of devices that NVIDIA's program publishes.
KINDS = ("gpu", "mig")


def play(case: ManifestCase, stage: Stage) -> None:
    """Build the nodes, apply the legacy manifest, and compare what each container sees."""
    nodes = with_drivers(stage)
    cluster = installed_as_pods(nodes)
    translated.build(case, nodes)
    if case.configuration:
        nodes.enter(configured(nodes, cluster, case.configuration))
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    documents = list(yaml.safe_load_all(translated.manifest(nodes, case)))
    text = yaml.safe_dump_all(runnable(one, nodes.says) for one in documents)
    nodes.kubectl("apply", "-f", "-", stdin=text).check()
    try:
        for pods in case.pods:
            for made in nodes.wait(f"pods {pods.name}", partial(translated.made, nodes, pods)):
                name = made["metadata"]["name"]
                nodes.wait(f"{name} runs", partial(_runs, nodes, name), CONFIGURED_SECONDS)
                pod = nodes.get_pod(name)
                marked = ORIGINAL in pod["metadata"].get("annotations", {})
                assert marked == (case.exit == TRANSLATED), pod["metadata"]
                nodes.check_devices(name)
                _check_asked(nodes, pods, pod)
    finally:
        # Only pods stay, for the report on a failure; no controller recreates them.
        nodes.kubectl("delete", MAKERS, "--all", "--cascade=orphan", "--wait=false").check()


def _runs(nodes: DriverStage, name: str) -> bool:
    return bool(nodes.get_pod(name).get("status", {}).get("phase") == "Running")


def _check_asked(nodes: DriverStage, pods: ExpectedPods, pod: JSON) -> None:
    """Check the kinds, profiles and consumed capacities that the case expects."""
    assert pod["spec"]["nodeName"] in map(nodes.node_name, pods.at)
    published = {one["name"]: one for one in nodes.drivers[pod["spec"]["nodeName"]].devices()}
    for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        wanted = pods.containers[one["name"]]
        mine = [
            result
            for claim, request in holdings.uses(pod, one)
            for result in nodes.allocated(claim)
            if request in ("", result["request"].partition("/")[0]) and result["driver"] == GPUS
        ]
        found = [published[result["device"]]["attributes"] for result in mine]
        kinds = Counter(attributes["type"]["string"] for attributes in found)
        expected = {kind: count for kind, count in wanted.devices.items() if kind in KINDS}
        assert kinds == expected, f"{one['name']}: {mine}"
        profiles = {attributes.get("profile", {}).get("string", "") for attributes in found}
        assert profiles <= {wanted.profile}, f"{one['name']}: {profiles}"
        for result in mine:
            assert result.get("consumedCapacity", {}).keys() == wanted.consumed.keys(), result


def _register(case: ManifestCase) -> None:
    def play_it(stage: Stage) -> None:
        play(case, stage)

    play_it.__name__ = f"nvidias_driver_serves_{case.name}".replace("-", "_")
    play_it.__doc__ = case.shows
    scenario("drivers", rig="nodes", needs=(NEWEST,))(play_it)


_cases = {case.name: case for case in translated.cases()}
for _name in CASES:
    _register(_cases[_name])
