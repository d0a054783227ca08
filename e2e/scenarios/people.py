"""Scenarios: people with the roles of the installation, and nothing else, use the commands."""

from e2e.installed.installation import NAMESPACE, Installation, installed
from e2e.installed.kubectl import CommandResult, run
from e2e.installed.launch import COMMANDS
from e2e.scenarios.admission import NEEDS, add_gpu_node, claim_of, legacy_pod, prepare_pod
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage
from e2e.scenarios.tenant import RBAC

GROUP = "rbac.authorization.k8s.io"


class Person:
    """An account of the stage's namespace with roles that the installation offers."""

    def __init__(self, stage: Stage, cluster: Installation, name: str) -> None:
        self.stage = stage
        self.cluster = cluster
        self.name = name
        stage.client.create(stage.path("serviceaccounts"), {"metadata": {"name": name}})
        token = stage.processes.account_token(stage.namespace, name)
        self.access = stage.processes.kubeconfig(f"{stage.namespace}-{name}", token)

    def bind(self, kind: str, role: str, namespace: str = "") -> None:
        """Bind a role in a namespace, or in the whole cluster."""
        where = f"namespaces/{namespace}/rolebindings" if namespace else "clusterrolebindings"
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": self.stage.namespace}
        binding = {
            "metadata": {"name": f"{self.stage.namespace}-{self.name}-{role}"},
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
            "subjects": [subject],
        }
        self.stage.client.create(f"{RBAC}/{where}", binding)

    def unbind(self, role: str) -> None:
        """Delete a binding in the whole cluster."""
        name = f"{self.stage.namespace}-{self.name}-{role}"
        self.stage.client.delete(f"{RBAC}/clusterrolebindings/{name}")

    def can(self, *words: str) -> bool:
        """Ask `kubectl auth can-i`."""
        return not self.kubectl("auth", "can-i", *words).code

    def kubectl(self, *words: str) -> CommandResult:
        """Run kubectl as this person."""
        program = str(self.cluster.kubectl.program)
        return run([program, f"--kubeconfig={self.access}", *words], words)

    def drawbridge(self, *words: str) -> CommandResult:
        """Run drawbridge as this person."""
        environment = {**self.cluster.environment(), "KUBECONFIG": str(self.access)}
        return run([str(COMMANDS / "drawbridge"), *words], words, "", environment)


@scenario("full", rig="installed", needs=NEEDS)
def a_viewer_of_a_namespace_can_explain_its_pods(stage: Stage) -> None:
    """The aggregated role suffices. It shows nothing of other namespaces and configures nothing."""
    cluster, _, body = prepare_pod(stage)
    cluster.kubectl.inside(stage.namespace).apply(body).check()
    stage.wait_running("train")
    viewer = Person(stage, cluster, "viewer")
    viewer.bind("ClusterRole", "view", stage.namespace)
    inside = f"--namespace={stage.namespace}"
    stage.wait("the right", lambda: viewer.can("get", "resourceclaimtemplates", inside))
    told = viewer.drawbridge("explain", "train", "-n", stage.namespace).check()
    assert all(each in told.out for each in claim_of(stage, "train")), told
    assert "forbidden" not in told.out + told.err, told
    assert not viewer.can("get", "resourceclaims", "--namespace=default")
    assert not viewer.can("patch", "namespace", stage.namespace)
    assert not viewer.can("create", "resourceclaims", inside)
    assert not viewer.can("get", "configmaps", f"--namespace={NAMESPACE}")


@scenario("full", rig="installed", needs=NEEDS)
def a_reader_gets_the_facts_of_the_cluster_and_writes_nothing(stage: Stage) -> None:
    """The bound roles suffice for `config facts` and for `translate --context`."""
    cluster = installed(stage)
    machine = add_gpu_node(stage)
    reader = Person(stage, cluster, "reader")
    reader.bind("ClusterRole", "drawbridge-reader")
    reader.bind("Role", "drawbridge-reader", NAMESPACE)
    try:
        stage.wait("the right", lambda: reader.can("list", "resourceslices"))
        told = reader.drawbridge("config", "facts", "--context", "-o", "json").check()
        assert machine.product["name"] in told.out, told
        assert told.err == "", told
        pod = cluster.folder / "train.json"
        pod.write_text(str(legacy_pod(stage, "train")).replace("'", '"'), encoding="utf-8")
        told = reader.drawbridge("translate", "--context", "--exit-code", "-f", str(pod))
        assert told.code == 1, told  # an object was translated
        assert "resourceClaimTemplateName" in told.out, told
        for verb in ("create", "delete", "patch", "update"):
            for resource in ("pods", "configmaps", "resourceclaimtemplates", "nodes"):
                assert not reader.can(verb, resource, "--all-namespaces"), (verb, resource)
        assert not reader.can("get", "secrets", f"--namespace={NAMESPACE}")
    finally:
        reader.unbind("drawbridge-reader")
