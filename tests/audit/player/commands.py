"""Types the commands of a plan on a played cluster, as kubectl reads them."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from tests.audit.player.cluster import NeverEndsError, PlayedCluster
from tests.audit.player.state import DEVICES, GPU, Json, Life, Machine

_FLAGS = ("--overwrite", "--ignore-not-found", "--ignore-daemonsets", "--delete-emptydir-data")


class CommandError(AssertionError):
    """A command that ends with an error."""


class Typist:
    """Types commands. `drivers` have charts installed, that run where a label names them."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self.cluster = cluster

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
        words = [each for each in shlex.split(command) if each not in _FLAGS]
        if words[0] in ("helm", "drawbridge"):
            return
        space = ""
        if words[1] == "-n":
            space, words = words[2], [words[0], *words[3:]]
        getattr(self, f"_{words[1]}")(space, words[2:])
        self.cluster.settle()

    def _check(self, command: str) -> None:
        """Fail if a command waits for what never comes."""
        slices = r"(! )?kubectl get resourceslices \S+ spec\.nodeName=([^\s,]+),spec\.driver"
        for gone, name in re.findall(slices, command):
            if bool(self.cluster.machines[name].published) is bool(gone):
                raise NeverEndsError(command)
        offers = r"get node (\S+) .*allocatable.* grep -q(v?)E \"\((.*?)\)"
        if matched := re.search(offers, command):
            units = self.cluster.machines[matched[1]].units
            names = matched[3].replace("[.]", ".").split("|")
            if any(units.get(each) for each in names) is bool(matched[2]):
                raise NeverEndsError(command)

    # --- nodes and namespaces --------------------------------------------------------------------

    def _annotate(self, _: str, words: Sequence[str]) -> None:
        names, changes = _split(words[1:])
        for name in names:
            _change(self.cluster.machines[name].notes, changes)

    def _label(self, _: str, words: Sequence[str]) -> None:
        names, changes = _split(words[1:])
        for name in names:
            if words[0] == "namespace":
                labels = {"drawbridge.dev/translate": self.cluster.modes[name]}
                _change(labels, changes)
                self.cluster.modes[name] = labels.get("drawbridge.dev/translate", "")
            else:
                _change(self.cluster.machines[name].labels, changes)
                self.follow_labels(self.cluster.machines[name])

    def follow_labels(self, machine: Machine) -> None:
        """Let plugins and drivers run where the labels of a node allow it."""
        wanted = machine.labels.get(DEVICES, "")
        operated = "nvidia.com/gpu.deploy.device-plugin"
        for owner in [*machine.plugins]:
            spec = self.cluster.daemons.get(f"kube-system/DaemonSet/{owner}", {})
            apart = DEVICES in json.dumps(spec)
            off = owner == "nvidia-device-plugin-daemonset" and (
                machine.labels.get(operated) == "false"
            )
            if machine.ready and ((wanted and apart) or off):
                machine.plugins.discard(owner)
                _unplug(machine, owner)
        if wanted == "none" and machine.ready:
            machine.published = {}
        elif wanted and machine.devices and machine.ready:
            machine.published = machine.published or dict(machine.devices)
        if not wanted and machine.ready and machine.had_plugins - machine.plugins:
            machine.plugins |= machine.had_plugins
            machine.units = dict(machine.had_units)
            machine.published = {}

    def _cordon(self, _: str, names: Sequence[str]) -> None:
        for name in names:
            self.cluster.machines[name].cordoned = True

    def _uncordon(self, _: str, names: Sequence[str]) -> None:
        for name in names:
            self.cluster.machines[name].cordoned = False

    def _drain(self, _: str, words: Sequence[str]) -> None:
        names = [each for each in words if not each.startswith("--")]
        forced = "--disable-eviction" in words
        skips = any(each.startswith("--skip-wait-for-delete-timeout") for each in words)
        for name in names:
            self.cluster.machines[name].cordoned = True
        while left := [k for name in names for k in self._evicted(name, skips=skips)]:
            pods = self.cluster.pods
            if bare := [pods[key].full_owner for key in left if _is_bare(pods[key])]:
                raise CommandError("drain refuses", words, bare)
            able = (k for k in left if forced or self.cluster.may_evict(pods[k]))
            key = next((k for k in able if not pods[k].ends and self._ends_on(pods[k])), None)
            if key is None:
                raise NeverEndsError("drain", words, sorted({pods[k].full_owner for k in left}))
            self.cluster.end(key, evicted=not forced)

    def _evicted(self, name: str, *, skips: bool) -> list[int]:
        return [
            key
            for key, each in self.cluster.pods.items()
            if each.node == name
            and not each.owner.startswith("DaemonSet/")
            and not each.static
            and not (skips and each.ends)
        ]

    def _ends_on(self, pod: Life) -> bool:
        """Whether the kubelet of its node ends a pod."""
        return self.cluster.machines[pod.node].ready

    # --- workloads -------------------------------------------------------------------------------

    def _patch(self, space: str, words: Sequence[str]) -> None:
        words = [each for each in words if not each.startswith("--")]
        kind, _, name = words[0].partition("/")
        patch: dict[str, Any] = json.loads(words[-1])
        if kind == "daemonset":
            self._patch_daemons(f"{space}/DaemonSet/{name}", patch)
        elif "suspend" in patch["spec"]:
            self._suspend(f"{space}/Job/{name}", suspend=patch["spec"]["suspend"])

    def _patch_daemons(self, name: str, patch: Json) -> None:
        spec = self.cluster.daemons[name]["template"]["spec"]
        for key, value in patch["spec"]["template"]["spec"].items():
            if value is None:
                spec.pop(key, None)
            else:
                spec[key] = value

    def _suspend(self, name: str, *, suspend: bool) -> None:
        cluster = self.cluster
        if suspend:
            keys = [key for key, each in cluster.pods.items() if each.full_owner == name]
            cluster.suspended[name] = [cluster.pods.pop(key) for key in keys]
        else:
            for each in cluster.suspended.pop(name, []):
                cluster.create(each)

    def _delete(self, space: str, words: Sequence[str]) -> None:
        cluster = self.cluster
        if words[0].startswith("daemonset/"):
            self._remove_plugin(words[0].removeprefix("daemonset/"))
            return
        if words[0] == "pod":
            chosen = [k for k, e in cluster.pods.items() if e.owner == f"Pod/{words[1]}"]
        else:
            selector = dict(each.split("=") for each in words[2].split(","))
            node = words[4].rpartition("spec.nodeName=")[2]
            chosen = [
                key
                for key, each in cluster.pods.items()
                if all(each.labels.get(k) == v for k, v in selector.items()) and each.node == node
            ]
        for key in chosen:
            if key in cluster.pods and cluster.pods[key].space == space:
                if cluster.pods[key].ends:
                    raise NeverEndsError("delete", words)
                cluster.end(key, evicted=False)

    def _remove_plugin(self, owner: str) -> None:
        for machine in self.cluster.machines.values():
            if owner in machine.plugins:
                machine.plugins.discard(owner)
                _unplug(machine, owner)
        for pod in self.cluster.pods.values():
            if pod.served == "plugin" and not pod.limits.keys() <= set(
                self.cluster.machines[pod.node].units
            ):
                raise CommandError("a plugin is removed that a pod needs", owner, pod.full_owner)

    def _rollout(self, space: str, words: Sequence[str]) -> None:
        kind, _, name = words[1].partition("/")
        kind = {"statefulset": "StatefulSet", "deployment": "Deployment"}[kind]
        full = f"{space}/{kind}/{name}"
        owner = self.cluster.owners[full]
        if owner["spec"].get("paused"):
            raise CommandError("a paused Deployment cannot restart", full)
        revision = max((e.revision for e in self._pods_of(full)), default=0)
        if words[0] == "status":
            if any(e.revision < revision or not e.node for e in self._pods_of(full)):
                raise NeverEndsError("rollout status", full)
            return
        self._restart(full, owner, revision + 1)

    def _pods_of(self, full: str) -> list[Life]:
        pods = (*self.cluster.pods.values(), *self.cluster.owed)
        return [each for each in pods if each.full_owner == full]

    def _restart(self, full: str, owner: Json, revision: int) -> None:
        """Replace pods as their owner does: before or after the new ones run."""
        cluster, strategy = self.cluster, owner["spec"].get("strategy", {})
        old = [key for key, each in cluster.pods.items() if each.full_owner == full]
        old.sort(key=lambda key: bool(cluster.pods[key].node))
        if strategy.get("type") == "Recreate":
            ended = [cluster.pods.pop(key) for key in old]
            for each in ended:
                cluster.create(each, revision)
            return
        if owner["kind"] == "Deployment":
            self._roll(full, old, revision, strategy.get("rollingUpdate", {}))
            return
        for key in old:
            cluster.create(cluster.pods.pop(key), revision)
            cluster.settle()
            if any(not e.node for e in self._pods_of(full) if e.revision == revision):
                return

    def _roll(self, full: str, old: list[int], revision: int, rule: Json) -> None:
        """Scale the new pods up and the old ones down, until neither is allowed."""
        cluster, wanted = self.cluster, len(old)
        more = rule.get("maxSurge", -(-wanted // 4))
        away = rule.get("maxUnavailable", wanted // 4)
        if full.partition("/")[0] in cluster.ending:
            raise NeverEndsError("no pod is created in a namespace that ends", full)
        pattern, changed = cluster.pods[old[0]] if old else None, True
        while changed and pattern is not None:
            changed = False
            new = [e for e in self._pods_of(full) if e.revision == revision]
            for _ in range(min(wanted - len(new), wanted + more - len(new) - len(old))):
                cluster.create(pattern, revision)
                changed = True
            cluster.settle()
            idle = [key for key in old if not cluster.pods[key].node]
            ready = sum(bool(each.node) for each in self._pods_of(full))
            spare = max(0, ready - (wanted - away))
            for key in (*idle, *[key for key in old if key not in idle][:spare]):
                old.remove(key)
                del cluster.pods[key]
                changed = True
            cluster.settle()


def _unplug(machine: Machine, owner: str) -> None:
    """Take away what a plugin offers, unless another one does."""
    prefix = {"sriov": "openshift.io/", "rdma": "rdma/", "amd": "amd.com/"}.get(
        owner.partition("-")[0], "nvidia.com/"
    )
    others = [each for each in machine.plugins if each.partition("-")[0] in ("nvidia", "hami")]
    if prefix == "nvidia.com/" and others:
        return
    for name in [each for each in machine.units if each.startswith(prefix)]:
        del machine.units[name]


def _is_bare(pod: Life) -> bool:
    return pod.owner.startswith("Pod/")


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split names and changes."""
    changes = [each for each in words if "=" in each or each.endswith("-")]
    return [each for each in words if each not in changes], changes


def _change(values: dict[str, str], changes: Sequence[str]) -> None:
    for change in changes:
        key, equals, value = change.partition("=")
        if equals:
            values[key] = value
        else:
            values.pop(key.removesuffix("-"), None)


__all__ = ["GPU", "CommandError", "Typist"]
