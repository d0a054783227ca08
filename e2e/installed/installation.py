"""Installs Drawbridge on a control plane: applies its manifests and runs its processes.

    cluster = installed(stage)             # installs once for each control plane
    cluster.kubectl.apply(pod).warnings

Applies the output of `kubectl kustomize manifests/base` unchanged and follows docs/installing.md.
No kubelet runs Drawbridge's own pods: the Deployments create them, which shows that they are
admitted, and are then scaled to zero. The webhook's pods are created again and stay
unscheduled, because the controller reads the status of the Deployment. The same commands run as
local processes with tokens of their ServiceAccounts. The processes end with the control plane.
"""

import base64
import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import yaml

from e2e.controlplane.certificates import self_signed
from e2e.controlplane.client import ApiError
from e2e.controlplane.plane import ControlPlane, Options
from e2e.controlplane.relay import Backend, Relay
from e2e.installed import manifest
from e2e.installed.image import image_root
from e2e.installed.kubectl import CommandResult, Kubectl, run
from e2e.installed.launch import COMMANDS, Replication, start_from_checkout, start_from_image
from e2e.installed.manifest import JSON
from e2e.installed.replica import Replica
from e2e.nodes.record import Record, Violation
from e2e.scenarios.registry import RIGS, default_options
from e2e.scenarios.stage import Stage

NAMESPACE = "drawbridge-system"
WEBHOOK, CONTROLLER = "drawbridge-webhook", "drawbridge-controller"
SERVICE = f"{WEBHOOK}.{NAMESPACE}.svc"
LOCAL = ("--health=127.0.0.1:0", "--metrics=127.0.0.1:0")
# Each open connection has to carry a request meanwhile, on a busy machine, too.
# The guard only warns for the settle time, by default five minutes.
SERVING = ("--listen=127.0.0.1:0", "--drain=2", "--settle=3")
MODE = "drawbridge.dev/translate"
# The start of the API server's message when it denies a request of Drawbridge's accounts.
DENIED = f'User \\"system:serviceaccount:{NAMESPACE}'
TEMPLATES = "resourceclaimtemplates"


def image_options(version: str) -> Options:
    """Return the control plane whose installation runs from the image."""
    image_root()  # raises NoImageError before anything starts
    return replace(default_options(version), image=True)


RIGS["installed"] = default_options
RIGS["image"] = image_options


class Setup(NamedTuple):
    """How many processes an installation has, and with which further options.

    With `files`, the serving certificate comes from a TLS Secret instead of the controller.
    """

    webhooks: int = 2
    controllers: int = 2
    webhook_options: tuple[str, ...] = ()
    controller_options: tuple[str, ...] = ()
    files: bool = False


DEFAULT_SETUP = Setup()


