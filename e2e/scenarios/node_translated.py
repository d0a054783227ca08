"""Scenarios on real nodes: pods of each dialect run, and print the devices that they have.

The cases are those of translated.yaml. `kubectl` applies the legacy manifest in a namespace that is
opted in, and Drawbridge runs as pods, with the configuration of the case. Only what a program needs
is changed: images, commands and sizes. The output of each container is compared with the books of
the drivers, the books with the kubelet's podresources API and with the case.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import yaml

from e2e.realnodes.device_plugin import device_path, variable
from e2e.realnodes.installation import PodInstallation, installed_as_pods
from e2e.realnodes.runnable import runnable
from e2e.realnodes.stage import Printed, RealStage, real
from e2e.scenarios import holdings, translated, volcano
from e2e.scenarios.admission import ORIGINAL
from e2e.scenarios.holdings import ExpectedPods
from e2e.scenarios.node_devices import expected
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.translated import MAKERS, NAMESPACE, REFUSED, TRANSLATED, ManifestCase

# One of each dialect and driver, whatever uses containers in another way, and all that have a
# configuration of their own.
CASES = (
    # It comes first: admission remembers for minutes what nodes of other cases offered together.
    "containers-on-no-node",
    "nvidia",
    "nvidia-partitions-made-on-demand",
    "nvidia-init-and-sidecar",
    "nvidia-left-to-a-class",
    "nvidia-replicas-left",
    "nvidia-replicas-as-shares",
    "hami",
    "hami-default-memory",
    "volcano",
    "koordinator",
    "koordinator-shares-of-two",
    "koordinator-virtual-functions",
    "aliyun",
    "kai",
    "tensor-fusion",
    "nos",
    "amd",
    "intel",
    "intel-monitoring",
    "metax",
    "vendor-without-a-driver",
    "rdma-token",
    "rdma-of-a-cloud",
    "rdma-of-named-networks",
    "sriov",
    "memory-beside-a-class-of-whole-gpus",
)
CONFIGURED_SECONDS = 90.0
DECIDED_SECONDS = 60.0


def play(case: ManifestCase, stage: Stage) -> None:
    """Apply the manifest of a case, and compare what each container printed."""
    nodes = real(stage)

    def check(pods: ExpectedPods, pod: JSON) -> None:
        holdings.compare(nodes, pods, pod)
        compare_output(nodes, pod)

    serve(case, nodes, installed_as_pods(nodes), nodes.wait_running, check)


def serve(
    case: ManifestCase,
    nodes: RealStage,
    cluster: PodInstallation,
    wait: Callable[[str], JSON],
    check: Callable[[ExpectedPods, JSON], None],
) -> None:
    """Build the nodes, apply the legacy manifest, and check each pod once `wait` returns it."""
    translated.build(case, nodes)
    if case.configuration:
        nodes.enter(configured(nodes, cluster, case.configuration))
    nodes.wait("the webhooks decide by the facts", cluster.decided, DECIDED_SECONDS)
    documents = list(yaml.safe_load_all(translated.manifest(nodes, case)))
    text = yaml.safe_dump_all(runnable(one, nodes.says) for one in documents)
    applied = nodes.kubectl("apply", "-f", "-", stdin=text)
    if case.exit == REFUSED:
        assert applied.code == 1, applied
        assert all(f"{code}: " in applied.err for code in case.codes), applied
        assert nodes.client.get(nodes.pod_path())["items"] == []
        return
    applied.check()
    try:
        if case.jobs:
            volcano.make_pods(nodes)
        for pods in case.pods:
            for made in nodes.wait(f"pods {pods.name}", partial(translated.made, nodes, pods)):
                pod = wait(made["metadata"]["name"])
                marked = ORIGINAL in pod["metadata"].get("annotations", {})
                assert marked == (case.exit == TRANSLATED), pod["metadata"]
                check(pods, pod)
    finally:
        # Only pods stay, for the report on a failure; no controller recreates them.
        nodes.kubectl("delete", MAKERS, "--all", "--cascade=orphan", "--wait=false").check()


@contextlib.contextmanager
def configured(nodes: RealStage, cluster: PodInstallation, text: str) -> Iterator[None]:
    """Let every process use what a case adds to the configuration, until the end of the block."""
    before = cluster.configuration()
    added = text.replace(NAMESPACE, nodes.namespace)
    changed = {**yaml.safe_load(before), **yaml.safe_load(added)}
    try:
        used = cluster.configure(yaml.safe_dump(changed))
        nodes.wait("every process uses it", used, CONFIGURED_SECONDS)
        yield
    finally:
        used = cluster.configure(before)
        nodes.wait("every process uses it again", used, CONFIGURED_SECONDS)


def compare_output(nodes: RealStage, pod: JSON) -> None:
    """Compare the output of every container with what drivers and plugins gave it."""
    spec = pod["spec"]
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        wanted = given(nodes, pod, container)
        printed = nodes.printed(pod["metadata"]["name"], container["name"])
        assert printed == wanted, f"{container['name']} has {printed}, and was given {wanted}"


def given(nodes: RealStage, pod: JSON, container: JSON) -> Printed:
    """Return what a container must print: devices of its claims, and units of plugins."""
    variables: dict[str, str] = {}
    devices: list[str] = []
    for claim, request in holdings.uses(pod, container):
        part = expected(nodes, nodes.get_claim(claim), *([request] if request else []))
        variables |= part.variables
        devices += part.nodes
    for share in nodes.fleet.shares(pod):
        if share.container == container["name"]:
            for resource, units in share.units.items():
                variables[variable(resource)] = ",".join(sorted(units))
                devices += map(device_path, units)
    return Printed(variables, tuple(sorted(devices)))


def _register(case: ManifestCase) -> None:
    def play_it(stage: Stage) -> None:
        play(case, stage)

    play_it.__name__ = f"containers_of_{case.name}".replace("-", "_")
    play_it.__doc__ = case.shows
    scenario("node", rig="nodes")(play_it)


_cases = {case.name: case for case in translated.cases()}
for _name in CASES:
    if _name in _cases:  # `make check` names the others
        _register(_cases[_name])
