"""Runs one soak: calm phases for comparison, then faults and attacks, then the verdict."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from e2e.bridge.placement import HEADER, OWNED, BridgeStage, bridge_fields, placement
from e2e.controlplane.plane import ControlPlane
from e2e.installed.installation import set_mode, wait_for_facts
from e2e.installed.judge import judged
from e2e.installed.replica import Replica
from e2e.nodes.fleet import Fleet
from e2e.runner import create_classes
from e2e.scenarios.judge import configured
from e2e.scenarios.objects import claim_spec, request
from e2e.scenarios.registry import RIGS
from e2e.scenarios.stage import LABEL, Stage
from e2e.scenarios.tenant import another_namespace
from e2e.soak import books, memory, probes, waits
from e2e.soak.attacks import Attackers
from e2e.soak.churn import Churn, ChurnPlan, Provisioner, prepare_cluster, prepare_namespace
from e2e.soak.cluster import SoakCluster
from e2e.soak.faults import FaultSchedule
from e2e.soak.journal import AWAY, Journal, Loops, Say
from e2e.soak.pods import GPU, gpus, node_plans
from e2e.soak.settings import SoakSettings

IN_TREE, CALM, ATTACKED, FAULTS = "in-tree", "calm", "attacks", "faults"
CHURN_PAUSE, LOOK_PAUSE, SAMPLE_PAUSE, PROVISION_PAUSE = 0.2, 3.0, 5.0, 1.0
PROBE_PAUSE = 1.0
CLOSED = "fleet: [{class: gpu.nvidia.com, closed: true}]\n"
SETTLE_SECONDS, EMPTY_SECONDS, PROBE_SECONDS = 240.0, 180.0, 120.0
TURN_SECONDS = 0.25
# A device that vanished while its pod was being bound; nobody else has it.
EXCUSED = ("UnknownDevice", "DeviceLost", "StaleGeneration")
# A driver is asked for a claim that is released since, with its pod.
REFUSED = "NotAllocated"


class Soak:
    """One run on one stage."""

    def __init__(self, stage: Stage, settings: SoakSettings, say: Say) -> None:
        self.stage = stage
        self.settings = settings
        self.journal = Journal(say, settings.seed)
        self.waits = waits.Waits(stage.client)
        self.memory = memory.Memory()
        self.probes = probes.Probes(stage.client, lambda: self.journal.phase)
        self.names = [stage.node_name(f"{number:03}") for number in range(settings.nodes)]
        self.namespaces: tuple[str, ...] = (stage.namespace,)
        self.pods = round(gpus(settings.nodes) * settings.pods_per_gpu)
        self.report: list[str] = []

    def play(self) -> bool:
        """Run all phases, print the report, and return whether nothing failed."""
        settings = self.settings
        self.journal.phase = "start"
        self.journal.note(f"{settings}, {self.pods} pods at a time")
        prepare_cluster(self.stage)
        self.namespaces += tuple(
            another_namespace(self.stage, f"team-{suffix}", {}) for suffix in "ab"
        )
        for namespace in self.namespaces:
            prepare_namespace(self.stage.client, namespace)
        self.waits.start()
        try:
            if settings.calm:
                self._in_tree()
            self._in_bridge()
        finally:
            self.waits.stop()
            self._print()
        return not self.journal.failures

    # --- phases --------------------------------------------------------------------------------

    def _in_tree(self) -> None:
        """Play the same pods with the stock scheduler, without faults."""
        self.journal.phase = IN_TREE
        labels = {LABEL: self.stage.name}
        self.stage.fleet.add_all(node_plans(self.names, labels))
        with self._churned(self.stage, ChurnPlan(IN_TREE, self.namespaces)):
            self._pass_time(60 * self.settings.calm_minutes)
        self.stage.fleet.remove(self.names)

    def _in_bridge(self) -> None:
        """Play them in bridge placement: calm, then with faults and attacks; then check."""
        self.journal.phase = "start"
        stage = placement(self.stage)
        self.stage.fleet.add_all(node_plans(self.names, {LABEL: stage.name, **OWNED}))
        legacy = another_namespace(stage, "legacy", {})
        self._opt_in(stage, legacy)
        cluster = SoakCluster(
            stage, self.journal, self.waits, self.namespaces, self._start_judge(stage)
        )
        loops = Loops(self.journal)
        pod = stage.legacy_pod("probe", 1)
        stage.wait("pods are translated and claims judged", lambda: self.probes.turn(legacy, pod))
        self.journal.phase = CALM
        loops.start("probes", lambda: self.probes.turn(legacy, pod), PROBE_PAUSE)
        loops.start("memory", lambda: self._sample(cluster), SAMPLE_PAUSE)
        loops.start("books", lambda: self._look(cluster), LOOK_PAUSE)
        if self.settings.calm:
            with self._churned(stage, ChurnPlan(CALM, self.namespaces, legacy)):
                self._pass_time(60 * self.settings.calm_minutes, cluster.supervise)
            self._check_empty(cluster)
        attackers, attacking = Attackers(cluster, self.settings.seed), Loops(self.journal)
        attackers.start(attacking)
        if self.settings.calm:
            self.journal.phase = ATTACKED
            with self._churned(stage, ChurnPlan(ATTACKED, self.namespaces, legacy)):
                self._pass_time(60 * self.settings.calm_minutes, cluster.supervise)
        self.journal.phase = FAULTS
        with self._churned(stage, ChurnPlan(FAULTS, self.namespaces, legacy)) as churning:
            schedule = self._play_faults(cluster)
            attacking.stop()
            for name, turn in (
                ("attackers leave", attackers.clean_up),
                ("finalizers are gone", cluster.release_pods),
            ):
                self._wait(name, turn, EMPTY_SECONDS)
            self.journal.note("faults and attacks end")
            churning.stop()
            self.journal.phase = "end"
            self._settle(cluster)
        self._check_empty(cluster)
        self._probe(cluster)
        loops.stop()
        self._judge(cluster, schedule)

    def _start_judge(self, stage: BridgeStage) -> Replica:
        """Install the judge, which may refuse what no GPU of the nodes satisfies."""
        cluster = stage.placement.cluster
        stage.enter(configured(cluster, f"{HEADER}{bridge_fields()}{CLOSED}"))
        return stage.enter(judged(stage, cluster)).running()

    def _opt_in(self, stage: BridgeStage, legacy: str) -> None:
        """Opt a namespace in, and wait until admission knows the nodes."""
        set_mode(stage, "enforce")
        wait_for_facts(stage, stage.placement.cluster, stage.legacy_pod("probe", 1))
        set_mode(stage, None)
        body = {"metadata": {"labels": {"drawbridge.dev/translate": "enforce"}}}
        stage.client.patch(f"/api/v1/namespaces/{legacy}", body)

    @contextmanager
    def _churned(self, stage: Stage, plan: ChurnPlan) -> Iterator[Loops]:
        """Let pods come and go."""
        self.journal.note(f"{self.pods} pods come and go")
        churn = Churn(stage, self.settings, self.waits, plan)
        churn.wanted = self.pods
        loops, volumes = Loops(self.journal), Loops(self.journal)
        provisioner = Provisioner(self.stage.client, self.settings.slow_volume)
        loops.start("churn", churn.turn, CHURN_PAUSE)
        volumes.start("volumes", provisioner.turn, PROVISION_PAUSE)
        try:
            yield loops
        finally:
            loops.stop()
            self._remove_pods()
            volumes.stop()

    def _play_faults(self, cluster: SoakCluster) -> FaultSchedule:
        """Play faults for the time of the run."""
        schedule = FaultSchedule(cluster)
        quarter = 15 * self.settings.minutes
        self._pass_time(quarter, schedule.turn)
        # From now on the memory of one pair and of the webhook is that of one life.
        cluster.spared.update(cluster.parts.keys() - {*cluster.pair_names(1)})
        self._pass_time(3 * quarter, schedule.turn)
        schedule.end_all()
        return schedule

    def _pass_time(self, seconds: float, turn: Callable[[], object] = bool) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            turn()
            time.sleep(TURN_SECONDS)

    # --- checks --------------------------------------------------------------------------------

    def _sample(self, cluster: SoakCluster) -> None:
        self.memory.sample(self.journal.seconds, cluster.pids())

    def _look(self, cluster: SoakCluster) -> None:
        """Compare what all claims hold."""
        for problem in books.held_twice(books.all_claims(cluster.client), cluster.layouts):
            self.journal.fail(f"held twice: {problem}")
        self._look_at_violations()

    def _look_at_violations(self) -> None:
        for violation in self.stage.fleet.record.take():
            is_of_vanished = books.is_of(violation.subject, self.waits.vanished)
            is_refused = violation.code == REFUSED and is_of_vanished
            if violation.code in EXCUSED or is_refused:
                self.journal.note(f"excused: {violation}")
            else:
                self.journal.fail(f"violation: {violation}")

    def _wait(self, what: str, question: Callable[[], list[str]], seconds: float) -> None:
        """Wait until a list of problems is empty, and record what is left of it."""
        began, last = time.monotonic(), ""
        while problems := tried(question):
            last = f", at last: {problems[0]}"
            if time.monotonic() - began > seconds:
                for problem in problems:
                    self.journal.fail(f"not within {seconds:g} s: {what}: {problem}")
                return
            time.sleep(1)
        self.journal.note(f"{what}: after {time.monotonic() - began:.0f} s{last}")

    def _settle(self, cluster: SoakCluster) -> None:
        """Wait until every pod that waits does so rightly."""
        stage = self.stage
        skipped = ""

        def left_behind() -> list[str]:
            nonlocal skipped
            cluster.supervise()
            waiting = books.Waiting(stage.client, stage.version, stage.selector)
            pods = waiting.left_behind()
            skipped = ", ".join(f"{count} {why}" for why, count in waiting.skipped.items())
            return pods

        self._wait("no pod is left behind that fits", left_behind, SETTLE_SECONDS)
        self.journal.note(f"pods that still wait: {skipped or 'none'}")
        for problem in books.broken(stage.client, stage.version):
            self.journal.fail(f"allocation breaks a rule: {problem}")

    def _remove_pods(self) -> None:
        """Delete the pods of all phases, and wait until they are gone."""

        def left() -> list[str]:
            pods = self.stage.client.get("/api/v1/pods", labelSelector=waits.PHASE)["items"]
            for pod in pods:
                if "deletionTimestamp" not in pod["metadata"]:
                    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
                    self.stage.client.delete(f"{path}/{pod['metadata']['name']}", grace=None)
            return [books.describe_end(pod) for pod in pods]

        self._wait("all pods are gone", left, EMPTY_SECONDS)

    def _check_empty(self, cluster: SoakCluster) -> None:
        """Without pods nothing is held, in the API and by the drivers."""
        self._wait("nothing is held", partial(books.leaks, cluster.stage), EMPTY_SECONDS)
        self._wait("nothing is kept", partial(books.remembered, cluster.pairs), EMPTY_SECONDS)
        self._wait("no copy of a process is left", cluster.copies, EMPTY_SECONDS)

    def _probe(self, cluster: SoakCluster) -> None:
        """Every node gives all its GPUs to one pod: the allocator itself holds none back."""
        stage = cluster.stage
        stage.template("all", claim_spec(request("gpu", GPU, allocationMode="All")))
        for name in self.names:
            own = stage.pod_object(name, templates={"gpu": "all"})["spec"]
            own["nodeSelector"] = {"kubernetes.io/hostname": name}
            body = {"metadata": {"name": name, "labels": {waits.PHASE: "probe"}}, "spec": own}
            body["metadata"]["labels"] |= {waits.KIND: "all", waits.PRIORITY: "low"}
            stage.client.create(stage.pod_path(), body)

        def waiting() -> list[str]:
            cluster.supervise()
            pods = stage.client.get(stage.pod_path(), labelSelector=f"{waits.PHASE}=probe")
            return [
                f"{books.name_of(pod)}: {pod.get('status', {}).get('conditions')}"
                for pod in pods["items"]
                if pod.get("status", {}).get("phase") != "Running"
            ]

        self._wait("all GPUs of every node are free", waiting, PROBE_SECONDS)
        self._remove_pods()
        self._check_empty(cluster)

    def _judge(self, cluster: SoakCluster, schedule: FaultSchedule) -> None:
        """Judge what processes did, and collect the report."""
        self._look_at_violations()
        cluster.stage.placement.ignore_denials()
        if self.settings.calm:
            for problem in self.probes.problems(CALM, ATTACKED):
                self.journal.fail(problem)
        grown = [name for name in self.memory.samples if self.memory.has_grown(name)]
        if self.settings.judges_memory:
            for name in grown:
                self.journal.fail(f"the memory of {name} grows")
        self.report += [
            f"{schedule.steps} faults:",
            *(f"    {count:4}  {name}" for name, count in sorted(schedule.played.items())),
            f"schedulers that gave the Lease up: {dict(cluster.gave_up)}",
        ]

    def _print(self) -> None:
        say = self.journal.say
        for line in self.report:
            say(line)
        say(f"requests of the rig that failed: {dict(self.journal.refused)}")
        say(waits.HEAD)
        for phase in (IN_TREE, CALM, ATTACKED, FAULTS):
            for line in self.waits.rows(phase):
                say(line)
        say(probes.HEAD)
        for line in self.probes.rows():
            say(line)
        say(memory.HEAD)
        for line in self.memory.rows():
            say(line)
        say(f"seed {self.settings.seed}, {self.journal.seconds / 60:.1f} minutes")
        for failure in self.journal.failures:
            say(f"FAILURE: {failure}")
        say(f"{len(self.journal.failures)} failures")


def tried(question: Callable[[], list[str]]) -> list[str]:
    """Return the answer, or as a problem that there is none."""
    try:
        return question()
    except AWAY as problem:
        return [f"no answer: {problem!r}"]


def soak(settings: SoakSettings, say: Say) -> bool:
    """Run a soak on a control plane of its own; return whether nothing failed."""
    with ControlPlane(RIGS["bridge"]("1.36")) as plane:
        create_classes(plane.admin)
        with Fleet(plane.admin, seed=settings.seed) as fleet:
            stage = Stage("soak", "1.36", plane.admin, fleet, plane)
            stage.set_up()
            run = Soak(stage, settings, say)
            run.play()
            stage.clean_up()
            # What the logs of the processes complain about.
            for violation in stage.violations():
                run.journal.fail(f"violation: {violation}")
            return not run.journal.failures
