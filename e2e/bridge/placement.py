"""Installs bridge placement on a control plane: pairs of scheduler and allocator, and their rights.

    @bridge_scenario("smoke")              # installs once for each control plane
    def one_pod_gets_one_gpu(stage: BridgeStage) -> None:
        stage.node("a", "dgx-a100", {GPU: "full"})
        stage.pod("worker", templates={"gpu": "gpu"})

Accounts, roles and scheduler configuration are those of `manifests/components/bridge`. Its
Deployment is read for the options of the allocator; its processes run here. The controller taints
the nodes with the label of `OWNED`. The stock scheduler runs beside them and has the other nodes.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import yaml

from e2e.bridge.build import quorum_scheduler, scheduler
from e2e.bridge.judgement import broken_rules
from e2e.bridge.pair import Pair, PairFiles
from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import QUORUM, ControlPlane
from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import DENIED, NAMESPACE, Installation, Setup, installed
from e2e.installed.manifest import BASE, JSON, find
from e2e.nodes.family import DRIVERS
from e2e.nodes.fleet import NodePlan
from e2e.nodes.machine import Machine
from e2e.nodes.record import Record, Violation
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import LABEL, Stage

NAME = "drawbridge-scheduler"
SCHEDULER = "drawbridge"
GPU = "gpu.nvidia.com"
OWNED = {"rig.drawbridge.dev/owned": "true"}
COMPONENT = BASE.parent / "components" / "bridge"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
HEADER = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
# What runs here is not a pod, and there is no image of it.
NOT_RUN = ("Deployment", "PodDisruptionBudget")
# The feature gates of a control plane that its kube-scheduler has to know.
SCHEDULER_GATES = ("GenericWorkload", "GangScheduling", "DRAWorkloadResourceClaims")
# Two pairs take over within the duration of the Lease.
PAIRS = 2
SETUP = Setup(webhooks=1, controllers=1)
FENCE = {"key": "drawbridge.dev/owned", "effect": "NoSchedule"}
TOLERATION = {"key": "drawbridge.dev/owned", "operator": "Exists", "effect": "NoSchedule"}
# A Lease lasts 15 seconds, and each attempt to take it is up to 2.2 times 2 seconds later.
LEAD_SECONDS = 60.0

RIGS["bridge"] = default_options


def bridge_fields(*, unfenced: bool = False, fence: str = "taint") -> str:
    """Return the fields of the configuration: every driver on the labelled nodes is owned."""
    selector = {"matchLabels": OWNED}
    entry = {"nodeSelector": selector, "unfenced": unfenced, "fence": fence}
    owned = [{"driver": driver, **entry} for driver in DRIVERS]
    return yaml.safe_dump({"placement": "bridge", "ownedPools": owned})


def container_words(deployment: JSON) -> dict[str, list[str]]:
    """Return the options of each container, with the namespace that its environment has."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return {
        container["name"]: [word.replace("$(NAMESPACE)", NAMESPACE) for word in container["args"]]
        for container in containers
    }


