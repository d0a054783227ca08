"""Scenarios: the CA is rotated while pods are admitted, and no call of the webhook fails."""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from e2e.controlplane.client import ApiError, Client
from e2e.installed import trust
from e2e.installed.installation import Installation, Setup, installed, wait_for_facts
from e2e.scenarios.admission import GPU, NEEDS, ORIGINAL, legacy_pod
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

RIG = "certificates"
RIGS[RIG] = default_options
# A new CA is due after 30 seconds, and trusted for 4 before it signs.
SETUP = Setup(
    webhooks=3,
    controllers=2,
    webhook_options=("--leaf-life=9s",),
    controller_options=("--ca-life=45s", "--ca-delay=4"),
)
ADMISSIONS = 1000
WRITERS = 4
PATIENCE_SECONDS = 150.0


class Admissions:
    """Creates legacy pods as dry runs through API servers, and records what fails."""

    def __init__(self, stage: Stage, clients: Sequence[Client]) -> None:
        self.stage, self.clients = stage, clients
        self.done = 0
        self.errors: Counter[str] = Counter()
        self.last_error = time.monotonic()
        self._ending = threading.Event()
        self._lock = threading.Lock()

    @contextmanager
    def running(self) -> Iterator["Admissions"]:
        """Create pods until the block ends."""
        threads = [
            threading.Thread(target=self._create_all, args=(number,), daemon=True)
            for number in range(WRITERS)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            for thread in threads:
                thread.join(30)

    def _create_all(self, writer: int) -> None:
        number = 0
        while not self._ending.is_set():
            number += 1
            client = self.clients[number % len(self.clients)]
            problem = admit(self.stage, client, f"pod-{writer}-{number}")
            with self._lock:
                self.done += 1
                if problem:
                    self.errors[problem] += 1
                    self.last_error = time.monotonic()


def admit(stage: Stage, client: Client, name: str) -> str:
    """Create one legacy pod as a dry run, and return why it was not translated."""
    try:
        pod = client.create(stage.pod_path(), legacy_pod(stage, name), dryRun="All")
    except (ApiError, OSError) as problem:
        return f"{problem}"[:300]
    return "" if ORIGINAL in pod["metadata"].get("annotations", {}) else "not translated"


def prepare(stage: Stage, setup: Setup = SETUP) -> Installation:
    """Install with a CA of seconds, and wait until pods are translated."""
    cluster = installed(stage, setup=setup)
    stage.node("a", "lab-2g2n", {GPU: "full"})
    wait_for_facts(stage, cluster, legacy_pod(stage, "probe"))
    return cluster


def tell(text: str) -> None:
    """Print a measurement."""
    sys.stdout.write(f"      {text}\n")
    sys.stdout.flush()


def rotate_under_load(stage: Stage, cluster: Installation, clients: Sequence[Client]) -> None:
    """Let two rotations happen during admissions, and check that nothing failed."""
    refused = trust.count_refused_certificates(cluster)
    signers = {trust.read_signer(cluster)}
    handshakes = 0
    with Admissions(stage, clients).running() as admissions:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(signers) < 3 or admissions.done < ADMISSIONS:
            assert time.monotonic() < deadline, f"{len(signers)} CAs, {admissions.done} pods"
            for bundle in trust.read_bundles(cluster):
                for replica in cluster.webhooks:
                    problem = trust.find_handshake_problem(replica, bundle)
                    assert not problem, problem
                    handshakes += 1
            signers.add(trust.read_signer(cluster))
    assert not admissions.errors, admissions.errors.most_common(3)
    assert trust.count_refused_certificates(cluster) == refused
    for controller in cluster.controllers:
        assert controller.metric("drawbridge_ca_injections_total", result="error") == 0
    tell(
        f"{admissions.done} admissions through {len(clients)} API servers and {handshakes} "
        f"handshakes during {len(signers) - 1} rotations, none failed"
    )


@scenario("full", rig=RIG, needs=NEEDS)
def the_ca_is_rotated_under_load_without_a_refused_pod(stage: Stage) -> None:
    """Three replicas serve 1,000 pods during two rotations; no call and no handshake fails."""
    cluster = prepare(stage)
    rotate_under_load(stage, cluster, [stage.client])


@scenario("full", rig=RIG, needs=NEEDS)
def the_ca_is_rotated_under_load_with_two_api_servers(stage: Stage) -> None:
    """The same with a second API server on the same etcd, which has its own view of the bundle."""
    cluster = prepare(stage)
    other = stage.processes.start_another_apiserver("kube-apiserver-2")
    try:
        stage.wait("both admit", lambda: not admit(stage, other, "probe"))
        rotate_under_load(stage, cluster, [stage.client, other])
    finally:
        stage.processes.processes.pop("kube-apiserver-2").stop()
