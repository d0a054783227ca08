"""Scenarios: administrators install, upgrade, roll back and uninstall with helm and kubectl."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.installed.installation import (
    CONTROLLER,
    NAMESPACE,
    Installation,
    set_mode,
    template_names,
    wait_for_facts,
)
from e2e.installed.kubectl import CommandResult, run
from e2e.renderers.build import binaries
from e2e.scenarios.admission import (
    LEGACY,
    NEEDS,
    ORIGINAL,
    add_gpu_node,
    claim_of,
    devices,
    legacy_pod,
)
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import RIGS, default_options, scenario
from e2e.scenarios.stage import Stage

ROOT = Path(__file__).parents[2]
CHART = ROOT / "manifests" / "chart" / "drawbridge"
PAGE = ROOT / "docs" / "installing.md"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
# A control plane for each, because an installation is one for the whole cluster.
RIGS["chart"] = RIGS["documented"] = default_options
GUARD, PODS = "guard.drawbridge.dev", "pods.drawbridge.dev"


class ChartInstallation(Installation):
    """Drawbridge, installed by `helm install`."""

    def apply(self) -> None:
        """Create the namespace, install the release, and read what is in it."""
        self.kubectl("create", "namespace", NAMESPACE).check()
        profile = "pod-security.kubernetes.io/enforce=restricted"
        self.kubectl("label", "namespace", NAMESPACE, profile).check()
        self.helm("install", "drawbridge", str(CHART)).check()
        self.complete_installation()

    def complete_installation(self) -> None:
        """Let the Deployments report the processes of the rig."""
        self.read_release()
        self.replace_pods()
        self.report_ready(CONTROLLER)

    def read_release(self) -> None:
        """Read the objects of the release, as helm stored them."""
        text = self.helm("get", "manifest", "drawbridge").check().out
        self.objects = [each for each in yaml.safe_load_all(text) if each]

    def helm(self, *words: str) -> CommandResult:
        """Run helm as the user of kubectl."""
        options = (f"--namespace={NAMESPACE}", f"--kubeconfig={self.kubectl.access}")
        command = [str(binaries() / "helm"), *words, *options]
        return run(command, ("helm", *words), environment=self.environment())


@contextlib.contextmanager
def running(stage: Stage, cluster: Installation, mode: str = "enforce") -> Iterator[None]:
    """Install and run it, reachable for the API server, until the end of the block."""
    cluster.install()
    if mode:
        set_mode(stage, mode)
    with cluster.errors_recorded(stage.fleet.record), cluster.reachable():
        yield


def webhooks(stage: Stage) -> dict[str, JSON]:
    """Return the registered webhooks of Drawbridge by name."""
    return {
        hook["name"]: hook
        for kind in KINDS
        for item in stage.client.get(f"{HOOKS}/{kind}")["items"]
        if item["metadata"]["name"].startswith("drawbridge")
        for hook in item["webhooks"]
    }


def managed_fields(stage: Stage) -> list[tuple[object, ...]]:
    """Return what the controller and the issuer of the certificate manage."""
    fields = ("caBundle", "matchConditions", "failurePolicy")
    return [
        (name, *({**hook["clientConfig"], **hook}.get(field) for field in fields))
        for name, hook in sorted(webhooks(stage).items())
    ]


def read_commands(section: str, page: Path = PAGE) -> list[str]:
    """Return the commands of the first block in a section of docs/installing.md or another page."""
    text = page.read_text("utf-8").partition(f"# {section}\n")[2]
    block = re.findall(r"```console cluster\n(.*?)```", text, re.DOTALL)[0]
    return re.findall(r"^\$ (.*)$", block, re.MULTILINE)


def read_transcript(section: str) -> list[str]:
    """Return the lines that the page shows as output; `<words>` stand for any text."""
    text = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2]
    lines: list[str] = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[0].splitlines()
    return [each for each in lines if each.strip()]


def is_shown(line: str, output: str) -> bool:
    """Whether a line of the transcript is in the output."""
    pattern = re.sub(r"<[a-z ]+>", r"\\S+", re.escape(line).replace(r"\ ", " "))
    return re.search(rf"^\s*{pattern.strip()}\s*$", output, re.MULTILINE) is not None


def run_documented(cluster: Installation, command: str, folder: Path) -> CommandResult:
    """Run a line of the documentation in a shell."""
    environment = cluster.environment()
    path = f"{cluster.kubectl.program.parent}:{binaries()}:{environment['PATH']}"
    words = ("/bin/bash", "-c", f"cd {folder} && {command}")
    return run(words, (command,), environment={**environment, "PATH": path})


@scenario("full", rig="chart", needs=NEEDS)
def the_chart_is_installed_upgraded_rolled_back_and_uninstalled(stage: Stage) -> None:
    """An upgrade keeps what the controller manages. Afterwards, pods are as before."""
    cluster = ChartInstallation(stage.processes)
    add_gpu_node(stage)
    kubectl = cluster.kubectl.inside(stage.namespace)
    with running(stage, cluster):
        body = legacy_pod(stage, "train")
        wait_for_facts(stage, cluster, body)
        kubectl.apply(body).check()
        stage.wait_running("train")
        stage.wait("the guard denies", lambda: webhooks(stage)[GUARD]["failurePolicy"] == "Fail")
        before = managed_fields(stage)
        revisions = (
            ("upgrade", "drawbridge", str(CHART), "--set=logLevel=debug,webhook.replicas=3"),
            ("rollback", "drawbridge", "1"),
        )
        for words in revisions:
            cluster.helm(*words).check()
            stage.wait("the rollout is complete", lambda: is_rolled_out(cluster))
            stage.wait(f"kept by {words}", lambda: managed_fields(stage) == before)
            other = legacy_pod(stage, f"after-{words[0]}")
            assert ORIGINAL in kubectl.apply(other, words=("--dry-run=server", "-o", "json")).out
        held = devices(stage, "train")
        uninstall(stage, cluster)
        assert devices(stage, "train") == held
    check_uninstalled(stage, cluster)


def is_rolled_out(cluster: Installation) -> bool:
    """Whether all Deployments are complete; makes new pods ready, as a kubelet does."""
    cluster.mark_pods_ready()
    inside = cluster.kubectl.inside(NAMESPACE)
    return not inside("rollout", "status", "deployment", "--timeout=2s").code


class DocumentedInstallation(ChartInstallation):
    """Drawbridge, installed by the first command of the documentation."""

    def __init__(self, stage: Stage, command: str) -> None:
        super().__init__(stage.processes)
        self.command = command

    def apply(self) -> None:
        """Run the command."""
        run_documented(self, self.command, ROOT).check()
        self.complete_installation()


@scenario("full", rig="documented", needs=NEEDS)
def five_commands_of_the_documentation_lead_to_a_translated_pod(stage: Stage) -> None:
    """The commands run word for word, and print what the page shows."""
    install, *commands = read_commands("First install")
    assert len(commands) <= 4, commands
    image = install.replace("<your registry>", "registry.example")
    cluster = DocumentedInstallation(stage, image)
    add_gpu_node(stage)
    (cluster.folder / "train.yaml").write_text(yaml.safe_dump(legacy_pod(stage, "train")))
    output = ""
    with running(stage, cluster, mode=""):
        wait_for_leader_facts(stage, cluster)
        for command in commands:
            here = re.sub(r"\bteam-a\b", stage.namespace, command)
            ran = run_documented(cluster, here, cluster.folder).check()
            output += ran.out + ran.err
            if " apply -f train.yaml" in command:
                stage.wait_running("train")
    assert ORIGINAL in stage.get_pod("train")["metadata"]["annotations"]
    output = output.replace(stage.namespace, "team-a")
    missing = [each for each in read_transcript("First install") if not is_shown(each, output)]
    assert not missing, f"{missing} not in\n{output}"


def wait_for_leader_facts(stage: Stage, cluster: Installation) -> None:
    """Wait until every replica uses the facts of the node, which a person waits for unseen."""

    def used() -> bool:
        text = str(cluster.facts())
        return "gpu.nvidia.com" in text and all(each.ready() for each in cluster.webhooks)

    stage.wait("the facts name the driver", used)


def uninstall(stage: Stage, cluster: ChartInstallation) -> None:
    """Uninstall with the commands of the page; the manifests with helm."""
    commands = read_commands("Uninstall")
    assert any("delete -k" in each for each in commands), commands
    for command in commands:
        if "delete -k" in command:
            # The kubelets end the pods of deleted Deployments.
            for replica in cluster.replicas:
                replica.stop()
            cluster.helm("uninstall", "drawbridge").check()
        else:
            run_documented(cluster, command, cluster.folder).check()
    assert webhooks(stage) == {}


def check_uninstalled(stage: Stage, cluster: Installation) -> None:
    """Check that running pods keep their devices and new pods are as without Drawbridge."""
    kubectl = cluster.kubectl.inside(stage.namespace)
    pod = stage.get_pod("train")
    assert pod["status"]["phase"] == "Running"
    assert template_names(stage) == [claim_of(stage, "train")[0]]
    ran = kubectl.apply(legacy_pod(stage, "later")).check()
    assert ran.warnings == [], ran
    later = stage.get_pod("later")
    assert later["spec"]["containers"][0]["resources"]["limits"] == {LEGACY: "1"}
    assert ORIGINAL not in later["metadata"].get("annotations", {})
    left = cluster.kubectl("get", "clusterroles,clusterrolebindings,flowschemas", "-o", "name")
    names = [each for each in left.check().out.split() if "drawbridge" in each]
    assert names == [], names
