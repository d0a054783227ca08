"""Tightens one field of a scenario, step by step, until Kubernetes' allocator says no.

The last scenario that can be satisfied and the first that cannot are a pair: they differ in one
step of one field.
"""

import copy
import random
from collections.abc import Callable, Iterator

from e2e.checker.quantities import Json

GPU = "gpu.example.com"
ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
# Generated devices have at most 40Gi.
AMOUNTS = ("1Gi", "3Gi", "10Gi", "20Gi", "40Gi", "41Gi", "1Ti")
ATTRIBUTES = (ROOT, NUMA, f"{GPU}/model", f"{GPU}/index", f"{GPU}/healthy")
CAPACITY = 'device.capacity["{}"].?memory.orValue(quantity("0")).compareTo(quantity("{}")) >= 0'
INDEX = 'device.attributes["{}"].?index.orValue(99) < {}'
MODEL = 'device.attributes["{}"].?model.orValue("") == "{}"'
MOST = 12


def tightened(scenario: Json, seed: int) -> tuple[str, Iterator[Json]]:
    """Choose a field of a scenario; return its name, and the tighter and tighter scenarios."""
    draw = random.Random(seed)  # reproducible, not secret
    name = draw.choice(tuple(FIELDS))
    return name, FIELDS[name](scenario, draw)


def requests_of(scenario: Json) -> list[Json]:
    """All requests of all claims."""
    return [each for claim in scenario["claims"] for each in claim["spec"]["devices"]["requests"]]


def _change(scenario: Json, chosen: int, change: Callable[[Json], None]) -> Json:
    """Copy a scenario, and change one request; only the first of its alternatives stays."""
    copied: Json = copy.deepcopy(scenario)
    request = requests_of(copied)[chosen]
    if "firstAvailable" in request:
        request["firstAvailable"] = request["firstAvailable"][:1]
        change(request["firstAvailable"][0])
    else:
        change(request["exactly"])
    return copied


def _choose(scenario: Json, draw: random.Random) -> tuple[int, str]:
    """Choose a request; return its number and a driver that may serve it."""
    requests = requests_of(scenario)
    number = draw.randrange(len(requests))
    asked = requests[number].get("exactly") or requests[number]["firstAvailable"][0]
    return number, "nic.example.com" if asked["deviceClassName"] == "nic" else GPU


def _count(scenario: Json, draw: random.Random) -> Iterator[Json]:
    chosen, _ = _choose(scenario, draw)

    def set_count(number: int) -> Callable[[Json], None]:
        return lambda asked: asked.update(allocationMode="ExactCount", count=number)

    for number in range(1, MOST + 8):
        yield _change(scenario, chosen, set_count(number))


def _capacity(scenario: Json, draw: random.Random) -> Iterator[Json]:
    chosen, _ = _choose(scenario, draw)

    def set_amount(amount: str) -> Callable[[Json], None]:
        return lambda asked: asked.update(capacity={"requests": {"memory": amount}})

    for amount in AMOUNTS:
        yield _change(scenario, chosen, set_amount(amount))


def _selector(scenario: Json, draw: random.Random) -> Iterator[Json]:
    chosen, driver = _choose(scenario, draw)
    texts = draw.choice(
        (
            [CAPACITY.format(driver, amount) for amount in AMOUNTS],
            [INDEX.format(driver, number) for number in range(8, -1, -1)],
            [MODEL.format(driver, model) for model in ("small", "large", "huge")],
        )
    )

    def add(text: str) -> Callable[[Json], None]:
        selector = {"cel": {"expression": text}}
        return lambda asked: asked.update(selectors=[*asked.get("selectors", ()), selector])

    for text in texts:
        yield _change(scenario, chosen, add(text))


def _constraint(scenario: Json, draw: random.Random) -> Iterator[Json]:
    """One constraint more in each step, over all requests of a claim."""
    chosen = draw.randrange(len(scenario["claims"]))
    names = draw.sample(ATTRIBUTES, len(ATTRIBUTES))
    copied: Json = copy.deepcopy(scenario)
    for name in names:
        kind = draw.choice(("matchAttribute", "distinctAttribute"))
        copied = copy.deepcopy(copied)
        devices = copied["claims"][chosen]["spec"]["devices"]
        devices["constraints"] = [*devices.get("constraints", ()), {kind: name}]
        yield copied


def _requests(scenario: Json, draw: random.Random) -> Iterator[Json]:
    """One copy of a request more in each step."""
    claim = draw.randrange(len(scenario["claims"]))
    number = draw.randrange(len(scenario["claims"][claim]["spec"]["devices"]["requests"]))
    copied: Json = scenario
    for step in range(MOST):
        copied = copy.deepcopy(copied)
        requests = copied["claims"][claim]["spec"]["devices"]["requests"]
        requests.append(requests[number] | {"name": f"more-{step}"})
        yield copied


def _claims(scenario: Json, draw: random.Random) -> Iterator[Json]:
    """One copy of a claim more in each step, for the same pod."""
    number = draw.randrange(len(scenario["claims"]))
    copied: Json = scenario
    for step in range(MOST):
        copied = copy.deepcopy(copied)
        more = copy.deepcopy(copied["claims"][number])
        more["metadata"] |= {"name": f"more-{step}", "uid": f"more-{step}"}
        copied["claims"].append(more)
        yield copied


FIELDS: dict[str, Callable[[Json, random.Random], Iterator[Json]]] = {
    "count": _count,
    "capacity": _capacity,
    "selector": _selector,
    "constraint": _constraint,
    "requests": _requests,
    "claims": _claims,
}
