"""A real control plane on loopback: etcd, API server, controller-manager, schedulers.

    with ControlPlane() as plane:
        plane.admin.get("/api/v1/nodes")

Everything lives in a temporary folder and on free ports, and ends with the block. By default there
is no kubelet and no kube-proxy: nodes are objects that somebody simulates, and the clusterIP of a
Service is an address of the loopback range that `e2e.controlplane.relay` listens on. With
`Options.address` other namespaces reach it, and real kubelets report to it (`e2e.realnodes`).
"""

import contextlib
import http.client
import ipaddress
import os
import shutil
import ssl
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e.bridge.build import quorum_scheduler
from e2e.controlplane import build, certificates, files
from e2e.controlplane.client import ApiError, Client
from e2e.controlplane.processes import Process, free_port

# A range for each port, so that two control planes on one machine have different Services.
SERVICES = "127.{}.0.0/24"
LOOPBACK = "127.0.0.1"
# Whose requests the API server logs, and where.
AUDITED = "system:serviceaccounts:drawbridge-system"
AUDIT_LOG = "audit.log"
QUORUM = {"name": "Quorum"}
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)


@dataclass(frozen=True)
class Options:
    """What a scenario may want otherwise.

    `schedulers` maps a process name to what its KubeSchedulerConfiguration has beyond the usual,
    `users` a static user to its groups. An `address` other than loopback needs a certificate for
    it, which is made, and endpoints of the API server, which it then writes itself. With `nodes`,
    real kubelets report: they are authorized and admitted as nodes, and a node has the taints of
    its conditions. With `image`, what is installed runs from its image instead of this checkout.
    With `quorum`, each kube-scheduler has the Permit plugin Quorum (`bridge/cmd/quorum-scheduler`).
    """

    version: str = build.DEFAULT
    gates: Mapping[str, bool] = field(default_factory=dict)
    runtime: Mapping[str, bool] = field(default_factory=dict)
    schedulers: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"kube-scheduler": {}}
    )
    apiserver: tuple[str, ...] = ()
    users: Mapping[str, str] = field(default_factory=dict)
    address: str = LOOPBACK
    service_range: str = ""
    nodes: bool = False
    controllers: tuple[str, ...] = CONTROLLERS
    controller_manager: tuple[str, ...] = ()
    image: bool = False
    quorum: bool = False