class Placement:
    """The pairs of one control plane."""

    def __init__(self, cluster: Installation, profile: str = SCHEDULER) -> None:
        self.cluster = cluster
        self.profile = profile  # the pods that name this scheduler are theirs
        self.plane = cluster.plane
        program = quorum_scheduler if self.plane.options.quorum else scheduler
        self.program = program(self.plane.options.version)
        self.pairs: list[Pair] = []
        self._objects: list[JSON] = []
        self._told: set[str] = set()

    def install(self, pairs: int = PAIRS, *, unfenced: bool = False) -> None:
        """Configure bridge placement, create accounts and roles, and start the pairs."""
        configure_and_wait(self.cluster, f"{HEADER}{bridge_fields(unfenced=unfenced)}")
        texts = [path.read_text("utf-8") for path in sorted(COMPONENT.glob("scheduler-*.yaml"))]
        self._objects = [each for text in texts for each in yaml.safe_load_all(text)]
        applied = yaml.safe_dump_all(each for each in self._objects if each["kind"] not in NOT_RUN)
        self.cluster.kubectl("apply", "-f", "-", stdin=applied).check()
        self.pairs = [self.make_pair(f"{number}") for number in range(pairs)]
        self.start()

    def make_pair(self, suffix: str, relay: Path | None = None, port: int = 0) -> Pair:
        """Return a pair that does not run yet; its plugin calls the relay if there is one.

        Both use the API server on a port, if it is not the first one.
        """
        objects = self._objects
        token = self.plane.account_token(NAMESPACE, NAME)
        access = self.plane.kubeconfig(f"{NAME}{port or ''}", token, port)
        template = yaml.safe_load(find(objects, "ConfigMap", NAME)["data"]["scheduler.yaml"])
        for profile in template["profiles"]:
            profile["schedulerName"] = self.profile
            if self.plane.options.quorum:
                profile["plugins"]["multiPoint"]["enabled"].append(QUORUM)
        words = container_words(find(objects, "Deployment", NAME))
        gates = [each for each in SCHEDULER_GATES if self.plane.options.gates.get(each)]
        if gates:
            flag = "--feature-gates=" + ",".join(f"{each}=true" for each in gates)
            words["scheduler"] = [*words["scheduler"], flag]
        files = PairFiles(self.program, access, template, words)
        return Pair(self.plane, f"{NAME}-{suffix}", files, relay)

    def upgrade(self) -> None:
        """Replace the pairs, one after the other, by those of the version of the control plane."""
        self.program = scheduler(self.plane.options.version)
        for pair in self.pairs:
            pair.files = pair.files._replace(program=self.program)
            pair.stop()
            pair.start()
            pair.wait_healthy()

    def start(self) -> None:
        """Start what does not run."""
        for pair in self.pairs:
            pair.start()
        for pair in self.pairs:
            pair.wait_healthy()

    def find_leader(self) -> Pair | None:
        """Return the pair whose kube-scheduler holds the Lease."""
        try:
            holder = self.plane.admin.get(LEASE)["spec"].get("holderIdentity") or ""
        except ApiError as problem:
            if problem.code != 404:
                raise
            return None
        return next((each for each in self.pairs if holder.startswith(f"{each.host}_")), None)

    def ignore_denials(self) -> None:
        """Ignore denials logged so far: a starting API server has not read its roles yet."""
        self.cluster.ignore_denials()
        for pair in self.pairs:
            texts = map(json.dumps, pair.allocator.lines())
            self._told.update(text for text in texts if DENIED in text)

    @contextlib.contextmanager
    def errors_recorded(self, record: Record) -> Iterator[None]:
        """Record unhandled exceptions and denied requests of allocators as violations."""
        try:
            yield
        finally:
            for pair in self.pairs:
                for line in pair.allocator.lines():
                    text = json.dumps(line)
                    if ("stack" in line or DENIED in text) and text not in self._told:
                        self._told.add(text)
                        record.add([Violation("Complaint", pair.host, "", "log", "", text)])


