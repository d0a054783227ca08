"""The played cluster: a scheduler, owners that create pods again, budgets and quotas."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from tests.audit.player.state import (
    GPU,
    MODE,
    Answer,
    Json,
    Life,
    Machine,
    read_machines,
    read_pod,
)

HOST = "kubernetes.io/hostname"
_REPLACED = (GPU, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb")


class NeverEndsError(AssertionError):
    """A command that waits for what never comes."""


class PlayedCluster:
    """Nodes and pods, and who creates these again. `answers` are those of admission by owner.

    The scheduler takes nodes in their order, or as `chooses` shuffles them for each pod.
    """

    def __init__(
        self,
        objects: Sequence[Json],
        hardware: Mapping[str, Any],
        answers: Mapping[str, Answer],
        chooses: random.Random | None = None,
    ) -> None:
        self.answers = answers
        self._chooses = chooses
        self.objects = [*objects]
        self.machines = {each.name: each for each in read_machines(objects, hardware)}
        self.pods: dict[int, Life] = {}
        self.owed: list[Life] = []  # pods that a quota refuses until there is room
        self.modes: dict[str, str] = {}
        self.ending: set[str] = set()  # namespaces
        self.lost: set[str] = set()
        self.owners = {self._name(e): e for e in objects if "template" in e.get("spec", {})}
        self.failures = Counter[str]()
        self.suspended: dict[str, list[Life]] = {}
        self.daemons = {k: deepcopy(e["spec"]) for k, e in self.owners.items() if "DaemonSet" in k}
        self.budgets = [e for e in objects if e["kind"] == "PodDisruptionBudget"]
        self.quotas = [e for e in objects if e["kind"] == "ResourceQuota"]
        self.native = any("extendedResourceName" in e["spec"] for e in self._of("DeviceClass"))
        self.volumes = dict(self._read_volumes())
        self._next = 0
        for space in self._of("Namespace"):
            name = space["metadata"]["name"]
            self.modes[name] = space["metadata"]["labels"].get(MODE, "")
            if "deletionTimestamp" in space["metadata"]:
                self.ending.add(name)
        for pod in self._of("Pod"):
            life = read_pod(pod)
            if life is not None and not _is_plugin(pod):
                self._add(life)
        self.settle()

    def _of(self, kind: str) -> list[Json]:
        return [each for each in self.objects if each["kind"] == kind]

    @staticmethod
    def _name(value: Json) -> str:
        metadata = value["metadata"]
        return f"{metadata.get('namespace', '')}/{value['kind']}/{metadata['name']}"

    def _read_volumes(self) -> Iterator[tuple[tuple[str, str], str]]:
        for volume in self._of("PersistentVolume"):
            term = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
            claim = volume["spec"]["claimRef"]
            yield (claim["namespace"], claim["name"]), term["matchExpressions"][0]["values"][0]

    def _add(self, life: Life) -> int:
        self._next += 1
        self.pods[self._next] = life
        return self._next

    def on(self, name: str) -> Iterator[Life]:
        """Yield the pods of a node."""
        return (each for each in self.pods.values() if each.node == name)

    def has_plugin(self, name: str) -> bool:
        """Whether a plugin of GPUs offers anything on a node."""
        return any(key in _REPLACED for key in self.machines[name].units)

    # --- devices ---------------------------------------------------------------------------------

    def held(self, node: str, name: str) -> int:
        """Return the units of a plugin that pods hold on a node."""
        return sum(
            each.limits.get(name, 0)
            for each in self.on(node)
            if each.served == "plugin" or (not each.claims and name != GPU)
        )

    def claimed(self, node: str, name: str) -> float:
        """Return the devices of a class that pods hold on a node."""
        return sum(
            self.answers[each.full_owner].devices.get(name, 0)
            for each in self.on(node)
            if each.served == "driver" and each.full_owner in self.answers
        )

    def overlaps(self) -> list[str]:
        """Return the nodes where a driver publishes devices that pods have from a plugin."""
        return [
            name
            for name, each in self.machines.items()
            if each.published and not self.has_plugin(name) and each.devices is not None
            if any(e.served == "plugin" and not _survives(e) for e in self.on(name))
        ]

    def offered(self) -> set[str]:
        """Return the classes that nodes without a plugin offer."""
        return {
            kind
            for name, each in self.machines.items()
            if not self.has_plugin(name)
            for kind in each.published
        }

    # --- the scheduler ---------------------------------------------------------------------------

    def settle(self) -> None:
        """Create what is owed, and give nodes to waiting pods, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for owed in [*self.owed]:
                if self._quota_allows(owed):
                    self.owed.remove(owed)
                    self._add(owed)
                    changed = True
            for pod in [*self.pods.values()]:
                is_open = not pod.spec.get("schedulingGates") and pod.space not in self.ending
                if not pod.node and is_open:
                    changed |= self._schedule(pod)

    def _schedule(self, pod: Life) -> bool:
        named = pod.spec.get("nodeName", "")
        for name in [named] if named else self._order():
            served = self._serve(pod, name, named=bool(named))
            if served is not None:
                pod.node, pod.served = name, served
                return True
        return False

    def _order(self) -> list[str]:
        """Return the nodes, those first that the scheduler tries first."""
        names = sorted(self.machines, reverse=True)
        if self._chooses is not None:
            self._chooses.shuffle(names)
        return names

    def _serve(self, pod: Life, name: str, *, named: bool) -> str | None:
        """Return who would serve a pod on a node; None if it cannot start there."""
        machine = self.machines.get(name)
        if machine is None or not machine.ready:
            return None
        if not named and not self._may_start(pod, machine):
            return None
        wanted = {key: n for key, n in pod.limits.items() if n}
        if not pod.claims and self._has_units(name, wanted):
            return "plugin" if wanted else ""
        by_class = self.answers.get(pod.full_owner, Answer("", {})).fate == "byClass"
        if (pod.claims or by_class) and self._has_devices(pod, name):
            rest = {key: n for key, n in wanted.items() if not _is_gpu(key)}
            return "driver" if self._has_units(name, rest) else None
        return None

    def _has_devices(self, pod: Life, name: str) -> bool:
        """Whether a driver has devices for a pod where no plugin offers the same ones."""
        if self.has_plugin(name):
            return False
        published = self.machines[name].published
        return all(
            number <= published.get(kind, 0) - self.claimed(name, kind) + 1e-9
            for kind, number in self.answers[pod.full_owner].devices.items()
        )

    def _has_units(self, name: str, wanted: Mapping[str, int]) -> bool:
        units = self.machines[name].units
        return all(
            number <= units.get(key, 0) - self.held(name, key)
            for key, number in wanted.items()
            if not key.endswith(("gpumem", "gpucores"))
        )

    def _may_start(self, pod: Life, machine: Machine) -> bool:
        is_open = pod.tied == machine.name if pod.tied else not machine.cordoned
        labels, spec = machine.labels, pod.spec
        near = spec.get("nodeSelector", {})
        if pod.claims:  # a device says it
            near = {key: text for key, text in near.items() if key != "nvidia.com/gpu.present"}
        is_near = _has(labels, near)
        if not (is_open and is_near and all(_tolerates(spec, e) for e in machine.taints)):
            return False
        here = [*self.on(machine.name)]
        cpu = pod.cpu + sum(each.cpu for each in here) if pod.cpu else 0
        if len(here) >= machine.amounts["pods"] or cpu > machine.amounts["cpu"]:
            return False
        has_disks = all(at == labels.get(HOST) for at in self._disks(pod))
        return has_disks and self._is_apart(pod, machine) and self._is_spread(pod, machine)

    def _disks(self, pod: Life) -> Iterator[str]:
        for volume in pod.spec.get("volumes", ()):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
            if (pod.space, claim) in self.volumes:
                yield self.volumes[pod.space, claim]

    def _is_apart(self, pod: Life, machine: Machine) -> bool:
        rules = pod.spec.get("affinity", {}).get("podAntiAffinity", {})
        for rule in rules.get("requiredDuringSchedulingIgnoredDuringExecution", ()):
            wanted = rule["labelSelector"]["matchLabels"]
            for other in self.pods.values():
                same = other.node and self._domain(other.node, rule) == machine.labels.get(
                    rule["topologyKey"]
                )
                if same and other.space == pod.space and _has(other.labels, wanted):
                    return False
        return True

    def _domain(self, node: str, rule: Json) -> str | None:
        return self.machines[node].labels.get(rule["topologyKey"])

    def _is_spread(self, pod: Life, machine: Machine) -> bool:
        for rule in pod.spec.get("topologySpreadConstraints", ()):
            counts = Counter[str]()
            for other_machine in self.machines.values():
                near = pod.spec.get("nodeSelector", {})
                if _has(other_machine.labels, near) and rule["topologyKey"] in other_machine.labels:
                    counts[other_machine.labels[rule["topologyKey"]]] += 0
            for other in self.pods.values():
                mine = _has(other.labels, rule["labelSelector"]["matchLabels"])
                at = self._domain(other.node, rule) if other.node else None
                if mine and other.space == pod.space and at in counts:
                    counts[at] += 1
            at = machine.labels.get(rule["topologyKey"])
            if at not in counts or counts[at] + 1 - min(counts.values()) > rule["maxSkew"]:
                return False
        return True

    # --- owners ----------------------------------------------------------------------------------

    def create(self, old: Life, revision: int | None = None) -> None:
        """Let the owner of a pod create another one, as admission changes it."""
        if old.space in self.ending:
            self.lost.add(old.full_owner)
            return
        answer = self.answers.get(old.full_owner, Answer("", {}))
        enforced = self.modes.get(old.space) == "enforce" and not old.opted_out
        goes = answer.fate in ("toTranslate", "translated") and answer.devices
        claims = bool(enforced and goes and answer.devices.keys() <= self.offered())
        owner = self.owners.get(old.full_owner)
        template = owner["spec"]["template"]["spec"] if owner is not None else old.spec
        spec = {**old.spec}
        if "nodeName" in template:
            spec["nodeName"] = template["nodeName"]
        fields = {**old.__dict__, "node": "", "served": "", "claims": claims, "spec": spec}
        made = Life(**fields)
        made.revision = old.revision if revision is None else revision
        if self._quota_allows(made):
            self._add(made)
        else:
            self.owed.append(made)

    def _quota_allows(self, pod: Life) -> bool:
        mine = [each for each in self.pods.values() if each.space == pod.space]
        counted = [each for each in mine if self.native or not each.claims]
        more = pod.limits.get(GPU, 0) if self.native or not pod.claims else 0
        used = sum(each.limits.get(GPU, 0) for each in counted)
        for quota in self.quotas:
            hard = quota["spec"]["hard"] if quota["metadata"]["namespace"] == pod.space else {}
            if "pods" in hard and len(mine) + 1 > int(hard["pods"]):
                return False
            if more and used + more > int(hard.get(f"requests.{GPU}", used + more)):
                return False
        return True

    def end(self, key: int, *, evicted: bool = True, fails: bool = True) -> None:
        """End a pod; its owner creates another one."""
        old = self.pods.pop(key)
        if old.owner.startswith("Pod/"):
            self.lost.add(old.full_owner)
            return
        if old.owner.startswith("Job/") and fails and self._fails(old, evicted=evicted):
            self.lost.add(old.full_owner)
            for other in [k for k, e in self.pods.items() if e.full_owner == old.full_owner]:
                del self.pods[other]
            return
        self.create(old)
        self.settle()

    def _fails(self, pod: Life, *, evicted: bool) -> bool:
        """Whether the Job of a pod fails because it ended."""
        owner = self.owners.get(pod.full_owner)
        if owner is None:
            return False
        spec = owner["spec"]
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            if evicted and "onPodConditions" in rule:
                if rule["action"] == "Ignore":
                    return False
                if rule["action"] == "FailJob":
                    return True
        self.failures[pod.full_owner] += 1
        return self.failures[pod.full_owner] > int(spec["backoffLimit"])

    # --- evictions -------------------------------------------------------------------------------

    def may_evict(self, pod: Life) -> bool:
        """Whether the API server allows an eviction."""
        matching = [
            each
            for each in self.budgets
            if each["metadata"]["namespace"] == pod.space
            and _has(pod.labels, each["spec"]["selector"]["matchLabels"])
        ]
        if len(matching) > 1:
            return False
        return not pod.node or all(self._allows(each) for each in matching)

    def _allows(self, budget: Json) -> bool:
        wanted = budget["spec"]["selector"]["matchLabels"]
        space = budget["metadata"]["namespace"]
        alike = [e for e in self.pods.values() if e.space == space and _has(e.labels, wanted)]
        running = sum(bool(each.node) for each in alike)
        owned = {each.full_owner for each in alike}
        scale = sum(
            self.owners[name]["spec"].get("replicas", 0) for name in owned if name in self.owners
        )
        spec = budget["spec"]
        least = spec.get("minAvailable")
        if least is None:
            least = scale - spec["maxUnavailable"]
        return running - 1 >= int(least)

    def count(self) -> dict[str, Counter[str]]:
        """Return the pods of each owner that asks for devices: on plugins, on drivers, waiting."""
        counts: dict[str, Counter[str]] = {}
        for pod in (*self.pods.values(), *self.owed):
            if pod.full_owner in self.answers:
                counts.setdefault(pod.full_owner, Counter())[pod.served or "waiting"] += 1
        return counts


def names_of(lives: Iterable[Life]) -> Counter[str]:
    """Count pods by owner."""
    return Counter(each.full_owner for each in lives)


def _is_gpu(name: str) -> bool:
    return name.startswith("nvidia.com/")


def _survives(pod: Life) -> bool:
    """Whether what a pod has of a plugin is no GPU, so that a driver of GPUs takes nothing."""
    return not any(map(_is_gpu, pod.limits))


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == text for key, text in wanted.items())


def _tolerates(spec: Json, taint: Json) -> bool:
    for toleration in spec.get("tolerations", ()):
        is_meant = toleration.get("key") in (None, taint["key"])
        is_effect = toleration.get("effect") in (None, taint["effect"])
        is_equal = toleration.get("value", "") == taint.get("value", "")
        if is_meant and is_effect and (toleration.get("operator") == "Exists" or is_equal):
            return True
    return taint["effect"] == "PreferNoSchedule"


def _is_plugin(pod: Json) -> bool:
    paths = [each.get("hostPath", {}).get("path", "") for each in pod["spec"].get("volumes", ())]
    return any(each.endswith("/device-plugins") or "/plugins/" in each for each in paths)