class ControlPlane:
    """The processes of one control plane, from start to end."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.bin = build.binaries(self.options.version)
        self.folder = Path(tempfile.mkdtemp(prefix="drawbridge-rig-"))
        # The path of a unix socket has at most 107 bytes, and TMPDIR can be long.
        self.sockets = Path(tempfile.mkdtemp(prefix="rig-sockets-", dir="/tmp"))
        self.processes: dict[str, Process] = {}
        self.port = free_port()
        self.etcd_port = free_port()
        self.authority = self.folder / "certs" / "apiserver.crt"
        self.private, self.public = files.signing_key(self.folder)
        self.token_file, self.tokens = files.token_file(self.folder, self.options.users)
        self._admin: Client | None = None

    @property
    def admin(self) -> Client:
        """Talks to the API server as a member of system:masters."""
        if self._admin is None:
            self._admin = self.client(self.tokens["admin"])
        return self._admin

    def client(self, token: str) -> Client:
        """Make a client for the holder of `token`."""
        return Client(self.port, token, self.authority.read_text(encoding="ascii"))

    def kubeconfig(self, name: str, token: str, port: int = 0) -> Path:
        """Write a kubeconfig for the holder of `token`; `name` becomes the file's."""
        path = self.folder / f"{name.replace(':', '-').replace('/', '-')}.kubeconfig"
        server = f"https://{self.options.address}:{port or self.port}"
        return files.kubeconfig(path, server, self.authority, token)

    def user_config(self, user: str = "admin") -> Path:
        """Write a kubeconfig for one of the static users."""
        return self.kubeconfig(user, self.tokens[user])

    def account_token(self, namespace: str, name: str) -> str:
        """Ask the API server for a token of a ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 36000},
        }
        token: str = self.admin.create(path, request)["status"]["token"]
        return token

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):  # and not Ctrl-C
            self.print_logs()
        self.stop()

    def print_logs(self, lines: int = 30) -> None:
        """Print the end of every log, for failed scenarios."""
        for name, process in self.processes.items():
            sys.stderr.write(f"--- {name}\n{process.tail(lines)}\n")

    def start(self) -> None:
        """Start everything in order; returns when all of it is ready."""
        self.start_etcd()
        self.start_apiserver()
        self.start_controller_manager()
        for name, extra in self.options.schedulers.items():
            self.start_scheduler(name, extra)
        for name in self.processes:
            if name not in ("etcd", "kube-apiserver"):
                self._wait_healthz(name)

    def stop(self) -> None:
        """End everything, etcd last: the API server holds on to it while it ends."""
        for name in reversed(list(self.processes)):
            self.processes.pop(name).stop()
        self._keep_audit_log()
        shutil.rmtree(self.sockets, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def upgrade(self, options: Options) -> None:
        """Replace each process but etcd by one with other options, the API server first."""
        self.options, self.bin = options, build.binaries(options.version)
        self.processes.pop("kube-apiserver").stop()
        self.start_apiserver()
        self.processes.pop("kube-controller-manager").stop()
        self.start_controller_manager()
        self._wait_healthz("kube-controller-manager")
        for name, extra in options.schedulers.items():
            self.processes.pop(name).stop()
            self.start_scheduler(name, extra)
            self._wait_healthz(name)

    def start_etcd(self) -> None:
        """Start etcd without fsync: nothing here outlives the run."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.etcd_port, free_port()))
        self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ).wait_ready(lambda: answers(f"{client}/health"))

    def start_apiserver(self) -> None:
        """Start the API server; may be called again after it was stopped or killed."""
        options = self._apiserver_options(self.port)
        self._spawn("kube-apiserver", *options, *self._audit()).wait_ready(self._apiserver_ready)

    def turn_off(self, gate: str) -> None:
        """Restart the API server without a feature gate."""
        self.options = replace(self.options, gates={**self.options.gates, gate: False})
        self.processes["kube-apiserver"].stop()
        self.start_apiserver()

    def start_another_apiserver(self, name: str) -> Client:
        """Start one more API server on the same etcd, and return a client of it."""
        port = free_port()
        process = self._spawn(name, *self._apiserver_options(port), program="kube-apiserver")
        client = Client(port, self.tokens["admin"], self.authority.read_text(encoding="ascii"))

        def ready() -> bool:
            with contextlib.suppress(OSError, ApiError):
                client.get("/readyz")
                return True
            return False

        process.wait_ready(ready)
        return client

    def _apiserver_options(self, port: int) -> tuple[str, ...]:
        return (
            f"--etcd-servers=http://{LOOPBACK}:{self.etcd_port}",
            f"--secure-port={port}",
            f"--cert-dir={self.folder / 'certs'}",
            *self._reachable(),
            *self._admission(),
            f"--token-auth-file={self.token_file}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.private}",
            f"--service-account-key-file={self.public}",
            *self._gates(),
            *self._runtime(),
            *self.options.apiserver,
        )

    def _reachable(self) -> tuple[str, ...]:
        """Return where the API server listens and which addresses Services have."""
        services = self.options.service_range or SERVICES.format(100 + self.port % 100)
        option = f"--service-cluster-ip-range={services}"
        if self.options.address == LOOPBACK:
            return (f"--bind-address={LOOPBACK}", option, "--endpoint-reconciler-type=none")
        if not self.authority.exists():
            # What it makes itself does not serve loopback once it listens everywhere.
            first = next(ipaddress.ip_network(services).hosts())
            addresses = (LOOPBACK, self.options.address, str(first))
            names = ("kubernetes", "kubernetes.default.svc")
            certificates.self_signed(self.authority.parent, *names, *addresses, stem="apiserver")
        return ("--bind-address=0.0.0.0", f"--advertise-address={self.options.address}", option)

    def _admission(self) -> tuple[str, ...]:
        if self.options.nodes:
            return ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
        # It would taint every new node, and only the node lifecycle controller, which would miss
        # heartbeats here, takes that taint away again.
        disabled = "--disable-admission-plugins=TaintNodesByCondition"
        return ("--authorization-mode=RBAC", disabled)

    def _audit(self) -> tuple[str, ...]:
        """Return the options that log which rights the installation uses."""
        policy = files.audit_policy(self.folder, AUDITED)
        return (f"--audit-policy-file={policy}", f"--audit-log-path={self.folder / AUDIT_LOG}")

    def _keep_audit_log(self) -> None:
        """Copy the audit log to the folder that DRAWBRIDGE_E2E_AUDIT names, for `e2e.audit`."""
        kept, log = os.environ.get("DRAWBRIDGE_E2E_AUDIT"), self.folder / AUDIT_LOG
        if kept and log.exists():
            Path(kept).mkdir(parents=True, exist_ok=True)
            shutil.copy(log, Path(kept) / f"{self.folder.name}.log")

    def start_controller_manager(self) -> None:
        """Start the controllers that scenarios need, each as its own ServiceAccount."""
        access = self.user_config("system:kube-controller-manager")
        self._spawn_with_health(
            "kube-controller-manager",
            f"--kubeconfig={access}",
            f"--controllers={','.join(self.options.controllers)}",
            "--leader-elect=false",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.private}",
            f"--root-ca-file={self.authority}",
            "--kube-api-qps=2000",
            "--kube-api-burst=2000",
            *self._gates(),
            *self.options.controller_manager,
        )

    def start_scheduler(self, name: str, extra: Mapping[str, Any]) -> None:
        """Start one kube-scheduler process."""
        path, program = self.folder / f"{name}.yaml", "kube-scheduler"
        access = self.user_config("system:kube-scheduler")
        if self.options.quorum:
            program = f"{quorum_scheduler(self.options.version)}"
            extra = {"profiles": [{"plugins": {"multiPoint": {"enabled": [QUORUM]}}}], **extra}
        files.scheduler_configuration(path, access, extra)
        self._spawn_with_health(name, f"--config={path}", *self._gates(), program=program)

    def _gates(self) -> tuple[str, ...]:
        pairs = ",".join(f"{name}={str(on).lower()}" for name, on in self.options.gates.items())
        return (f"--feature-gates={pairs}",) if pairs else ()

    def _runtime(self) -> tuple[str, ...]:
        pairs = ",".join(f"{name}={str(on).lower()}" for name, on in self.options.runtime.items())
        return (f"--runtime-config={pairs}",) if pairs else ()

    def _spawn(self, name: str, *arguments: str, program: str = "") -> Process:
        log = self.folder / f"{name}.log"
        process = Process(name, [self.bin / (program or name), *arguments], log)
        self.processes[name] = process
        return process

    def _spawn_with_health(self, name: str, *arguments: str, program: str = "") -> None:
        port = free_port()
        self._spawn(
            name,
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            *arguments,
            program=program,
        )
        self.processes[name].port = port

    def _wait_healthz(self, name: str) -> None:
        process = self.processes[name]
        process.wait_ready(lambda: answers(f"https://127.0.0.1:{process.port}/healthz"))

    def _apiserver_ready(self) -> bool:
        if not self.authority.exists():
            return False
        with contextlib.suppress(OSError, ApiError, ssl.SSLError):
            self._admin = None
            self.admin.get("/readyz")
            # Pods are refused until the namespace has its account.
            return True
        return False


def answers(url: str) -> bool:
    """Return whether a health endpoint of ours answers 200; certificates are the process's own."""
    context = ssl._create_unverified_context() if url.startswith("https") else None  # noqa: S323, SLF001  # loopback, self-signed
    try:
        with urllib.request.urlopen(url, timeout=2, context=context) as answer:  # noqa: S310  # http and https only
            return bool(answer.status == http.client.OK)
    except OSError:
        return False
