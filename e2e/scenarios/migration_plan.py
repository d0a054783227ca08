"""Scenarios: the plan of `drawbridge audit`, typed step by step, until no device plugin is left.

On simulated nodes and on real ones. Two DaemonSets stand for a device plugin and a driver: a node
has the one whose pod runs there. The commands of the plan change where these run, and only `helm`
is played by the scenario.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from e2e.controlplane.client import JSON
from e2e.installed.installation import Installation, installed
from e2e.nodes.family import FAMILIES
from e2e.nodes.machine import Machine
from e2e.realnodes.installation import PodInstallation, installed_as_pods
from e2e.realnodes.stage import RealStage, real
from e2e.scenarios.admission import GPU, LEGACY, NEEDS, deployment
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

SYSTEM = "kube-system"
PLUGIN = "nvidia-device-plugin"
DAEMONS = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets"
DEVICES = "drawbridge.dev/devices"
MODE = "drawbridge.dev/translate"
PATIENCE = 120.0


@dataclass(frozen=True)
class Plan:
    """A cluster: pools with shape and number of nodes, and namespaces with Deployments.

    A Deployment has its pool, the number of its pods and the GPUs of each pod.
    """

    pools: Mapping[str, tuple[str, int]]
    workloads: Mapping[str, Mapping[str, tuple[str, int, int]]]

    @property
    def pods(self) -> int:
        """The number of pods of all Deployments."""
        return sum(pods for each in self.workloads.values() for _, pods, _ in each.values())


SIMULATED = Plan(
    pools={"train": ("dgx-a100", 2), "lab": ("lab-2g2n", 3)},
    workloads={
        "research": {"train": ("train", 3, 4)},
        "serving": {"chat": ("lab", 3, 1), "search": ("lab", 2, 1)},
    },
)
REAL = Plan(
    pools={"train": ("lab-2g2n", 2), "lab": ("lab-2g2n", 1)},
    workloads={
        # They fill their pool: the plan does not see that pods of the other one may not go there.
        "research": {"train": ("train", 2, 1), "tune": ("train", 2, 1)},
        "serving": {"chat": ("lab", 2, 1)},
    },
)


class Equipment:
    """The plugins and drivers of simulated nodes."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def plugged(self) -> set[str]:
        """Return the nodes with a plugin."""
        return {node for node, plugins in self._stage.fleet.kubelet.plugins.items() if plugins}

    def unplug(self, node: str) -> None:
        """End the plugin of a node."""
        amounts = {LEGACY: "0"}
        status = {"status": {"allocatable": amounts, "capacity": amounts}}
        self._stage.client.patch(f"/api/v1/nodes/{node}/status", status)
        self._stage.fleet.kubelet.plugins[node].pop(LEGACY)

    def drive(self, machine: Machine) -> None:
        """Start the driver of a node, which publishes its devices."""
        self._stage.fleet.publish(FAMILIES[GPU].publish(machine, "full"))


class RealEquipment(Equipment):
    """The plugins and drivers of real nodes."""

    def __init__(self, nodes: RealStage) -> None:
        super().__init__(nodes)
        self._nodes = nodes

    def plugged(self) -> set[str]:
        """Return the nodes with a plugin."""
        return {node for node, plugins in self._nodes.fleet.plugins.items() if plugins}

    def unplug(self, node: str) -> None:
        """End the plugin of a node; its kubelet would keep the capacity for five minutes."""
        self._nodes.fleet.plugins[node].pop(LEGACY).stop()
        self._nodes.fleet.restart_kubelet(node)

    def drive(self, machine: Machine) -> None:
        """Start the driver on a node, which publishes its devices."""
        fleet = self._nodes.fleet
        fleet.registered(GPU).attach(fleet.real_node(machine.name))
        super().drive(machine)


