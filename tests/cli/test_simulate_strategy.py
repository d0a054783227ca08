"""`drawbridge simulate` follows the strategy of the configuration, and shows its scores."""

import json
from pathlib import Path

import pytest

from drawbridge.names import RULES_ANNOTATION
from tests.cli.simulating import CLUSTER, Run, nodes, pod, simulate
from tests.cli.test_simulate_allocators import BRIDGE, NATIVE

_TWO = pod("a") + pod("b")


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        # The node with one device, so that two stay together.
        (BRIDGE, ["n2", "n1"]),
        (BRIDGE + "strategy: {default: usable}\n", ["n2", "n1"]),
        (BRIDGE + "strategy: {default: first-fit}\n", ["n1", "n1"]),
        (BRIDGE + "strategy: {default: packed}\n", ["n1", "n1"]),
        (BRIDGE + "strategy: {default: binpack}\n", ["n1", "n1"]),
        (BRIDGE + "strategy: {default: spread}\n", ["n1", "n2"]),
        (BRIDGE + "strategy: {default: LowLoadFirst}\n", ["n1", "n2"]),
    ],
)
def test_the_strategy_of_bridge_placement_chooses_the_node(
    run: Run, configuration: str, expected: list[str]
) -> None:
    assert nodes(run(_TWO + configuration, "--allocator", "drawbridge")[1]) == expected


def test_kube_scheduler_has_no_strategy(run: Run) -> None:
    native = run(_TWO + NATIVE + "strategy: {default: spread}\n")[1]
    assert (native["allocator"], nodes(native)) == ("upstream", ["n1", "n1"])


def test_the_score_is_shown_with_its_parts(run: Run, tmp_path: Path) -> None:
    text = _TWO + BRIDGE + "strategy: {default: packed}\n"
    second = run(text, "--allocator", "drawbridge")[1]["pods"][1]
    assert second["rating"] == {
        "strategy": "packed",
        "score": 500,
        "parts": [{"name": "devices in use", "value": 500}],
    }
    cluster, pods = tmp_path / "cluster.yaml", tmp_path / "pods.yaml"
    cluster.write_text(CLUSTER, encoding="utf-8")
    pods.write_text(text, encoding="utf-8")
    _, out, _ = simulate("--cluster", str(cluster), "-f", str(pods), "--allocator", "drawbridge")
    assert "  strategy packed: score 500 (devices in use +500)\n" in out


def test_first_fit_has_no_score(run: Run) -> None:
    text = pod("a") + BRIDGE + "strategy: {default: first-fit}\n"
    assert "rating" not in run(text, "--allocator", "drawbridge")[1]["pods"][0]


def test_the_default_shows_its_score(run: Run) -> None:
    placed = run(pod("a") + BRIDGE, "--allocator", "drawbridge")[1]["pods"][0]
    assert placed["rating"]["strategy"] == "usable"


def test_a_pod_may_have_a_strategy_and_weights_of_its_own(run: Run) -> None:
    rules = {
        "apiVersion": "drawbridge.dev/v1alpha1",
        "kind": "Rules",
        "strategy": {"name": "spread/numa", "weights": {"devices": 3, "cores": 2}},
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "own", "namespace": "default"},
        "spec": {
            "metadata": {"annotations": {RULES_ANNOTATION: json.dumps(rules)}},
            "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
            },
        },
    }
    text = pod("a", "{name: g, resourceClaimTemplateName: own}")
    text += f"---\n{json.dumps(template)}\n{BRIDGE}"
    answer = run(text, "--allocator", "drawbridge")[1]
    rating = answer["pods"][0]["rating"]
    assert rating["strategy"] == "spread/numa"
    assert rating["weights"] == {"devices": 3, "cores": 2}
    assert rating["unpublished"][:2] == ["cores", "resource.kubernetes.io/numaNode"]
    (finding,) = answer["ledger"]["findings"]
    assert (finding["code"], finding["object"]) == ("StrategyWithoutData", "Pod/default/a")
