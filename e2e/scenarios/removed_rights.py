"""Scenarios: an administrator removes a right of Drawbridge, and its log names the right."""

import contextlib
import json
from collections.abc import Iterator
from typing import NamedTuple

from e2e.installed.installation import NAMESPACE, Installation, installed
from e2e.installed.replica import Replica
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

RBAC = "/apis/rbac.authorization.k8s.io/v1"
RIGS["removals"] = default_options


class Removal(NamedTuple):
    """One right: the process that has it, its role, and the words of the log without it."""

    process: str
    role: str
    resource: str
    verb: str
    namespaced: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Return what a line of the log has to contain."""
        return (f'cannot {self.verb} resource \\"{self.resource}\\"', f":drawbridge-{self.process}")


# Each is used within seconds of a start, so that a restart shows its absence.
REMOVALS = (
    Removal("controller", "drawbridge-controller-facts", "nodes", "watch"),
    Removal("controller", "drawbridge-controller-facts", "pods", "watch"),
    Removal("controller", "drawbridge-controller-facts", "resourceslices", "watch"),
    Removal("controller", "drawbridge-controller-templates", "resourceclaimtemplates", "watch"),
    Removal("controller", "drawbridge-controller-quota", "resourcequotas", "watch"),
    Removal("controller", "drawbridge-controller-published", "configmaps", "get", namespaced=True),
    Removal("controller", "drawbridge-controller-lease", "leases", "get", namespaced=True),
    Removal("controller", "drawbridge-controller-rollout", "deployments", "get", namespaced=True),
    Removal("webhook", "drawbridge-webhook-known", "limitranges", "watch"),
    Removal("webhook", "drawbridge-webhook-facts", "configmaps", "watch", namespaced=True),
)


def without(rule: JSON, removal: Removal) -> list[JSON]:
    """Split a rule, so that it grants everything but one verb on one resource."""
    if removal.resource not in rule["resources"]:
        return [rule]
    others = [each for each in rule["resources"] if each != removal.resource]
    verbs = [each for each in rule["verbs"] if each != removal.verb]
    parts = [
        {**rule, "resources": others},
        {**rule, "resources": [removal.resource], "verbs": verbs},
    ]
    return [each for each in parts if each["resources"] and each["verbs"]]


@contextlib.contextmanager
def removed(stage: Stage, removal: Removal) -> Iterator[None]:
    """Remove a verb on a resource from a role."""
    scope = f"namespaces/{NAMESPACE}/roles" if removal.namespaced else "clusterroles"
    path = f"{RBAC}/{scope}/{removal.role}"
    before = stage.client.get(path)["rules"]
    kept = [each for rule in before for each in without(rule, removal)]
    stage.client.patch(path, {"rules": kept})
    try:
        yield
    finally:
        stage.client.patch(path, {"rules": before})


def is_named(replicas: list[Replica], removal: Removal) -> bool:
    """Whether a warning or an error of a process names the right."""
    return any(
        all(word in json.dumps(line) for word in removal.words)
        for replica in replicas
        for line in replica.lines()
        if line["level"] in ("warning", "error")
    )


def restart(cluster: Installation, replicas: list[Replica]) -> None:
    """Restart processes without waiting until they are ready."""
    for replica in replicas:
        replica.stop()
        cluster.plane.processes[replica.name] = replica.start()


@scenario("full", rig="removals", needs=NEEDS)
def each_of_ten_removed_rights_is_named_in_a_warning(stage: Stage) -> None:
    """The process keeps running, and recovers when the right is back."""
    cluster = installed(stage)
    groups = {"controller": cluster.controllers, "webhook": cluster.webhooks}
    for removal in REMOVALS:
        replicas = groups[removal.process]
        with removed(stage, removal):
            restart(cluster, replicas)
            stage.wait(f"a warning about {removal}", lambda: is_named(replicas, removal), 30)  # noqa: B023  # used at once
            assert all(each.alive for each in replicas), removal
    for replica in cluster.replicas:
        replica.wait_ready()
    cluster.ignore_denials()