class Migration:
    """The cluster of a scenario, and who sees what becomes of it."""

    def __init__(self, stage: Stage, cluster: Installation | PodInstallation, plan: Plan) -> None:
        self.stage, self.cluster, self.plan = stage, cluster, plan
        self.equipment = RealEquipment(stage) if isinstance(stage, RealStage) else Equipment(stage)
        self.namespaces = {name: f"{stage.namespace}-{name}" for name in plan.workloads}
        self.machines = [*self._add_nodes()]

    def _add_nodes(self) -> Iterator[Machine]:
        for pool, (shape, count) in self.plan.pools.items():
            for number in range(count):
                suffix = f"{pool}-{number}"
                units = tuple(each.uuid for each in self.stage.hardware(suffix, shape).gpus)
                yield self.stage.node(suffix, shape, {}, {LEGACY: units}, {"pool": pool})

    def add_workloads(self) -> None:
        """Create the namespaces with their Deployments, and the DaemonSet of the plugin."""
        self._run_daemons(PLUGIN, {})
        self.stage.wait("the plugins run", lambda: self._is_settled(self._daemons()), PATIENCE)
        for name, workloads in self.plan.workloads.items():
            namespace = self.namespaces[name]
            self.stage.cluster_object("/api/v1/namespaces", {"metadata": {"name": namespace}})
            for workload, (pool, replicas, gpus) in workloads.items():
                selector = {**self.stage.selector, "pool": pool}
                limits = {LEGACY: f"{gpus}", "memory": "64Mi"}
                pod = self.stage.pod_object(workload, limits=limits, nodeSelector=selector)
                pod["spec"]["terminationGracePeriodSeconds"] = 2
                path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
                self.stage.client.create(path, deployment(pod, replicas))

    def _run_daemons(self, name: str, selector: Mapping[str, str]) -> None:
        """Run a pod on all nodes of the stage that have these labels."""
        pod = self.stage.pod_object(name, nodeSelector={**self.stage.selector, **selector})
        pod["spec"]["terminationGracePeriodSeconds"] = 2
        volume = {"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}
        if name == PLUGIN:
            pod["spec"]["volumes"] = [volume]
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        self.stage.cluster_object(DAEMONS, {"metadata": {"name": name}, "spec": spec})

    # --- what is there -----------------------------------------------------------------------

    def follow_daemons(self) -> bool:
        """Let each node have what runs there, plugin or driver; whether each has what it wants."""
        on, moved = self._daemons(), self._moved()
        for machine in self.machines:
            daemons = on.get(machine.name, set())
            # A plugin that its DaemonSet only starts again keeps what it has.
            left = PLUGIN not in daemons and moved[machine.name]
            if left and machine.name in self.equipment.plugged():
                self.equipment.unplug(machine.name)
            if daemons - {PLUGIN} and (GPU, machine.name) not in self.stage.fleet.published:
                self.equipment.drive(machine)
        return self._is_settled(on)

    def _daemons(self) -> dict[str, set[str]]:
        """Return the DaemonSets that have a running pod on each node."""
        pods = self.stage.client.get(f"/api/v1/namespaces/{SYSTEM}/pods")["items"]
        on: dict[str, set[str]] = {}
        for pod in pods:
            # A pod that ends is the daemon of its node until it is gone.
            if pod.get("status", {}).get("phase") == "Running":
                node = pod["spec"].get("nodeName", "")
                on.setdefault(node, set()).add(pod["metadata"]["labels"].get("app", ""))
        return on

    def _is_settled(self, on: Mapping[str, set[str]]) -> bool:
        """Whether each node runs only the daemons that its labels want."""
        return all(
            len(daemons := on.get(name, set())) == 1 and (PLUGIN in daemons) is not moved
            for name, moved in self._moved().items()
        )

    def _moved(self) -> dict[str, bool]:
        """Return for each node whether its label asks for a driver."""
        nodes = self.stage.client.get("/api/v1/nodes")["items"]
        labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in nodes}
        return {each.name: DEVICES in labels[each.name] for each in self.machines}

    def pods(self) -> list[JSON]:
        """Return the pods of all workloads that are not going away."""
        listed = [
            pod
            for namespace in self.namespaces.values()
            for pod in self.stage.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        ]
        return [each for each in listed if "deletionTimestamp" not in each["metadata"]]

    def seen(self) -> dict[str, int]:
        """Return what is there, in the words of the audit."""
        self.follow_daemons()
        served = Counter(self._served_by(pod) for pod in self.pods())
        driven = {node for driver, node in self.stage.fleet.published if driver == GPU}
        return {
            "onPlugins": served["plugin"],
            "onDrivers": served["driver"],
            "waiting": served["nobody"],
            "pluginNodes": len(self.equipment.plugged()),
            "driverNodes": len(driven),
        }

    def _served_by(self, pod: JSON) -> str:
        """Return who gave a running pod its GPUs, all of them."""
        if pod.get("status", {}).get("phase") != "Running":
            return "nobody"
        wanted = self.plan.workloads[self._name(pod)][pod["metadata"]["labels"]["app"]][2]
        claimed = self.stage.fleet.held_by(pod)
        units = self.stage.fleet.units(pod).get(LEGACY, ())
        assert wanted in (len(claimed), len(units)), (pod["metadata"]["name"], claimed, units)
        assert not (claimed and units), (pod["metadata"]["name"], claimed, units)
        return "driver" if claimed else "plugin"

    def _name(self, pod: JSON) -> str:
        namespace = pod["metadata"]["namespace"]
        return next(name for name, full in self.namespaces.items() if full == namespace)

    def audit(self) -> Any:  # noqa: ANN401  # JSON
        """Return what `drawbridge audit` says now."""
        return json.loads(self.cluster.drawbridge("audit", "-o", "json").check().out)

    def report(self) -> Iterator[str]:
        """Yield why pods wait."""
        for pod in self.pods():
            if pod.get("status", {}).get("phase") != "Running":
                conditions = pod.get("status", {}).get("conditions", ())
                told = [each["message"] for each in conditions if each.get("message")]
                claims = [each["name"] for each in pod["spec"].get("resourceClaims", ())]
                yield f"{pod['metadata']['name']} with claims {claims} waits: {told}"

    # --- one step ----------------------------------------------------------------------------

    def type_step(self, commands: Sequence[str]) -> None:
        """Type the commands of a step, and give DaemonSets time after each one."""
        for command in commands:
            words = shlex.split(command, comments=False)
            if words[:2] == ["kubectl", "drain"]:
                self.stage.wait(command, partial(self._drain, words[1:]), 3 * PATIENCE)
            elif words[0] == "kubectl":
                self.cluster.kubectl(*words[1:]).check()
            elif words[0] == "helm":
                _, selector = words[-1].rsplit("=", 1)
                self._run_daemons(words[3], {DEVICES: selector})
            else:
                assert words == ["drawbridge", "audit"], command
                self.cluster.drawbridge(*words[1:]).check()
            self.stage.wait(f"daemons follow `{command}`", self.follow_daemons, PATIENCE)
            if DEVICES in command or MODE in command:
                self.stage.wait("admission knows the devices", self._is_translating, PATIENCE)

    def _drain(self, words: Sequence[str]) -> bool:
        """Drain, for a part of the time: Drawbridge's own pods go one after the other."""
        return self.cluster.kubectl(*words, "--timeout=40s").code == 0

    def _is_translating(self) -> bool:
        """Whether new pods of all enforced namespaces get claims, as a dry run shows."""
        probe = self.stage.pod_object("probe", limits={LEGACY: "1"})
        for name in self.namespaces.values():
            path = f"/api/v1/namespaces/{name}"
            labels = self.stage.client.get(path)["metadata"]["labels"]
            if labels.get(MODE) != "enforce":
                continue
            tried = self.stage.client.create(f"{path}/pods", probe, dryRun="All")
            if not tried["spec"].get("resourceClaims"):
                return False
        return True

    def untouched(self, commands: Sequence[str]) -> set[str]:
        """Return the pods that no command of a step ends: those of other nodes and owners."""
        drained = {
            node["metadata"]["name"]
            for command in commands
            if command.startswith("kubectl drain ")
            for node in self._nodes(shlex.split(command)[2:])
        }
        restarted = {
            (words[2], words[-1].partition("/")[2])
            for words in map(shlex.split, commands)
            if "restart" in words
        }
        return {
            pod["metadata"]["uid"]
            for pod in self.pods()
            if pod["spec"].get("nodeName") not in drained
            and (pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]) not in restarted
        }

    def _nodes(self, words: Sequence[str]) -> list[JSON]:
        chosen = words[: words.index("--ignore-daemonsets")]
        found = self.cluster.kubectl.get("nodes", *chosen)
        return list(found.get("items", [found]))


