"""Scenarios: processes die, the network or a clock fails, and the Secret of the CA is lost.

Each prints how long it takes until everything is trusted, served and translated again.
"""

import base64
import contextlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from e2e.controlplane.client import ApiError
from e2e.controlplane.files import kubeconfig
from e2e.controlplane.processes import free_port, suspended
from e2e.controlplane.relay import Backend, Relay
from e2e.installed import trust
from e2e.installed.installation import CONTROLLER, NAMESPACE, WEBHOOK, Installation
from e2e.installed.replica import Replica
from e2e.scenarios.admission import NEEDS
from e2e.scenarios.certificates import (
    RIG,
    SETUP,
    Admissions,
    admit,
    prepare,
    tell,
)
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

LOST_RIG = "certificates lost"
RIGS[LOST_RIG] = default_options
# Another leader needs up to 17 seconds, which must not be the last of a CA.
SLOW_SETUP = SETUP._replace(controller_options=("--ca-life=150s", "--ca-delay=4"))
CACHE = Path(__file__).parents[2] / ".cache" / "faketime"
LIBRARY = "libfaketime.so.1"
STOPPED_SECONDS = 10.0
PATIENCE_SECONDS = 90.0
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}"


def recover(stage: Stage, cluster: Installation, what: str, disturb: Callable[[], None]) -> None:
    """Disturb, then measure the time until everything works again."""
    started = time.monotonic()
    disturb()
    disturbed = time.monotonic()

    def works() -> bool:
        with contextlib.suppress(ApiError, OSError):
            return not trust.find_trust_problem(cluster) and not admit(stage, stage.client, "a")
        return False

    stage.wait(f"recovered: {what}", works, PATIENCE_SECONDS)
    now = time.monotonic()
    tell(f"{what}: recovered {now - disturbed:.1f} s after {disturbed - started:.1f} s of it")


@scenario("full", rig=LOST_RIG, needs=NEEDS)
def certificates_survive_the_death_of_processes(stage: Stage) -> None:
    """A replica and the leader are killed."""
    cluster = prepare(stage, SLOW_SETUP)

    def kill_replica() -> None:
        cluster.webhooks[0].kill()
        cluster.start_all()

    def kill_leader() -> None:
        before = stage.client.get(LEASE)["spec"]["holderIdentity"]
        cluster.leader.kill()
        cluster.start_all()

        def is_replaced() -> bool:
            return bool(stage.client.get(LEASE)["spec"]["holderIdentity"] != before)

        stage.wait("another leads", is_replaced)

    with Admissions(stage, [stage.client]).running() as admissions:
        recover(stage, cluster, "kill -9 of a replica", kill_replica)
        recover(stage, cluster, "kill -9 of the leader", kill_leader)
    assert not [each for each in admissions.errors if "x509" in each], admissions.errors


@scenario("full", rig=LOST_RIG, needs=NEEDS)
def certificates_survive_an_outage_of_the_control_plane(stage: Stage) -> None:
    """The API server is killed; etcd stops for ten seconds."""
    cluster = prepare(stage, SLOW_SETUP)
    plane = stage.processes

    def restart_api_server() -> None:
        plane.processes["kube-apiserver"].kill()
        plane.start_apiserver()
        cluster.ignore_denials()

    def stop_etcd() -> None:
        with suspended(plane.processes["etcd"]):
            time.sleep(STOPPED_SECONDS)

    recover(stage, cluster, "kill -9 of the API server", restart_api_server)
    recover(stage, cluster, "etcd stopped", stop_etcd)
    cluster.ignore_denials()


@scenario("full", rig=LOST_RIG, needs=NEEDS)
def a_lost_secret_is_restored_without_a_refused_pod(stage: Stage) -> None:
    """It is deleted, emptied and damaged during admissions. The CA stays the same or rotates."""
    cluster = prepare(stage, SLOW_SETUP)

    def damage() -> None:
        data = stage.client.get(trust.SECRET)["data"]
        trust.write_secret(cluster, {**data, "tls.key": base64.b64encode(b"x").decode()})

    with Admissions(stage, [stage.client]).running() as admissions:
        recover(stage, cluster, "Secret deleted", lambda: trust.delete_secret(cluster))
        recover(stage, cluster, "Secret emptied", lambda: trust.write_secret(cluster, None))
        recover(stage, cluster, "Secret damaged", damage)
    assert not admissions.errors, admissions.errors.most_common(3)
    assert "AuthorityRestored" in stage.wait("events", lambda: trust.read_reasons(cluster))


@scenario("full", rig=LOST_RIG, needs=NEEDS)
def a_secret_of_another_client_is_kept_and_the_service_goes_on(stage: Stage) -> None:
    """Nothing overwrites it. Pods are admitted, and its deletion lets a new CA be stored."""
    cluster = prepare(stage, SLOW_SETUP)
    foreign = {"tls.crt": base64.b64encode(b"theirs").decode()}
    with Admissions(stage, [stage.client]).running() as admissions:
        trust.write_secret(cluster, foreign, labels={})
        stage.wait("an event", lambda: "SecretNotOwned" in trust.read_reasons(cluster))
        before = admissions.done
        stage.wait("pods are admitted", lambda: admissions.done > before + 50)
        assert stage.client.get(trust.SECRET)["data"] == foreign
        recover(stage, cluster, "foreign Secret deleted", lambda: trust.delete_secret(cluster))
    assert not admissions.errors, admissions.errors.most_common(3)


