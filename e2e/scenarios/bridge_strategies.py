"""Scenarios: pods in bridge placement go where the strategy of the configuration puts them.

Three nodes have two GPUs each. A pod has half of the last GPU of the second node, and two pods have
the GPUs of the third node, so that whole GPUs are asked for. Where the next pod goes is read from
the books of the drivers.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Final

import yaml

from e2e.bridge.placement import HEADER, BridgeStage, bridge_fields, bridge_scenario
from e2e.installed.configuring import configure_and_wait
from e2e.installed.replica import Replica
from e2e.scenarios.admission_scope import CONFIGURATION
from e2e.scenarios.objects import JSON, claim_spec, request

GPU: Final = "gpu.nvidia.com"
BUILT: Final = "decisions built"
# No configuration names it.
DEFAULT: Final = "usable"
# The node and the device of the next pod, by strategy; None where several are as good.
EXPECTED: Final = {
    "packed": ("b", "gpu-1"),
    "binpack": ("b", "gpu-1"),
    "spread": ("a", None),
    "NodeCompactGPULowLoad": ("b", "gpu-0"),
    "usable": ("b", "gpu-1"),
}


@contextlib.contextmanager
def configured(stage: BridgeStage, own: JSON) -> Iterator[None]:
    """Use fields of the configuration until the end of the block."""
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    _configure(stage, f"{HEADER}{bridge_fields()}{yaml.safe_dump(own)}")
    try:
        yield
    finally:
        _configure(stage, before)


def _configure(stage: BridgeStage, text: str) -> None:
    """Change the configuration; every allocator decides by it afterwards."""
    allocators = [pair.allocator for pair in stage.placement.pairs]
    before = [len(each.messages(BUILT)) for each in allocators]
    configure_and_wait(stage.placement.cluster, text)
    for allocator, number in zip(allocators, before, strict=True):
        allocator.started_process().wait_ready(partial(_has_built, allocator, number))


def _has_built(allocator: Replica, before: int) -> bool:
    return len(allocator.messages(BUILT)) > before


def _play(stage: BridgeStage, name: str) -> None:
    machines = {
        suffix: stage.node(suffix, "lab-2g2n", {GPU: "shares-unlimited"}) for suffix in "abc"
    }
    only = f"device.attributes['{GPU}'].uuid == '{machines['b'].gpus[1].uuid}'"
    half, whole = ({"requests": {"memory": memory}} for memory in ("20Gi", "40Gi"))
    stage.template("whole", claim_spec(request("gpu", GPU, capacity=whole)))
    stage.template("last", claim_spec(request("gpu", GPU, only, capacity=half)))
    stage.template("any", claim_spec(request("gpu", GPU, capacity=half)))
    third = {"kubernetes.io/hostname": machines["c"].name}
    for pod in ("whole-0", "whole-1"):
        stage.run_pod(pod, templates={"gpu": "whole"}, nodeSelector=third)
    is_default = name == DEFAULT
    own = {"strategy": {"default": name}}
    with contextlib.nullcontext() if is_default else configured(stage, own):
        stage.leader()
        stage.run_pod("first", templates={"gpu": "last"})
        stage.pod("next", templates={"gpu": "any"})
        (held,) = stage.fleet.held_by(stage.wait_running("next"))
        suffix, device = EXPECTED[name]
        wanted = f"{GPU}/{machines[suffix].name}/{device or 'gpu-'}"
        assert held.startswith(wanted), f"{held} instead of {wanted}"


def _register(name: str) -> None:
    def play(stage: BridgeStage) -> None:
        _play(stage, name)

    play.__name__ = f"the_strategy_{name.lower()}_chooses_node_and_device".replace("-", "_")
    play.__doc__ = f"The next pod goes where {name} puts it."
    bridge_scenario("full", since="1.36")(play)


for _name in EXPECTED:
    _register(_name)