class BridgeStage(Stage):
    """A stage whose nodes and pods belong to Drawbridge."""

    def __init__(self, stage: Stage, placement: Placement) -> None:
        vars(self).update(vars(stage))  # the same namespace, nodes and clean-up
        self.placement = placement

    def node(
        self,
        suffix: str,
        shape: str,
        drivers: Mapping[str, str | None] | None = None,
        plugins: Mapping[str, tuple[str, ...]] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Machine:
        """Add a node whose devices Drawbridge allocates; it registers with the taint."""
        own = {**OWNED, **(labels or {}), LABEL: self.name}
        name = self.node_name(suffix)
        self.fleet.add_all([NodePlan(name, shape, drivers or {}, own, plugins or {}, (FENCE,))])
        return self.fleet.machines[name]

    def pod_object(self, name: str, **spec: Any) -> JSON:  # noqa: ANN401  # goes to pod_spec
        """Return a pod of Drawbridge's scheduler without creating it."""
        own = {"schedulerName": SCHEDULER, "tolerations": [TOLERATION]}
        return super().pod_object(name, **{**own, **spec})

    def legacy_pod(self, name: str, count: int) -> JSON:
        """Return a pod that requests GPUs of a device plugin, which only admission can help."""
        return super().pod_object(name, limits={"nvidia.com/gpu": f"{count}"})

    def run_on_new_node(self, pod: str) -> str:
        """Run a pod with one of the two GPUs of a new node; return the name of the node."""
        node = self.node("a", "lab-2g2n", {GPU: "full"}).name
        self.template("gpu", claim_spec(request("gpu", GPU)))
        self.run_pod(pod, templates={"gpu": "gpu"})
        return node

    def leader(self) -> Pair:
        """Wait until a pair leads, and return it."""
        leader = self.wait("a scheduler leads", self.placement.find_leader, LEAD_SECONDS)
        assert leader is not None
        return leader

    def describe(self) -> Iterator[str]:
        """Yield the taints of the nodes and what the allocators say, for failed scenarios."""
        for node in self.client.get("/api/v1/nodes", labelSelector=f"{LABEL}={self.name}")["items"]:
            yield f"node {node['metadata']['name']}: taints {node['spec'].get('taints', [])}"
        for pair in self.placement.pairs:
            yield f"{pair.host}: {pair.allocator_status()}"

    def allocated_claims(self) -> list[JSON]:
        """Return all allocated claims of the stage."""
        claims = self.client.get(self.claim_path())["items"]
        return [each for each in claims if each.get("status", {}).get("allocation")]

    def check_allocations(self) -> int:
        """Check all allocations by the specification, and return how many there are."""
        claims = self.allocated_claims()
        problems = broken_rules(
            self.client, self.version, claims, self.placement.plane.options.gates
        )
        assert not problems, "\n".join(problems)
        return len(claims)


_PLANES: WeakKeyDictionary[ControlPlane, Placement] = WeakKeyDictionary()


def _knows_scheduler(installed_pairs: Placement) -> bool:
    """Whether a scheduler leads, and the facts do not deny it."""
    facts = installed_pairs.cluster.facts() or {}
    return bool(installed_pairs.find_leader()) and facts.get("scheduler", True)


def placement(stage: Stage) -> BridgeStage:
    """Return the stage on bridge placement, which is installed once for each control plane."""
    cluster = installed(stage, mode="", setup=SETUP)
    if cluster.plane not in _PLANES:
        _PLANES[cluster.plane] = Placement(cluster)
        _PLANES[cluster.plane].install()
        knows = functools.partial(_knows_scheduler, _PLANES[cluster.plane])
        stage.wait("admission knows the scheduler", knows, LEAD_SECONDS)
    planes = _PLANES[cluster.plane]
    assert planes.pairs, "bridge placement could not be installed, see the first scenario"
    planes.start()
    stage.enter(planes.errors_recorded(stage.fleet.record))
    return BridgeStage(stage, planes)


def bridge_scenario(
    suite: str, since: str = "1.34", rig: str = "bridge"
) -> Callable[[Callable[[BridgeStage], None]], Callable[[BridgeStage], None]]:
    """Register a scenario of bridge placement; what is allocated at its end is checked."""

    def register(play: Callable[[BridgeStage], None]) -> Callable[[BridgeStage], None]:
        @functools.wraps(play)
        def run(stage: Stage) -> None:
            bridge = placement(stage)
            try:
                play(bridge)
                bridge.check_allocations()
            except Exception as problem:
                for line in bridge.describe():
                    problem.add_note(line)
                raise

        run.__name__ = f"bridge_{play.__name__}"
        scenario(suite, since=since, rig=rig, needs=("processes",))(run)
        return play

    return register
