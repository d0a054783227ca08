"""Scenarios: the plan of `drawbridge audit` for the sample cluster, typed until no plugin is left.

On simulated nodes and on real ones. The DaemonSets of the sample stand for plugins and drivers: a
node has those whose pods run there. The commands of the plan change where these run, and only
`helm` is played by the scenario.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from typing import Any

from e2e.controlplane.client import JSON, ApiError
from e2e.installed.installation import Installation, installed
from e2e.nodes.family import FAMILIES
from e2e.nodes.hami_scheduler import HamiScheduler
from e2e.nodes.machine import Machine
from e2e.realnodes.installation import PodInstallation, installed_as_pods
from e2e.realnodes.stage import RealStage, container, real
from e2e.scenarios.admission import GPU, LEGACY, NEEDS
from e2e.scenarios.registry import scenario
from e2e.scenarios.sample_cluster import (
    SAMPLE,
    SYSTEM,
    Sample,
    is_plugin,
    pod_spec_of,
)
from e2e.scenarios.stage import Stage, TimeLimitError

DAEMONS = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets"
DEVICES = "drawbridge.dev/devices"
NOTHING = "none"  # the value of a node whose plugin ends before its driver starts
MODE = "drawbridge.dev/translate"
PATIENCE = 300.0
INTERRUPTED = 143  # what a process gives that SIGTERM ends
FULL = {GPU: "full"}  # the mode of a driver that has several
REFUSED = ("research", "giant")  # asks for more GPUs than any node has
# What is created beside namespaces and owners of pods.
OTHERS = (
    "ResourceQuota",
    "ResourceClaimTemplate",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PodDisruptionBudget",
)


class Migration:
    """The cluster of a sample on a rig, and who sees what becomes of it."""

    def __init__(
        self, stage: Stage, cluster: Installation | PodInstallation, sample: Sample = SAMPLE
    ) -> None:
        self.stage, self.cluster, self.sample = stage, cluster, sample
        # The nodes that have a plugin or a driver at the start.
        self.had_plugin = [each.name for each in sample.nodes if each.units]
        self.had_driver = [each.name for each in sample.nodes if each.drivers]
        self.kubectl = cluster.kubectl.inside("")
        self.scheduler = HamiScheduler(stage.client)
        self.plugins = {e["metadata"]["name"] for e in self.sample.daemons if is_plugin(e)}
        self.releases = {
            f"dra-{driver.replace('.', '-')}": driver
            for node in self.sample.nodes
            for driver in node.drivers
        }
        self.selectors: dict[str, JSON] = {}  # of releases, before they were changed
        self.machines = [*self._add_nodes()]

    def _add_nodes(self) -> Iterator[Machine]:
        for node in self.sample.nodes:
            drivers = {driver: FULL.get(driver) for driver in node.drivers}
            plugins = {LEGACY: node.unit_names()} if node.units else {}
            yield self.stage.fleet.add(node.name, node.shape, drivers, node.labels, plugins)
            path = f"/api/v1/nodes/{node.name}"
            self.stage.client.patch(path, {"metadata": {"annotations": {**node.annotations}}})
            if node.cordoned:
                self.stage.client.patch(path, {"spec": {"unschedulable": True}})
                opened = {"spec": {"unschedulable": None}}
                self.stage.later(partial(self.stage.client.patch, path, opened))

    def add_workloads(self) -> None:
        """Create plugins and drivers, then the namespaces with what is in them."""
        for daemons in self.sample.daemons:
            self._run_daemons(daemons)
        self._wait_for_daemons("plugins and drivers run")
        self.stage.later(self._wait_for_end)
        for namespace in self.sample.of("Namespace"):
            self.stage.cluster_object("/api/v1/namespaces", namespace)
            account = f"/api/v1/namespaces/{namespace['metadata']['name']}/serviceaccounts/default"
            self.stage.wait("the namespace has its account", partial(self.stage.exists, account))
        others = self.sample.of(*OTHERS)
        self.kubectl.apply(*others, *map(self._on_rig, self.sample.workloads.values())).check()

    def _wait_for_end(self) -> None:
        """Wait until the namespaces are gone: without drivers, no pod with claims ends."""
        for each in self.sample.of("Namespace"):
            self.stage.wait_gone(f"/api/v1/namespaces/{each['metadata']['name']}")

    def _on_rig(self, workload: JSON) -> JSON:
        """Return a workload whose containers this rig can run, on any node."""
        made = deepcopy(workload)
        made.pop("status", None)
        made["spec"].pop("nodeName", None)
        self._change_containers(pod_spec_of(made))
        return made

    def _change_containers(self, spec: JSON) -> None:
        if isinstance(self.stage, RealStage):
            for each in spec["containers"]:
                # A Job must not count a pod that is interrupted as one that is complete.
                each.update(container(says=self.stage.says, code=INTERRUPTED))

    def _run_daemons(self, daemons: JSON) -> None:
        made = deepcopy(daemons)
        self._change_containers(made["spec"]["template"]["spec"])
        self.stage.cluster_object(DAEMONS, made)

    def _play_helm(self, verb: str, release: str, selector: str) -> None:
        """Install the chart of a driver with a node selector, change or restore that of a release.

        The DaemonSet has the name of the release.
        """
        if verb == "uninstall":
            self.stage.client.delete(f"{DAEMONS}/{release}")
            del self.releases[release]
        elif verb == "rollback":
            self._select_nodes(release, self.selectors.pop(release))
        elif release in self.releases:
            daemons = self.stage.client.get(f"{DAEMONS}/{release}")
            self.selectors[release] = pod_spec_of(daemons).get("nodeSelector", {})
            self._select_nodes(release, _read_selector(selector))
        else:
            self._install(release, _read_selector(selector))

    def _select_nodes(self, release: str, selector: JSON) -> None:
        chosen = {"nodeSelector": {"$patch": "replace", **selector}}
        patch = json.dumps({"spec": {"template": {"spec": chosen}}})
        words = (f"daemonset/{release}", f"--patch={patch}")
        self.kubectl("-n", SYSTEM, "patch", *words).check()

    def _install(self, release: str, selector: JSON) -> None:
        self.releases[release] = selector[DEVICES]
        spec = {
            "nodeSelector": selector,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "driver", "image": "example.com/x"}],
        }
        labels = {"app": release}
        template = {"metadata": {"labels": labels}, "spec": spec}
        whole = {"selector": {"matchLabels": labels}, "template": template}
        self._run_daemons({"metadata": {"name": release, "namespace": SYSTEM}, "spec": whole})

    # --- what is there -----------------------------------------------------------------------

    def follow_daemons(self) -> bool:
        """Let each node have what runs there, plugin or driver; whether each has what it wants."""
        self.scheduler.bind_waiting()
        on, wanted = self._daemons(), self._wanted_drivers()
        for machine in self.machines:
            self._follow_on(machine, on.get(machine.name, set()), wanted[machine.name])
        return self._is_settled(on, wanted)

    def _follow_on(self, machine: Machine, daemons: set[str], wanted: str) -> None:
        """Let a node have what runs there. What its DaemonSet only starts again stays."""
        fleet, name = self.stage.fleet, machine.name
        if wanted and not daemons & self.plugins and name in fleet.plugged():
            fleet.unplug(name, LEGACY)
        if daemons & self.plugins and name in {*self.had_plugin} - fleet.plugged():
            fleet.plug(name, LEGACY)
        here = {self.releases[each] for each in daemons & self.releases.keys()}
        there = {driver for driver, node in fleet.published if node == name}
        for driver in here - there:
            fleet.drive(FAMILIES[driver].publish(machine, FULL.get(driver)))
        if wanted or name not in self.had_driver:
            for driver in there - here - {wanted}:
                fleet.withdraw(driver, name)

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

    def _is_settled(self, on: Mapping[str, set[str]], wanted: Mapping[str, str]) -> bool:
        """Whether each node runs only the plugin or the driver that its label wants."""
        for name in (*self.had_plugin, *self.had_driver):
            daemons = on.get(name, set())
            driven = bool(wanted[name]) or name in self.had_driver
            if wanted[name] == NOTHING and (daemons or name in self.stage.fleet.plugged()):
                return False
            if wanted[name] == NOTHING:
                continue
            if len(daemons) != 1 or (daemons <= self.plugins) is driven:
                return False
            if wanted[name] and {self.releases.get(each) for each in daemons} != {wanted[name]}:
                return False
        return True

    def _wait_for_daemons(self, what: str) -> None:
        try:
            self.stage.wait(what, self.follow_daemons, PATIENCE)
        except TimeLimitError as problem:
            plugged = sorted(self.stage.fleet.plugged())
            told = f"{self._daemons()} run, {self._wanted_drivers()} are wanted, {plugged} plugged"
            raise TimeLimitError(f"{problem}: {told}") from problem

    def _wanted_drivers(self) -> dict[str, str]:
        """Return for each node the driver that its label asks for, or nothing."""
        nodes = self.stage.client.get("/api/v1/nodes")["items"]
        return {e["metadata"]["name"]: e["metadata"]["labels"].get(DEVICES, "") for e in nodes}

    def pods(self) -> list[JSON]:
        """Return the pods of all workloads that are not going away."""
        listed = [
            pod
            for namespace in self.sample.of("Namespace")
            for pod in self.stage.client.get(
                f"/api/v1/namespaces/{namespace['metadata']['name']}/pods"
            )["items"]
        ]
        return [each for each in listed if "deletionTimestamp" not in each["metadata"]]

    def seen(self) -> dict[str, int]:
        """Return what is there, in the words of the audit."""
        self.follow_daemons()
        served = Counter(self.served_by(pod) for pod in self.pods())
        driven = {node for _, node in self.stage.fleet.published}
        return {
            "onPlugins": served["plugin"],
            "onDrivers": served["driver"],
            "waiting": served["nobody"],
            "pluginNodes": len(self.stage.fleet.plugged()),
            "driverNodes": len(driven),
        }

    def served_by(self, pod: JSON) -> str:
        """Return who gave a running pod its GPUs, all of them."""
        if pod.get("status", {}).get("phase") != "Running":
            return "nobody"
        wanted = self.wanted_by(pod)
        claimed = self.stage.fleet.held_by(pod)
        units = self.stage.fleet.units(pod).get(LEGACY, ())
        assert wanted in (len(claimed), len(units)), (pod["metadata"]["name"], claimed, units)
        assert not (claimed and units), (pod["metadata"]["name"], claimed, units)
        return "driver" if claimed else "plugin"

    def wanted_by(self, pod: JSON) -> int:
        """Return how many GPUs a pod asks for."""
        workload = self.sample.workloads[self.sample.workload_of(pod)]
        main = pod_spec_of(workload)["containers"][0]["resources"]
        return int(main["limits"][LEGACY]) if "limits" in main else len(main["claims"])

    def audit(self) -> Any:  # noqa: ANN401  # JSON
        """Return what `drawbridge audit` says now."""
        return json.loads(self.cluster.drawbridge("audit", "-o", "json").check().out)

    def report(self) -> Iterator[str]:
        """Yield why pods wait, or are not created."""
        for pod in self.pods():
            if pod.get("status", {}).get("phase") != "Running":
                conditions = pod.get("status", {}).get("conditions", ())
                told = [each["message"] for each in conditions if each.get("message")]
                claims = [each["name"] for each in pod["spec"].get("resourceClaims", ())]
                yield f"{pod['metadata']['name']} with claims {claims} waits: {told}"
        for event in self.stage.client.get("/apis/events.k8s.io/v1/events")["items"]:
            if event.get("reason") == "FailedCreate":
                of = event["regarding"]
                yield f"{of['kind']}/{of['name']}: {event.get('note')}"

    # --- one step ----------------------------------------------------------------------------

    def type_step(self, commands: Sequence[str]) -> None:
        """Type the commands of a step, and give DaemonSets time after each one."""
        for command in commands:
            words = shlex.split(command, comments=False)
            if words[0] == "helm":
                self._play_helm(*_read_helm(words))
            elif words[0] == "drawbridge":
                assert words == ["drawbridge", "audit"], command
                self.cluster.drawbridge(*words[1:]).check()
            else:
                self._type(command)
            self._wait_for_daemons(f"daemons follow `{command}`")
            if MODE in command:
                self._wait_for_admission(command)

    def _type(self, command: str) -> None:
        """Type a command, and let the nodes do what it waits for."""
        with ThreadPoolExecutor(1) as background:
            typed = background.submit(self.kubectl.shell, command, PATIENCE)

            def has_ended() -> bool:
                self.follow_daemons()
                return typed.done()

            self.stage.wait(command, has_ended, PATIENCE)
            typed.result().check()

    def _wait_for_admission(self, command: str) -> None:
        """Wait until admission knows what a command changed."""
        refusals = [""]

        def is_translating() -> bool:
            refusals.append(self._find_refusal())
            return not refusals[-1]

        try:
            self.stage.wait(f"admission follows `{command}`", is_translating, PATIENCE)
        except AssertionError as problem:
            raise AssertionError(f"{problem}: {refusals[-1]}") from problem

    def _find_refusal(self) -> str:
        """Return why new pods of enforced namespaces get no claims, as a dry run shows."""
        for (namespace, name), workload in self.sample.workloads.items():
            path = f"/api/v1/namespaces/{namespace}"
            labels = self.stage.client.get(path)["metadata"].get("labels", {})
            if labels.get(MODE) != "enforce" or (namespace, name) == REFUSED:
                continue
            probe = {"metadata": {"name": f"{name}-probe"}, "spec": pod_spec_of(workload)}
            try:
                tried = self.stage.client.create(f"{path}/pods", probe, dryRun="All")
            except ApiError as refusal:
                # Pods that still run on the plugin use the quota that they share with claims.
                if "denied the request: QuotaExceeded:" in str(refusal):
                    continue
                return f"{name}: {refusal}"
            if not tried["spec"].get("resourceClaims"):
                return f"{name} has no claims"
        return ""

    def untouched(self, commands: Sequence[str]) -> set[str]:
        """Return the pods that no command of a step ends: those of other nodes and owners."""
        typed = [shlex.split(command) for command in commands]
        drained = {name for words in typed if words[1] == "drain" for name in words[2:]}
        restarted = {
            (words[2], words[-1].partition("/")[2]) for words in typed if "restart" in words
        }
        return {
            pod["metadata"]["uid"]
            for pod in self.pods()
            if pod["spec"].get("nodeName", "") not in {"", *drained}
            and self.sample.workload_of(pod) not in restarted
        }


def _read_helm(words: Sequence[str]) -> tuple[str, str, str]:
    """Return the verb, the release, and what is set, of a command."""
    release = next(each for each in words[2:] if not each.startswith("-"))
    return words[1], release, words[-1]


def _read_selector(text: str) -> JSON:
    return {DEVICES: text.rsplit("=", 1)[1]}


@scenario("full", rig="installed", needs=NEEDS)
def the_plan_of_the_sample_cluster_leads_to_a_cluster_without_plugins(stage: Stage) -> None:
    """Each step leaves what it says: no pod is lost, none runs without its devices."""
    follow(Migration(stage, installed(stage, mode="")))


@scenario("node", rig="nodes", nodes=SAMPLE.names)
def the_plan_of_the_sample_cluster_leads_to_real_nodes_without_plugins(stage: Stage) -> None:
    """The same, where kubelets say what each container has, and Drawbridge is evicted, too."""
    nodes = real(stage)
    follow(Migration(nodes, installed_as_pods(nodes)))


def follow(migration: Migration) -> None:
    """Follow the plan of an audit to its end, and compare each step with what comes."""
    migration.add_workloads()
    start = _start(migration)
    _wait_for(migration, "the sample", start)
    steps = migration.audit()["steps"]
    for step in steps:
        kept = migration.untouched(step["commands"])
        migration.type_step(step["commands"])
        _compare(migration, step)
        lost = kept - {each["metadata"]["uid"] for each in migration.pods()}
        assert not lost, f"{step['title']}: {len(lost)} pods ended that it does not name"
    nodes = {*migration.had_plugin, *migration.had_driver}
    driven = {"pluginNodes": 0, "driverNodes": len(nodes)}
    named = sum(len(step["loses"]) for step in steps)
    served = {"onPlugins": 0, "onDrivers": start["onPlugins"] + start["onDrivers"] - named}
    assert migration.seen() == {**start, **served, **driven}
    left = migration.audit()
    states = {each["state"] for each in left["nodeGroups"] if each["state"] != "none"}
    assert states == {"driver"}, left["nodeGroups"]
    fates = {
        workload["fate"]
        for namespace in left["namespaces"]
        for workload in namespace["workloads"]
        if workload["running"]
    }
    assert fates == {"translated"}, left["namespaces"]


def _start(migration: Migration) -> dict[str, int]:
    """Return what the sample shows, in the words of the audit."""
    running = [*SAMPLE.running()]
    claimed = sum("resourceClaims" in each["spec"] for each in running)
    return {
        "onPlugins": len(running) - claimed,
        "onDrivers": claimed,
        "waiting": len(SAMPLE.of("Pod")) - len(running) - _count_daemon_pods(),
        "pluginNodes": len(migration.had_plugin),
        "driverNodes": len(migration.had_driver),
    }


def _count_daemon_pods() -> int:
    return sum(each["metadata"]["namespace"] == SYSTEM for each in SAMPLE.of("Pod"))


def _compare(migration: Migration, step: Mapping[str, Any]) -> None:
    """Compare what a step leaves with what the plan said."""
    if step.get("expected") is not None:
        _wait_for(migration, step["title"], step["expected"])


def _wait_for(migration: Migration, what: str, expected: Mapping[str, int]) -> None:
    seen: dict[str, int] = {}

    def has_come() -> bool:
        seen.update(migration.seen())
        return _agrees(seen, expected)

    try:
        migration.stage.wait(what, has_come, PATIENCE)
    except AssertionError as problem:
        text = f"{what}: {expected} is expected, and there is {seen}"
        text = "\n".join((text, *migration.report()))
        raise AssertionError(text) from problem


def _agrees(seen: Mapping[str, int], expected: Mapping[str, int]) -> bool:
    """Whether there is what is expected; of `either` the scheduler decides who serves them."""
    free = expected.get("either", 0)
    more = [seen[key] - expected[key] for key in ("onPlugins", "onDrivers")]
    sure = ("waiting", "pluginNodes", "driverNodes")
    return min(more) >= 0 and sum(more) == free and all(seen[e] == expected[e] for e in sure)
