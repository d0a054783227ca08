"""What the containers of a pod need at the same time."""

import pytest

from drawbridge.containers import most_at_once
from drawbridge.report.plugin_units import count_units
from tests.tables import YamlValue

# The amounts of init containers, sidecars and containers, in the order in which they start.
CASES = [
    pytest.param("", 0, id="no containers"),
    pytest.param("app 1, app 2", 3, id="containers run together"),
    pytest.param("init 4, app 1, app 2", 4, id="an init container ends before them"),
    pytest.param("init 2, init 2, app 1", 2, id="init containers run one after the other"),
    pytest.param("sidecar 2, app 1", 3, id="a sidecar runs beside containers"),
    pytest.param("sidecar 1, init 4, app 1", 5, id="and beside init containers that start later"),
    pytest.param("init 4, sidecar 1, app 1", 4, id="but not beside one that has ended"),
]


def _parse(text: str) -> list[tuple[str, int]]:
    pairs = (each.split() for each in text.split(", ") if each)
    return [(kind, int(amount)) for kind, amount in pairs]


@pytest.mark.parametrize(("text", "most"), CASES)
def test_containers_need_what_runs_at_the_same_time(text: str, most: int) -> None:
    assert most_at_once((kind == "init", amount) for kind, amount in _parse(text)) == most


@pytest.mark.parametrize(("text", "most"), CASES)
def test_a_pod_uses_the_units_of_plugins_that_its_containers_need_together(
    text: str, most: int
) -> None:
    spec: YamlValue = {"initContainers": [], "containers": []}
    for kind, amount in _parse(text):
        container: YamlValue = {"resources": {"limits": {"nvidia.com/gpu": amount}}}
        if kind == "sidecar":
            container["restartPolicy"] = "Always"
        spec["containers" if kind == "app" else "initContainers"].append(container)
    assert count_units({"spec": spec}) == ({"nvidia.com/gpu": most} if most else {})
