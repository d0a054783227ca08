"""The webhook and the judge can be in the network of the node, where nothing protects their ports.

That the chart and the kustomize component render the same is in `test_chart`.
"""

import argparse
from pathlib import Path

import pytest

from cli.serve import arguments
from drawbridge.process.addresses import Address
from tests.manifests import rendering
from tests.manifests.rendering import CHART, Json
from tests.tables import every_row, write_yaml

LOOPBACK, NODE, EVERYWHERE = "127.0.0.1", "[$(HOST_IP)]", ""
OF_NODE = {"hostNetwork": True}
# The values of a part, and where each of both listens for admission, health and metrics.
CASES: dict[str, tuple[Json, dict[str, tuple[str, str, str]]]] = {
    "nothing set": (
        {},
        {"webhook": (":9443", ":8081", ":8080"), "judge": (":9443", ":8081", ":8080")},
    ),
    "the network of the node": (
        OF_NODE,
        {
            "webhook": (":19443", f"{LOOPBACK}:18081", f"{LOOPBACK}:18080"),
            "judge": (":19444", f"{LOOPBACK}:18083", f"{LOOPBACK}:18082"),
        },
    ),
    "metrics at the address of the node": (
        {**OF_NODE, "metricsAddress": "node"},
        {
            "webhook": (":19443", f"{LOOPBACK}:18081", f"{NODE}:18080"),
            "judge": (":19444", f"{LOOPBACK}:18083", f"{NODE}:18082"),
        },
    ),
    "other ports of the node": (
        {**OF_NODE, "ports": {"admission": 20443, "health": 20081, "metrics": 20080}},
        dict.fromkeys(
            ("webhook", "judge"), (":20443", f"{LOOPBACK}:20081", f"{LOOPBACK}:20080")
        ),
    ),
    "other ports of the pod": (
        {"ports": {"admission": 10250, "health": 20081, "metrics": 20080}},
        dict.fromkeys(("webhook", "judge"), (":10250", ":20081", ":20080")),
    ),
}  # fmt: skip
ROWS = [(case, part) for case in CASES for part in ("webhook", "judge")]


def render(values: Json, folder: Path) -> dict[rendering.Key, Json]:
    """Render with these values of the webhook and of the judge."""
    both = {"webhook": values, "judge": {"enabled": True, **values}}
    return rendering.index(rendering.render_chart(both, folder))


def read_options(pod: Json, node: str) -> argparse.Namespace:
    """Parse the arguments of the container as its process does, on a node with this address."""
    (container,) = pod["containers"]
    parser = argparse.ArgumentParser()
    arguments(parser)
    variables = {each["name"]: each["valueFrom"] for each in container.get("env", ())}
    words = container["command"][2:] + container["args"]
    if variables == {"HOST_IP": {"fieldRef": {"fieldPath": "status.hostIP"}}}:
        words = [word.replace("$(HOST_IP)", node) for word in words]
    return parser.parse_args(words)


@every_row("row", ROWS, ids=lambda row: f"{row[1]}: {row[0]}")
@pytest.mark.parametrize("node", ["10.0.0.1", "fd00::1"])
def test_a_part_listens_where_the_values_say(
    row: tuple[str, str], node: str, tmp_path: Path
) -> None:
    case, part = row
    values, expected = CASES[case]
    objects = render(values, tmp_path)
    pod = objects["Deployment", rendering.NAMESPACE, f"drawbridge-{part}"]
    pod = pod["spec"]["template"]["spec"]
    options = read_options(pod, node)
    listening = (options.listen, options.health, options.metrics)
    for address, text in zip(listening, expected[part], strict=True):
        host, _, port = text.rpartition(":")
        assert address == Address(node if host == NODE else host, int(port))
    # What the Service, the probes, the network policy and the PodMonitor name.
    (container,) = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == dict(
        zip(("admission", "health", "metrics"), (each.port for each in listening), strict=True)
    )
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"].get("host", "") == options.health.host
        assert container[probe]["httpGet"]["port"] == "health"
    service = objects["Service", rendering.NAMESPACE, f"drawbridge-{part}"]
    assert [each["targetPort"] for each in service["spec"]["ports"]] == ["admission"]


def test_both_parts_can_share_a_node_and_a_rollout_needs_no_other_one(tmp_path: Path) -> None:
    objects = render(OF_NODE, tmp_path)
    used: list[int] = []
    for part in ("webhook", "judge"):
        key = rendering.NAMESPACE, f"drawbridge-{part}"
        spec, budget = objects["Deployment", *key]["spec"], objects["PodDisruptionBudget", *key]
        pod = spec["template"]["spec"]
        assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
        # An additional replica would wait for a node of its own, and one has to serve meanwhile.
        assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
        assert spec["replicas"] - 1 >= budget["spec"]["minAvailable"]
        used += [each["containerPort"] for each in pod["containers"][0]["ports"]]
    assert len(used) == len(set(used))


SHARED: dict[str, tuple[Json, str]] = {
    "a port of the pod": (
        {"webhook": {"ports": {"health": 8080}}},
        "webhook.ports.health and webhook.ports.metrics are both 8080",
    ),
    "a port of the node": (
        {"judge": {"enabled": True, **OF_NODE, "ports": {"admission": 18083}}},
        "judge.ports.admission and judge.ports.health are both 18083",
    ),
}  # fmt: skip


@every_row("case", SHARED)
def test_two_listeners_cannot_have_one_port(case: str, tmp_path: Path) -> None:
    values, words = SHARED[case]
    with pytest.raises(AssertionError, match=words):
        rendering.render_chart(values, tmp_path)


def test_two_parts_can_have_the_same_ports_on_different_nodes(tmp_path: Path) -> None:
    of_node = {**OF_NODE, "ports": {"admission": 9443, "metrics": 9444}}
    assert rendering.render_chart(
        {"webhook": of_node, "judge": {"enabled": True, **of_node}}, tmp_path
    )


def test_without_the_network_of_the_node_nothing_changes(tmp_path: Path) -> None:
    def print_chart(values: Json) -> str:
        file = tmp_path / "values.yaml"
        file.write_text(write_yaml([values]))
        return rendering.run("helm", "template", "drawbridge", CHART, "-n", "x", "-f", file)

    ports = dict.fromkeys(("admission", "health", "metrics"))
    unused = {"hostNetwork": False, "metricsAddress": "node", "ports": ports}
    plain = print_chart({"judge": {"enabled": True}})
    assert print_chart({"webhook": unused, "judge": {"enabled": True, **unused}}) == plain
    for word in ("hostNetwork", "dnsPolicy", "--listen", "--health", "--metrics", "HOST_IP"):
        assert word not in plain
    assert "host:" not in plain


@every_row("part", ["webhook", "judge"])
def test_a_pod_monitor_needs_metrics_at_the_address_of_the_node(part: str, tmp_path: Path) -> None:
    monitored = {"podMonitor": {"enabled": True}}
    with pytest.raises(AssertionError, match=f"/{part}/metricsAddress': value must be 'node'"):
        rendering.render_chart({part: OF_NODE, **monitored}, tmp_path)
    of_node = {**OF_NODE, "metricsAddress": "node"}
    assert rendering.render_chart({part: of_node, **monitored}, tmp_path)
