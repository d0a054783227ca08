"""The requests of the scheduler's claim for extended resources."""

from drawbridge.ledger.extended_resources import ServingClass, compose_requests
from drawbridge.ledger.pods import SIDECAR, Pod, pod_reader
from tests.tables import YamlValue, every_row

GPU = "nvidia.com/gpu"


def container(amount: str) -> YamlValue:
    """Return a container with an amount of devices; `+` marks a sidecar."""
    sidecar = {"restartPolicy": SIDECAR} if amount.endswith("+") else {}
    return {"name": "c", "resources": {"limits": {GPU: amount.removesuffix("+")}}, **sidecar}


@every_row(
    ("init", "expected"),
    [
        # Of init containers and one main container with 2 devices: the devices by container.
        (["2"], {1: 2}),
        (["3"], {0: 1, 1: 2}),
        # Init containers take turns, and the largest excess counts.
        (["3", "5", "4"], {1: 3, 3: 2}),
        (["5", "3", "4"], {0: 3, 3: 2}),
        # A sidecar keeps its devices, which only earlier init containers can have before.
        (["1+"], {0: 1, 1: 2}),
        (["3", "1+"], {1: 1, 2: 2}),
        (["1+", "3"], {0: 1, 1: 1, 2: 2}),
        (["1+", "5", "1+", "3"], {0: 1, 1: 2, 2: 1, 4: 2}),
    ],
)
def test_init_containers_have_the_devices_of_later_containers_in_turn(
    init: list[str], expected: dict[int, int]
) -> None:
    spec = {"initContainers": list(map(container, init)), "containers": [container("2")]}
    pod = pod_reader().read({"metadata": {"name": "a"}, "spec": spec})
    assert isinstance(pod, Pod), pod
    requests = compose_requests(pod, {GPU: ServingClass("gpu")})
    counts = {each.name: each.exactly.count for each in requests if each.exactly}
    assert counts == {f"container-{number}-request-0": n for number, n in expected.items()}