@scenario("full", rig=LOST_RIG, needs=NEEDS)
def a_damaged_secret_and_new_controllers_make_another_ca(stage: Stage) -> None:
    """Nobody remembers the key. Running replicas serve until the new CA is trusted everywhere."""
    cluster = prepare(stage, SLOW_SETUP)

    def lose() -> None:
        for controller in cluster.controllers:
            controller.kill()
        trust.write_secret(cluster, None)
        cluster.start_all()

    with Admissions(stage, [stage.client]).running() as admissions:
        recover(stage, cluster, "Secret emptied and controllers killed", lose)
    assert not admissions.errors, admissions.errors.most_common(3)


def start_behind(stage: Stage, cluster: Installation, relay: Relay, *prefix: str) -> Replica:
    """Start one more replica of the webhook, whose API server is a relay."""
    plane = stage.processes
    token = plane.account_token(NAMESPACE, WEBHOOK)
    server = f"https://{relay.address}:{relay.port}"
    path = plane.folder / f"{stage.name}.kubeconfig"
    access = kubeconfig(path, server, plane.authority, token)
    words = [str(each) for each in cluster.webhooks[0].words]
    words = [f"--kubeconfig={access}" if "--kubeconfig" in each else each for each in words]
    replica = Replica(f"{stage.name}-4", [*prefix, *words], cluster.folder / "fourth.log")
    replica.start()
    stage.wait("the fourth replica is ready", replica.ready)
    return replica


@scenario("full", rig=RIG, needs=NEEDS)
def a_replica_follows_the_ca_after_its_watch_was_cut(stage: Stage) -> None:
    """Without the API server it serves and renews; afterwards it uses the current CA."""
    cluster = prepare(stage)
    port = free_port()
    with Relay("127.0.0.1", port) as relay:
        relay.add(Backend(stage.processes.port))
        replica = start_behind(stage, cluster, relay)
    try:
        cut, before = time.monotonic(), trust.read_signer(cluster)
        while trust.read_signer(cluster) == before:
            (bundle, *_) = trust.read_bundles(cluster)
            problem = trust.find_handshake_problem(replica, bundle)
            assert not problem, problem
        started = time.monotonic()
        with Relay("127.0.0.1", port) as relay:
            relay.add(Backend(stage.processes.port))

            def follows() -> bool:
                return not trust.find_handshake_problem(replica, trust.read_signer(cluster))

            stage.wait("it serves the current CA", follows, PATIENCE_SECONDS)
        seconds = time.monotonic() - started
        tell(f"watch cut for {started - cut:.0f} s with a rotation: {seconds:.1f} s to recover")
    finally:
        replica.kill()


def find_faketime() -> str:
    """Return the path of libfaketime from Debian's package, or an empty string."""
    library = next(iter(CACHE.rglob(LIBRARY)), None)
    if library is None:
        CACHE.mkdir(parents=True, exist_ok=True)
        for words in (["apt-get", "download", "libfaketime"], ["dpkg-deb", "-x", "", "."]):
            package = next((each.name for each in CACHE.glob("libfaketime_*.deb")), "")
            command = [word or package for word in words]
            subprocess.run(command, cwd=CACHE, check=False, capture_output=True)
        library = next(iter(CACHE.rglob(LIBRARY)), None)
    return os.fspath(library) if library else ""


@scenario("full", rig=RIG, needs=NEEDS)
def certificates_follow_the_clock_of_the_api_server(stage: Stage) -> None:
    """A replica whose clock is days ahead, or steps back by half an hour, is trusted."""
    cluster = prepare(stage)
    library = find_faketime()
    if not library:
        tell("NOT PLAYED: the package libfaketime is not available")
        return
    clock = cluster.folder / "clock"
    clock.write_text("+10d", encoding="ascii")
    faked = ("/usr/bin/env", f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={clock}")
    exact = ("FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1")
    with Relay("127.0.0.1", free_port()) as relay:
        relay.add(Backend(stage.processes.port))
        replica = start_behind(stage, cluster, relay, *faked, *exact)
        try:
            (warning, *_) = [
                line for line in replica.lines() if "clock of this" in str(line.get("msg"))
            ]
            tell(warning["msg"])
            for step in ("+10d", "-30m", "+3h", "+10d"):
                clock.write_text(step, encoding="ascii")
                started = replica.metric("drawbridge_certificate_reads_total", result="success")
                for _ in range(2):
                    check_renewal(stage, cluster, replica, started)
                    started += 1
                tell(f"clock at {step}: certificates are renewed and trusted")
        finally:
            replica.kill()


def check_renewal(stage: Stage, cluster: Installation, replica: Replica, before: float) -> None:
    """Wait for the next certificate, and check that the bundle trusts every one meanwhile."""

    def renewed() -> bool:
        (bundle, *_) = trust.read_bundles(cluster)
        problem = trust.find_handshake_problem(replica, bundle)
        assert not problem, problem
        name = "drawbridge_certificate_reads_total"
        return replica.metric(name, result="success") > before

    stage.wait("a new certificate", renewed, PATIENCE_SECONDS)
