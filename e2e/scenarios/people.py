"""Scenarios: people with the roles of the installation, and nothing else, use the commands."""

import json

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


@scenario("full", rig="installed", needs=NEEDS)
def a_developer_learns_which_role_is_enough_and_translates_with_it(stage: Stage) -> None:
    """`edit` and the Role suffice for translate, check and apply; the cluster stays unread."""
    cluster, _, body = prepare_pod(stage)
    developer = Person(stage, cluster, "developer")
    developer.bind("ClusterRole", "edit", stage.namespace)
    inside = ("-n", stage.namespace)
    stage.wait("the right", lambda: developer.can("create", "resourceclaims", *inside))
    path = cluster.folder / "developer.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    manifest, live = ("-f", str(path)), ("--context", "-o", "json")
    for command in ("translate", "check"):
        done = developer.drawbridge(command, *manifest, *inside, *live)
        told = unreadable(done)
        assert "deviceclasses.resource.k8s.io, resourceslices.resource.k8s.io" in told[0], done
        assert 'no published facts instead: configmaps "drawbridge-facts" is forb' in told[0], done
        assert told[1].startswith("Ask for Role `drawbridge-reader` with a RoleBinding"), done
    done = developer.drawbridge("simulate", *manifest, *live)
    assert "resourceslices.resource.k8s.io, resourceclaims.resource.k8s.io" in unreadable(done)[0]
    for words in (("simulate", *manifest, "--context"), ("audit",), ("config", "facts")):
        done = developer.drawbridge(*words, "--context")
        assert done.err.count("error: ") == 1, done
        assert "Ask for ClusterRole `drawbridge-reader` with a ClusterRoleBinding" in done.err, done
    developer.bind("Role", "drawbridge-reader", NAMESPACE)
    facts = ("get", "configmaps/drawbridge-facts", f"--namespace={NAMESPACE}")
    stage.wait("the right to the facts", lambda: developer.can(*facts))
    done = developer.drawbridge("check", *manifest, *inside, "--context").check()
    assert "the published facts decide" in done.out, done
    translated = developer.drawbridge("translate", *manifest, *inside, "--context").check()
    assert "the published facts decide" in translated.err, translated
    path.write_text(translated.out, encoding="utf-8")
    developer.kubectl("apply", *manifest, *inside).check()
    stage.wait_running("train")
    claim = claim_of(stage, "train")[1]
    assert claim in developer.drawbridge("explain", "train", *inside).check().out
    label = ("namespace", stage.namespace, "drawbridge.dev/translate=report", "--overwrite")
    for verb in ("label", "annotate"):
        assert "cannot patch resource" in developer.kubectl(verb, *label).err, verb
    assert developer.can("patch", "resourceclaims", *inside)
    assert not developer.can("patch", "resourceclaims", "--subresource=status", *inside)
    for what in ("resourcequotas", "limitranges"):
        assert not developer.can("patch", what, *inside), what


@scenario("full", rig="installed", needs=NEEDS)
def each_role_of_an_engineer_gives_what_it_says(stage: Stage) -> None:
    """`drawbridge-view` shows the pods of all; `drawbridge-admin` configures and shows none."""
    cluster, _, body = prepare_pod(stage)
    cluster.kubectl.inside(stage.namespace).apply(body).check()
    stage.wait_running("train")
    viewer, admin = (Person(stage, cluster, name) for name in ("engineer", "configurer"))
    viewer.bind("ClusterRole", "drawbridge-view")
    admin.bind("ClusterRole", "drawbridge-admin")
    admin.bind("Role", "drawbridge-admin", NAMESPACE)
    inside = ("-n", stage.namespace)
    try:
        stage.wait("the right", lambda: viewer.can("get", "pods", *inside))
        done = viewer.drawbridge("explain", "train", *inside).check()
        assert claim_of(stage, "train")[1] in done.out, done
        done = viewer.drawbridge("usage")
        assert (done.code, "no ConfigMap that you may read" in done.err) == (2, True), done
        stage.wait("the other right", lambda: admin.can("list", "nodes"))
        done = admin.drawbridge("translate", *inside, "--context")
        assert "Ask for ClusterRole `view` with a RoleBinding" in done.err, done
        done = admin.drawbridge("simulate", "--context", "-o", "json", "--claims", "any")
        listed = "resourceslices.resource.k8s.io, resourceclaims.resource.k8s.io"
        assert unreadable(done)[0].endswith(f"; nor may you read {listed}"), done
        own = "drawbridge.dev/translate=enforce"
        admin.kubectl("label", "namespace", stage.namespace, own, "--overwrite").check()
        edited = ("configmaps/drawbridge-config", f"--namespace={NAMESPACE}")
        assert admin.can("patch", *edited)
        assert not viewer.can("patch", *edited)
    finally:
        viewer.unbind("drawbridge-view")
        admin.unbind("drawbridge-admin")


def unreadable(done: CommandResult) -> tuple[str, str]:
    """Return the message and the remedy of the only error, in JSON output."""
    assert done.code == 2, done
    findings = json.loads(done.out)["findings"]
    (error,) = (each for each in findings if each["severity"] == "error")
    return error["message"], error["remedy"]
