"""Types the commands of a plan on a cluster of its own making: it knows nothing of the models.

It reads the text of each command as kubectl would, keeps pods by name, and counts devices one by
one. A command that it does not know, a drain that a budget stops, or a device with two holders is
an error.
"""

import re
import shlex
from dataclasses import dataclass, field
from typing import Any

LEGACY = "nvidia.com/gpu"
MODE = "drawbridge.dev/translate"
DEVICES = "drawbridge.dev/devices"


@dataclass
class Machine:
    """A node: the units of its plugin, and the devices that a driver publishes for claims."""

    labels: dict[str, str]
    taints: list[str]
    units: dict[str, int]
    published: int
    gpus: int
    cordoned: bool
    plugin: bool
    daemons: bool = True


@dataclass
class Life:
    """A pod: who owns it, what it asks, and with what it runs."""

    space: str
    owner: str
    labels: dict[str, str]
    limits: dict[str, int]
    selector: dict[str, str]
    tolerates: bool
    node: str = ""
    claims: bool = False
    tied: str = ""
    opted_out: bool = False


@dataclass
class Typist:
    """A cluster that commands change. `native` classes serve the name without claims."""

    objects: list[dict[str, Any]]
    machines: dict[str, Machine] = field(default_factory=dict)
    pods: dict[int, Life] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    jobs: dict[str, int] = field(default_factory=dict)
    suspended: dict[str, list[Life]] = field(default_factory=dict)
    budgets: list[dict[str, Any]] = field(default_factory=list)
    native: bool = False

    def __post_init__(self) -> None:
        """Read the objects."""
        for each in self.objects:
            getattr(self, f"_read_{each['kind'].lower()}", lambda _: None)(each)
        self.settle()

    def _read_deviceclass(self, plain: dict[str, Any]) -> None:
        self.native = "extendedResourceName" in plain["spec"]

    def _read_namespace(self, plain: dict[str, Any]) -> None:
        self.modes[plain["metadata"]["name"]] = plain["metadata"]["labels"].get(MODE, "")

    def _read_node(self, plain: dict[str, Any]) -> None:
        allocatable = plain["status"]["allocatable"]
        units = {key: int(n) for key, n in allocatable.items() if "/" in key}
        labels = dict(plain["metadata"]["labels"])
        gpus = int(labels.get("nvidia.com/gpu.count", units.get(LEGACY, 0)))
        taints = [taint["key"] for taint in plain["spec"]["taints"]]
        name, closed = plain["metadata"]["name"], plain["spec"]["unschedulable"]
        self.machines[name] = Machine(labels, taints, units, 0, gpus, closed, LEGACY in units)

    def _read_resourceslice(self, plain: dict[str, Any]) -> None:
        self.machines[plain["spec"]["nodeName"]].published = len(plain["spec"]["devices"])

    def _read_poddisruptionbudget(self, plain: dict[str, Any]) -> None:
        self.budgets.append(plain)

    def _read_job(self, plain: dict[str, Any]) -> None:
        name = f"{plain['metadata']['namespace']}/Job/{plain['metadata']['name']}"
        self.jobs[name] = plain["spec"]["backoffLimit"]

    def _read_pod(self, plain: dict[str, Any]) -> None:
        metadata, spec = plain["metadata"], plain["spec"]
        owners = metadata.get("ownerReferences")
        owner = f"{owners[0]['kind']}/{owners[0]['name']}" if owners else f"Pod/{metadata['name']}"
        if metadata["namespace"] == "kube-system":
            return
        pod = Life(
            metadata["namespace"],
            owner,
            metadata["labels"],
            spec["containers"][0]["resources"]["limits"],
            spec.get("nodeSelector", {}),
            "tolerations" in spec,
            spec.get("nodeName", ""),
            tied=spec.get("nodeName", "") if owner.startswith("DaemonSet/") else "",
            opted_out=metadata["labels"].get(MODE) == "off",
        )
        self.pods[len(self.pods)] = pod

    # --- devices -----------------------------------------------------------------------------

    def held(self, node: str, name: str, *, claims: bool) -> int:
        """Return how many devices of a name pods hold on a node, from claims or from a plugin."""
        return sum(
            each.limits.get(name, 0)
            for each in self.pods.values()
            if each.node == node and (each.claims if name == LEGACY else False) is claims
        )

    def overlaps(self) -> list[str]:
        """Return the nodes where devices that a plugin's pods hold are published for claims."""
        return [
            name
            for name, each in self.machines.items()
            if not each.plugin
            and each.published
            and self.held(name, LEGACY, claims=False)
            and self.held(name, LEGACY, claims=True) + self.held(name, LEGACY, claims=False)
            > each.published
        ]

    def _offers_claims(self) -> bool:
        return any(each.published and not each.plugin for each in self.machines.values())

    def _fits(self, pod: Life, name: str) -> bool | None:
        """Return whether a pod fits on a node and would have claims; None if it does not fit."""
        node = self.machines[name]
        near = all(node.labels.get(key) == text for key, text in pod.selector.items())
        closed = node.cordoned and not pod.tied
        if closed or not near or (node.taints and not pod.tolerates):
            return None
        for key, wanted in pod.limits.items():
            if key != LEGACY:
                free = node.units.get(key, 0) - self.held(name, key, claims=False)
                if wanted > free:
                    return None
        wanted = pod.limits.get(LEGACY, 0)
        if not wanted:
            return False
        if not pod.claims and node.plugin:
            free = node.units.get(LEGACY, 0) - self.held(name, LEGACY, claims=False)
            return False if wanted <= free else None
        if (pod.claims or self.native) and not node.plugin:
            used = self.held(name, LEGACY, claims=True)
            return True if wanted <= node.published - used else None
        return None

    def settle(self) -> None:
        """Give nodes to waiting pods until nothing changes."""
        for pod in self.pods.values():
            if pod.node:
                continue
            for name in [pod.tied] if pod.tied else sorted(self.machines, reverse=True):
                with_claims = self._fits(pod, name)
                if with_claims is not None:
                    pod.node, pod.claims = name, with_claims
                    break

    # --- the life of pods --------------------------------------------------------------------

    def _create(self, old: Life) -> None:
        enforced = self.modes.get(old.space) == "enforce" and not old.opted_out
        wants = LEGACY in old.limits
        claims = enforced and wants and not self.native and self._offers_claims()
        fields = {**old.__dict__, "node": "", "claims": claims}
        self.pods[max(self.pods, default=0) + 1] = Life(**fields)

    def _end(self, key: int, *, fails: bool = True) -> None:
        old = self.pods.pop(key)
        name = f"{old.space}/{old.owner}"
        if old.owner.startswith("Pod/"):
            self.lost.add(name)
            return
        if name in self.jobs and fails:
            self.jobs[name] -= 1
            if self.jobs[name] < 0:
                self.lost.add(name)
                for other in [k for k, e in self.pods.items() if f"{e.space}/{e.owner}" == name]:
                    del self.pods[other]
                return
        self._create(old)
        self.settle()

    def _may_evict(self, pod: Life) -> bool:
        for budget in self.budgets:
            selector = budget["spec"]["selector"]["matchLabels"]
            mine = budget["metadata"]["namespace"] == pod.space
            if not mine or any(pod.labels.get(k) != v for k, v in selector.items()):
                continue
            app = selector["app"]
            alike = [e for e in self.pods.values() if e.space == pod.space]
            alike = [each for each in alike if each.labels["app"] == app]
            running = sum(bool(each.node) for each in alike)
            spec = budget["spec"]
            least = len(alike) - spec.get("maxUnavailable", len(alike))
            if "minAvailable" in spec:
                least = -(-len(alike) * 50 // 100)
            if running - 1 < least:
                return False
        return True

    # --- commands ----------------------------------------------------------------------------

    def type(self, command: str) -> None:
        """Type a command as it is printed."""
        if command.startswith("for node in "):
            nodes, body = command.removeprefix("for node in ").split("; do export node; ", 1)
            for node in shlex.split(nodes):
                for each in body.removesuffix(" || break; done").split(" && "):
                    self.type(each.replace("$node", node))
            return
        if command.startswith("timeout "):
            self._check(command)
            return
        words = shlex.split(command)
        if words[0] in ("helm", "drawbridge"):
            return
        verb = next(each for each in words[1:] if each not in ("-n", words[2]) or words[1] != "-n")
        getattr(self, f"_type_{verb.replace('-', '_')}")(words)
        self.settle()

    def _check(self, command: str) -> None:
        """Fail if a command waits for what never comes."""
        if matched := re.search(r"spec\.nodeName=([\w-]+),spec\.driver", command):
            assert self.machines[matched[1]].published, command
        elif matched := re.search(r"get node ([\w-]+) .*allocatable", command):
            assert not self.machines[matched[1]].plugin, command

    def _type_annotate(self, words: list[str]) -> None:
        """Nothing that is played here depends on annotations."""

    def _type_patch(self, words: list[str]) -> None:
        if "suspend" not in words[-1]:
            return
        name = f"{words[2]}/Job/{words[4].partition('/')[2]}"
        if '"suspend":true' in words[-1]:
            keys = [k for k, e in self.pods.items() if f"{e.space}/{e.owner}" == name]
            self.suspended[name] = [self.pods.pop(key) for key in keys]
        else:
            for each in self.suspended.pop(name, []):
                self._create(each)

    def _type_label(self, words: list[str]) -> None:
        changes = [each for each in words[3:] if "=" in each or each.endswith("-")]
        changes = [each for each in changes if not each.startswith("--")]
        names = [each for each in words[3:] if each not in changes and not each.startswith("--")]
        for change in changes:
            key, _, value = change.partition("=")
            for name in names:
                if words[2] == "namespace":
                    self.modes[name] = value
                elif key.rstrip("-") == DEVICES:
                    self._label_node(self.machines[name], value)

    def _label_node(self, node: Machine, value: str) -> None:
        if value == "none":
            node.plugin = False
            node.units.pop(LEGACY, None)
        elif value:
            assert not node.plugin
            node.published = node.published or node.gpus

    def _type_drain(self, words: list[str]) -> None:
        names = [each for each in words[2:] if not each.startswith("--")]
        forced = "--disable-eviction" in words
        for name in names:
            self.machines[name].cordoned = True
        while True:
            left = [
                key
                for key, each in self.pods.items()
                if each.node in names and not each.owner.startswith("DaemonSet/")
            ]
            if not left:
                return
            bare = [each for each in left if self.pods[each].owner.startswith("Pod/")]
            assert not bare, ("drain refuses", words, self.pods[bare[0]])
            key = next((k for k in left if forced or self._may_evict(self.pods[k])), None)
            assert key is not None, ("the drain never ends", words, [self.pods[k] for k in left])
            self._end(key)

    def _type_cordon(self, words: list[str]) -> None:
        for name in words[2:]:
            self.machines[name].cordoned = True

    def _type_uncordon(self, words: list[str]) -> None:
        for name in words[2:]:
            self.machines[name].cordoned = False

    def _type_delete(self, words: list[str]) -> None:
        if "daemonset/" in words[4]:
            assert not [e for e in self.machines.values() if e.plugin and "nvidia" in words[4]]
            assert "sriov" not in words[4] or not [
                e for e in self.pods.values() if len(e.limits) > 1
            ]
            return
        if words[4] == "pod":
            chosen = [k for k, e in self.pods.items() if e.owner == f"Pod/{words[5]}"]
        else:
            selector = dict(each.split("=") for each in words[6].split(","))
            fields = words[8]
            node = fields.rpartition("spec.nodeName=")[2]
            chosen = [
                key
                for key, each in self.pods.items()
                if each.space == words[2]
                and all(each.labels.get(k) == v for k, v in selector.items())
                and each.node == node
            ]
        for key in [each for each in chosen if self.pods[each].space == words[2]]:
            self._end(key)

    def _type_rollout(self, words: list[str]) -> None:
        if "status" in words:
            return
        owner = words[-1].partition("/")
        kind = {"statefulset": "StatefulSet", "deployment": "Deployment"}[owner[0]]
        names = [k for k, e in self.pods.items() if e.owner == f"{kind}/{owner[2]}"]
        for key in [each for each in names if self.pods[each].space == words[2]]:
            self._end(key, fails=False)