class Installation:
    """Drawbridge on one control plane, from `kubectl apply` until the control plane ends."""

    def __init__(self, plane: ControlPlane, setup: Setup = DEFAULT_SETUP) -> None:
        self.plane = plane
        self.setup = setup
        self.folder = plane.folder / "installed"
        self.folder.mkdir()
        self.kubectl = Kubectl(
            plane.bin / "kubectl", plane.user_config(), self.folder / "kubectl-cache"
        )
        self.objects: list[JSON] = []
        self.webhooks: list[Replica] = []
        self.controllers: list[Replica] = []
        self._relay: Relay | None = None
        self._behind: dict[str, Backend] = {}
        self._told: set[str] = set()

    @property
    def replicas(self) -> list[Replica]:
        """Return all processes."""
        return [*self.webhooks, *self.controllers]

    # --- installing ----------------------------------------------------------------------------

    def install(self) -> None:
        """Apply the manifests and start the processes; returns when all are ready."""
        self.apply()
        serving, leading = self.setup.webhook_options, self.setup.controller_options
        if self.setup.files:
            folder = self.certify()
            serving += (f"--tls-cert={folder / 'tls.crt'}", f"--tls-key={folder / 'tls.key'}")
            leading += ("--certificates=external",)
        self.webhooks = self._made(WEBHOOK, self.setup.webhooks, *SERVING, *serving)
        self.controllers = self._made(CONTROLLER, self.setup.controllers, *leading)
        self.start_all()

    def apply(self) -> None:
        """Apply the output of kustomize, wait for the admitted pods, and scale to zero."""
        rendered = self.kubectl("kustomize", str(manifest.BASE)).check().out
        self.objects = list(yaml.safe_load_all(rendered))
        self.kubectl("apply", "-f", "-", stdin=rendered).check()
        self.replace_pods()

    def replace_pods(self) -> None:
        """Wait until the Deployments have made pods, which nothing runs, and remove them."""
        inside = self.kubectl.inside(NAMESPACE)
        for name in (WEBHOOK, CONTROLLER):
            wanted = manifest.find(self.objects, "Deployment", name)["spec"]["replicas"]
            there = f"--for=jsonpath={{.status.replicas}}={wanted}"
            inside("wait", f"deployment/{name}", there, "--timeout=30s").check()
        inside("scale", "deployment", "--all", "--replicas=0").check()
        self.report_ready()

    def report_ready(self, name: str = WEBHOOK) -> None:
        """Let a Deployment report ready replicas, for which processes run here.

        Its pods exist but are not scheduled, and the rig writes their status as a kubelet does.
        """
        inside = self.kubectl.inside(NAMESPACE)
        wanted = manifest.find(self.objects, "Deployment", name)["spec"]["replicas"]
        template = {"spec": {"template": {"spec": {"schedulerName": "nobody"}}}}
        inside("patch", "deployment", name, f"--patch={json.dumps(template)}").check()
        inside("scale", "deployment", name, f"--replicas={wanted}").check()
        # Each time anew: the status may still be that of the pods before.
        for _ in range(15):
            self.mark_pods_ready()
            ran = inside("rollout", "status", f"deployment/{name}", "--timeout=2s")
            if not ran.code:
                return
        raise AssertionError(f"{name} is not rolled out: {ran}")

    def mark_pods_ready(self) -> None:
        """Write the status of the pods that no kubelet runs."""
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        for pod in self.plane.admin.get(pods)["items"]:
            if pod["spec"]["schedulerName"] == "nobody":
                path = f"{pods}/{pod['metadata']['name']}/status"
                self.plane.admin.patch(path, {"status": status})

    def certify(self) -> Path:
        """Create a TLS Secret, set caBundle, and return the folder where a kubelet mounts it.

        As the chart does, the same write says that another client sets caBundle.
        """
        public, private = self_signed(self.folder, SERVICE)
        words = ("secret", "tls", f"{WEBHOOK}-tls", f"--cert={public}", f"--key={private}")
        self.kubectl.inside(NAMESPACE)("create", *words).check()
        authority = base64.b64encode(public.read_bytes()).decode()
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            hooks = self.kubectl.get(kind, "drawbridge")["webhooks"]
            patch = [
                {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": authority}
                for i in range(len(hooks))
            ]
            mark = "/metadata/annotations/drawbridge.dev~1ca"
            patch.append({"op": "add", "path": mark, "value": "external"})
            body = f"--patch={json.dumps(patch)}"
            self.kubectl("patch", kind, "drawbridge", "--type=json", body).check()
        return self.mount("secrets", f"{WEBHOOK}-tls")

    def _made(self, name: str, count: int, *more: str) -> list[Replica]:
        deployment = manifest.find(self.objects, "Deployment", name)
        folders = {
            volume: self.mount(*source) for volume, source in manifest.volumes(deployment).items()
        }
        token = self.plane.account_token(NAMESPACE, name)
        replicas = []
        for number in range(count):
            own = f"{name}-{number}"
            pod = Replication(own, deployment, folders, self.folder / "pods", NAMESPACE, token)
            words = self.start_command(pod, (*LOCAL, *more))
            replicas.append(Replica(own, words, self.folder / f"{own}.log"))
        return replicas

    def start_command(self, pod: Replication, more: tuple[str, ...]) -> Sequence[str | Path]:
        """Return the command of a process, from the image or from the checkout."""
        if self.plane.options.image:
            return start_from_image(self.plane, image_root(), pod, more)
        return start_from_checkout(self.plane, pod, more)

    def mount(self, kind: str, name: str, namespace: str = NAMESPACE) -> Path:
        """Write a Secret or ConfigMap to a folder, as a kubelet mounts it."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        stored = self.plane.admin.get(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
        for key, text in stored.get("data", {}).items():
            data = base64.b64decode(text) if kind == "secrets" else text.encode()
            # Renamed into place, because a mount changes atomically.
            half = folder / f".{key}"
            half.write_bytes(data)
            half.replace(folder / key)
        return folder

    # --- running -------------------------------------------------------------------------------

    def start_all(self, seconds: float = 60) -> None:
        """Start processes that do not run, and wait until all are ready and reachable."""
        for replica in self.replicas:
            if not replica.alive:
                self.plane.processes[replica.name] = replica.start()
        for replica in self.replicas:
            replica.wait_ready(seconds)
        self.connect()

    def connect(self) -> None:
        """Update the backends of the Service to the current ports."""
        if self._relay is None:
            return
        wanted = {each.name: Backend(each.port("admission"), each.ready) for each in self.webhooks}
        for name, backend in wanted.items():
            before = self._behind.get(name)
            if before is None or before.port != backend.port:
                self._relay.add(backend)
                self._behind[name] = backend
                if before is not None:
                    self._relay.remove(before)

    @property
    def leader(self) -> Replica:
        """Return the leading controller; AssertionError if no controller leads."""
        leader = self.find_leader()
        assert leader is not None, "nobody leads"
        return leader

    def find_leader(self) -> Replica | None:
        """Return the controller that holds the Lease, or None."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}"
        holder = self.plane.admin.get(path)["spec"].get("holderIdentity", "")
        # The suffix differs with each start of a process.
        own = (each for each in self.controllers if holder.startswith(f"{each.name}_"))
        return next(own, None)

    @contextlib.contextmanager
    def reachable(self) -> Iterator[Relay]:
        """Forward connections to the Service to the ready processes, as kube-proxy does."""
        path = f"/api/v1/namespaces/{NAMESPACE}/services/{WEBHOOK}"
        spec = self.plane.admin.get(path)["spec"]
        with Relay(spec["clusterIP"], spec["ports"][0]["port"]) as relay:
            self._relay, self._behind = relay, {}
            try:
                self.connect()
                yield relay
            finally:
                self._relay = None

    def configure(self, configuration: str) -> None:
        """Change the ConfigMap drawbridge-config."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-config"
        self.plane.admin.patch(path, {"data": {"config.yaml": configuration}})

    # --- commands -------------------------------------------------------------------------------

    def drawbridge(self, *words: str, stdin: str = "") -> CommandResult:
        """Run the `drawbridge` command with the kubeconfig of the kubectl user."""
        return run([str(COMMANDS / "drawbridge"), *words], words, stdin, self.environment())

    def plugin(self, *words: str, stdin: str = "") -> CommandResult:
        """Run `kubectl drawbridge ...`, which kubectl finds on the PATH."""
        command = [str(self.kubectl.program), "drawbridge", *words]
        return run(command, ("kubectl", "drawbridge", *words), stdin, self.environment())

    def environment(self) -> dict[str, str]:
        """Return the environment of a person at a terminal."""
        return {
            **os.environ,
            "KUBECONFIG": str(self.kubectl.access),
            "NO_COLOR": "1",
            "PATH": f"{COMMANDS}{os.pathsep}{os.environ['PATH']}",
        }

    # --- checking ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def errors_recorded(self, record: Record) -> Iterator[None]:
        """Record log lines about unhandled exceptions and denied requests as violations."""
        try:
            yield
        finally:
            for replica in self.replicas:
                for line in replica.lines():
                    text = json.dumps(line)
                    if ("stack" in line or DENIED in text) and text not in self._told:
                        self._told.add(text)
                        record.add([Violation("Complaint", replica.name, "", "log", "", text)])

    def ignore_denials(self) -> None:
        """Ignore denials logged so far: a starting API server has not read its roles yet."""
        for replica in self.replicas:
            texts = map(json.dumps, replica.lines())
            self._told.update(text for text in texts if DENIED in text)

    def facts_hash(self) -> str:
        """Return the hash of the published facts; empty if there are none."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-facts"
        try:
            return str(self.plane.admin.get(path).get("data", {}).get("current", ""))
        except ApiError as problem:
            if problem.code != 404:
                raise
            return ""

    def facts(self) -> Any:  # noqa: ANN401  # JSON
        """Return the published facts; None if there are none."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drawbridge-facts"
        try:
            data = self.plane.admin.get(path).get("data", {})
        except ApiError as problem:
            if problem.code != 404:
                raise
            return None
        key = f"facts-{data['current'].removeprefix('sha256:')[:16]}.json"
        return json.loads(data[key])


_PLANES: WeakKeyDictionary[ControlPlane, Installation] = WeakKeyDictionary()
_FAILED: WeakKeyDictionary[ControlPlane, Exception] = WeakKeyDictionary()


def installed(stage: Stage, mode: str = "enforce", setup: Setup = DEFAULT_SETUP) -> Installation:
    """Return the installation, running and reachable, and label the stage's namespace.

    The first scenario on a control plane decides the setup.
    """
    plane = stage.processes
    if plane in _FAILED:
        raise AssertionError("it could not be installed, see the first scenario") from _FAILED[
            plane
        ]
    if plane not in _PLANES:
        try:
            made = Installation(plane, setup)
            made.install()
        except Exception as problem:
            _FAILED[plane] = problem
            raise
        _PLANES[plane] = made
    cluster = _PLANES[plane]
    cluster.start_all()
    stage.enter(cluster.errors_recorded(stage.fleet.record))
    stage.enter(cluster.reachable())
    if mode:
        set_mode(stage, mode)
    return cluster


def set_mode(stage: Stage, mode: str | None) -> None:
    """Set the mode label of the stage's namespace, or remove it with None."""
    path = f"/api/v1/namespaces/{stage.namespace}"
    stage.client.patch(path, {"metadata": {"labels": {MODE: mode}}})


def dry_run(stage: Stage, body: JSON) -> JSON:
    """Create a pod in the stage's namespace as a dry run and return the result."""
    return stage.client.create(stage.pod_path(), body, dryRun="All")


def wait_for_facts(stage: Stage, cluster: Installation, body: JSON, *products: str) -> None:
    """Wait until admission uses facts of the current nodes that contain these products."""

    def knows() -> bool:
        facts = cluster.facts() or {}
        drivers = {product["driver"] for product in facts.get("products", ())}
        published = {driver for driver, _ in stage.fleet.published}
        text = json.dumps(facts)
        return drivers == published and all(product in text for product in products)

    stage.wait(f"facts of what is published, with {products}", knows)

    def decided() -> bool:
        try:
            annotations = dry_run(stage, body)["metadata"].get("annotations", {})
        except ApiError as problem:
            # Older facts may offer no translation.
            if problem.code != 422:
                raise
            return False
        return bool(annotations.get("drawbridge.dev/facts") == cluster.facts_hash())

    stage.wait("admission follows the facts", decided)


def template_names(stage: Stage) -> list[str]:
    """List the names of the templates in the stage's namespace."""
    path = stage.path(TEMPLATES, "", "/apis/resource.k8s.io/v1")
    return sorted(each["metadata"]["name"] for each in stage.client.get(path)["items"])