@scenario("full", rig="installed", needs=NEEDS)
def the_plan_of_an_audit_leads_to_a_cluster_without_plugins(stage: Stage) -> None:
    """Each step leaves what it says: no pod is lost, none runs without its devices."""
    follow(Migration(stage, installed(stage, mode=""), SIMULATED))


@scenario("node", rig="nodes")
def the_plan_of_an_audit_leads_to_real_nodes_without_plugins(stage: Stage) -> None:
    """The same, where kubelets say what each container has, and Drawbridge is evicted, too."""
    nodes = real(stage)
    follow(Migration(nodes, installed_as_pods(nodes), REAL))


def follow(migration: Migration) -> None:
    """Follow the plan of an audit to its end, and compare each step with what comes."""
    migration.add_workloads()
    wanted, nodes = migration.plan.pods, len(migration.machines)
    start = {"onPlugins": wanted, "onDrivers": 0, "waiting": 0}
    start |= {"pluginNodes": nodes, "driverNodes": 0}
    migration.stage.wait("all run with a plugin", lambda: migration.seen() == start, PATIENCE)
    plan = migration.audit()
    titles = [each["title"] for each in plan["steps"]]
    assert len(titles) == len({*titles}) > len(migration.plan.pools), titles
    for step in plan["steps"]:
        kept = migration.untouched(step["commands"])
        migration.type_step(step["commands"])
        _compare(migration, step)
        lost = kept - {each["metadata"]["uid"] for each in migration.pods()}
        assert not lost, f"{step['title']}: {len(lost)} pods ended that it does not name"
    end = {"onPlugins": 0, "onDrivers": wanted, "waiting": 0, "pluginNodes": 0}
    assert migration.seen() == {**end, "driverNodes": nodes}
    left = migration.audit()
    states = {each["state"] for each in left["nodeGroups"] if each["state"] != "none"}
    assert states == {"driver"}, left["nodeGroups"]
    fates = {fate for fate, number in left["summary"]["fates"].items() if number}
    assert fates == {"translated"}, left["summary"]


def _compare(migration: Migration, step: Mapping[str, Any]) -> None:
    """Compare what a step leaves with what the plan said; 0 is left out of the plan's data."""
    expected = step.get("expected")
    if expected is None:
        return
    seen: dict[str, int] = {}

    def has_come() -> bool:
        seen.update(migration.seen())
        return bool(seen == expected)

    try:
        migration.stage.wait(step["title"], has_come, PATIENCE)
    except AssertionError as problem:
        text = f"{step['title']}: the plan says {expected}, and there is {seen}"
        text = "\n".join((text, *migration.report()))
        raise AssertionError(text) from problem
