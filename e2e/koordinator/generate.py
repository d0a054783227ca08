"""Generates machines and requests from seeds: published shapes and random ones, half occupied."""

import random
import uuid
from dataclasses import replace

from e2e.koordinator.machines import HOPPER, OccupiedMachine
from e2e.koordinator.request import DeviceRequest
from e2e.nodes.families.nics import FUNCTIONS
from e2e.nodes.machine import Gpu, Machine, Nic, machine

NODE = "node-1"
SHAPES = (
    "dgx-a100",
    "hgx-h100",
    "aws-p4d",
    "koordinator-fake-8g4n",
    "koordinator-h800",
    "supermicro-mi325x",
    "dell-xe8640",
    "azure-nd-a100-v4",
    "oci-gb200",
)
MAX_GPUS = 8


def generate(seed: int) -> tuple[OccupiedMachine, DeviceRequest]:
    """Return the machine and the request of a seed."""
    rng = random.Random(seed)  # equal seeds give equal cases
    machine_ = _machine(rng)
    request = _request(rng, machine_)
    used = machine_.used_functions if request.functions else ()
    return replace(machine_, functions=request.functions, used_functions=used), request


def _machine(rng: random.Random) -> OccupiedMachine:
    if rng.random() < 0.6:
        hardware = machine(NODE, rng.choice(SHAPES))
        # The product decides which driver serves a GPU, and the comparison has one.
        hardware = replace(hardware, product=machine(NODE, "hgx-h100").product)
    else:
        hardware = _random_hardware(rng)
    share = rng.choice((0.0, 0.2, 0.5, 0.7))
    functions = [n for n in range(len(hardware.nics)) for _ in range(FUNCTIONS)]
    with_table = len(hardware.gpus) == MAX_GPUS and rng.random() < 0.4
    return OccupiedMachine(
        hardware,
        frozenset(gpu.index for gpu in hardware.gpus if rng.random() < share),
        frozenset(n for n in range(len(hardware.nics)) if rng.random() < share * 0.8),
        tuple(n for n in functions if rng.random() < share / 2),
        partitions=HOPPER if with_table else None,
        configured_partitions=with_table and rng.random() < 0.5,
        honors_partitions=with_table and rng.random() < 0.3,
        numa=rng.random() < 0.5,
        old_api=rng.random() < 0.3,
    )


def _random_hardware(rng: random.Random) -> Machine:
    """Return a machine whose roots have any number of GPUs and NICs."""
    like = machine(NODE, "hgx-h100")
    gpus: list[Gpu] = []
    nics: list[Nic] = []
    for at in range(rng.randint(1, 5)):
        root, numa = f"pci0000:{at}0", at % rng.choice((1, 2, 3))
        for number in range(rng.choice((0, 1, 1, 2, 2, 3, 4))):
            if len(gpus) < MAX_GPUS:
                bus = f"0000:{at}1:{number:02x}.0"
                identity = f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, bus)}"
                gpus.append(Gpu(len(gpus), identity, bus, root, numa))
        for number in range(rng.choice((0, 1, 1, 2, 3))):
            bus = f"0000:{at}2:{number:02x}.0"
            nics.append(Nic(f"mlx5_{len(nics)}", bus, root, numa))
    if not gpus:
        return _random_hardware(rng)
    return replace(like, shape="random", gpus=tuple(gpus), nics=tuple(nics))


def _request(rng: random.Random, on: OccupiedMachine) -> DeviceRequest:
    gpus = rng.randint(1, min(MAX_GPUS, len(on.hardware.gpus) + 1))
    if rng.random() < 0.5:
        gpus = (gpus + 1) // 2
    scope = rng.choice(("", "", "", "", "PCIe", "NUMANode", "Node", "Device"))
    policy = rng.choice(("", "", "", "Restricted", "BestEffort"))
    request = DeviceRequest(gpus, scope=scope if scope != "Device" or gpus == 1 else "")
    if on.partitions is not None or rng.random() < 0.1:
        request = replace(request, policy=policy)
    return request if rng.random() < 0.15 else _with_nics(rng, request)


def _with_nics(rng: random.Random, request: DeviceRequest) -> DeviceRequest:
    amount = rng.choice((1, 50, 100, 100, 100, 200, 200, 300, 400, 100 * request.gpus))
    strategy = rng.choice(("", "", "", "", "RequestsAsCount", "ApplyForAll"))
    if strategy == "RequestsAsCount":
        amount = rng.choice((1, 2, 3, 4, 200))
    functions = rng.random() < 0.25 and (strategy != "ApplyForAll" or amount > 100)
    types: tuple[str, ...] = ("gpu", "rdma") if rng.random() < 0.85 else ("rdma", "gpu")
    if rng.random() < 0.1:
        types = ()
    return replace(
        request,
        rdma=amount,
        types=types,
        same_pcie=bool(types) and rng.random() < 0.7,
        functions=functions,
        strategy=strategy,
        exclusive=strategy == "RequestsAsCount" and not functions and rng.random() < 0.5,
    )
