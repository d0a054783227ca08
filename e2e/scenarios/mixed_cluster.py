"""Scenarios: GPUs of a device plugin beside DRA drivers for ComputeDomains and NICs.

Most clusters of clouds are such: the plugin has all GPUs, and drivers have what a plugin cannot
say. The class of GPUs exists there, without devices.
"""

import json
from collections import Counter

from e2e.installed.installation import Installation, installed, template_names, wait_for_facts
from e2e.nodes.families.compute_domain import CHANNELS
from e2e.nodes.families.compute_domain import DRIVER as DOMAINS
from e2e.scenarios.admission import LEGACY, NEEDS
from e2e.scenarios.admission_dual import DUAL
from e2e.scenarios.doctor import examine
from e2e.scenarios.objects import JSON, claim_spec, request
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

NIC, RDMA, SHARED = "dra.net", "rdma/hca_shared_devices_a", "rdma/hca_shared_devices_b"
SHAPE = "dgx-a100"
CHANNEL = "channel"


@scenario("full", rig="installed", needs=NEEDS)
def a_plugin_for_gpus_stays_beside_drivers_for_domains_and_nics(stage: Stage) -> None:
    """What the plugin serves stays, NICs become claims, claims of users stay as they are."""
    cluster = installed(stage)
    names = [_add_node(stage, suffix) for suffix in "ab"]
    stage.template(CHANNEL, claim_spec(request(CHANNEL, CHANNELS)))
    wait_for_facts(stage, cluster, stage.pod_object("probe", limits={RDMA: "1"}))
    pods = {
        **{f"gpus-{number}": stage.pod_object(f"gpus-{number}", limits={LEGACY: "2"})
           for number in range(2)},
        **{f"domain-{number}": _in_domain(stage, f"domain-{number}") for number in range(2)},
        "both": stage.pod_object("both", limits={LEGACY: "1", RDMA: "1"}),
        "shared": stage.pod_object("shared", limits={LEGACY: "1", SHARED: "1"}),
    }  # fmt: skip
    kubectl = cluster.kubectl.inside(stage.namespace)
    for body in pods.values():
        kubectl.apply(body).check()
    running = {name: stage.wait_running(name) for name in pods}

    for name, pod in running.items():
        _check_kept(pods[name], pod)
        gpus = stage.fleet.units(pod)[LEGACY]
        assert len(gpus) == int(_limits(pods[name])[LEGACY]), (name, gpus)
    assert _held_by_drivers(stage, running["both"]) == [NIC]
    assert _held_by_drivers(stage, running["shared"]) == []
    assert [_held_by_drivers(stage, running[f"domain-{n}"]) for n in range(2)] == [[DOMAINS]] * 2
    given = Counter(gpu for pod in running.values() for gpu in stage.fleet.units(pod)[LEGACY])
    assert set(given.values()) == {1}, given
    assert given.total() == sum(int(_limits(each)[LEGACY]) for each in pods.values())
    assert len(template_names(stage)) == 2, "the template of the NIC, and that of the user"
    _check_reports(stage, cluster, names)


def _add_node(stage: Stage, suffix: str) -> str:
    """Add a node whose plugins serve all GPUs and shared NICs, with both drivers."""
    gpus = tuple(each.uuid for each in stage.hardware(suffix, SHAPE).gpus)
    name = stage.node_name(suffix)
    units = {LEGACY: gpus, SHARED: tuple(f"{name}-{number}" for number in range(4))}
    stage.node(suffix, SHAPE, {NIC: None, DOMAINS: None}, units)
    return name


def _in_domain(stage: Stage, name: str) -> JSON:
    """Return a pod with GPUs and the channel of a ComputeDomain, of which each node has one."""
    return stage.pod_object(name, templates={CHANNEL: CHANNEL}, limits={LEGACY: "2"})


def _limits(pod: JSON) -> dict[str, str]:
    limits: dict[str, str] = pod["spec"]["containers"][0]["resources"].get("limits", {})
    return limits


def _check_kept(before: JSON, after: JSON) -> None:
    """Check that names of plugins and claims of users are as they were."""
    name = before["metadata"]["name"]
    expected = {key: value for key, value in _limits(before).items() if key != RDMA}
    assert _limits(after) == expected, (name, after["spec"])
    own = before["spec"].get("resourceClaims", [])
    added = [each for each in after["spec"].get("resourceClaims", []) if each not in own]
    assert len(added) == (1 if RDMA in _limits(before) else 0), (name, added)
    assert all(each in after["spec"].get("resourceClaims", []) for each in own), name


def _held_by_drivers(stage: Stage, pod: JSON) -> list[str]:
    return [each.partition("/")[0] for each in stage.fleet.held_by(pod)]


def _check_reports(stage: Stage, cluster: Installation, names: list[str]) -> None:
    """Check that nobody calls the nodes dual, and that doctor and audit ask for nothing there."""
    for name in names:
        labels = stage.client.get(f"/api/v1/nodes/{name}")["metadata"]["labels"]
        assert DUAL not in labels, labels
    _, lines = examine(cluster, "-n", stage.namespace)
    codes = {each["code"] for group in lines.values() for each in group}
    assert not codes & {"DualNodes", "DualNodesHeld", "TwoGpuModels"}, lines
    plan = json.loads(cluster.drawbridge("audit", "-o", "json").check().out)
    group = next(each for each in plan["nodeGroups"] if names[0] in each["nodes"])
    assert group["state"] != "dual", group
