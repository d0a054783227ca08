"""Commands for people who may read their namespace and the published facts only."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from drawbridge.agreement.published_facts import build_data_key
from drawbridge.facts import serialized
from drawbridge.facts.model import Facts
from drawbridge.names import NAMESPACE
from tests.cli.installed_api import config_map, healthy
from tests.cli.running import Printed, command, on_api
from tests.cli.test_live_cluster import ALLOWED, CLAIMED, LABELLED, LEGACY, MONITOR, OBJECTS
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.rights import Rights
from tests.tables import every_row, write_yaml

CONFIGURATION = ("drawbridge-config", "drawbridge-config-in-use")
# The lists that facts are computed from.
LISTED = ("nodes", "deviceclasses", "resourceslices")


# What only a cluster tells, and what none can change.
CHECKED = """
apiVersion: v1
kind: Pod
metadata: {name: model}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-T1000}
  containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: templated}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: absent}]
  containers: [{name: main, image: none, resources: {claims: [{name: gpu}]}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: other}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: other}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: many}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 900}}]}}
"""
# A small device, and a claim for one that only the cluster has.
DEVICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: new}
spec:
  driver: gpu.nvidia.com
  nodeName: new
  pool: {name: new, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: gpu-0, attributes: {type: {string: gpu}}, capacity: {memory: {value: 1Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: large}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: gpu.nvidia.com
        count: 2
        selectors:
        - cel:
            expression: device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('8Gi'))
"""
NEVER = "ResourceClaim/many TooManyDevices"
USES_CLAIM = """
apiVersion: v1
kind: Pod
metadata: {name: uses}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  containers: [{name: main, image: none, resources: {claims: [{name: gpu}]}}]
"""


def role(namespace: str, resources: tuple[str, ...], *names: str) -> dict[str, Any]:
    """A Role that reads these resources, or only those with these names."""
    groups = ["", "resource.k8s.io", "kueue.x-k8s.io", "admissionregistration.k8s.io"]
    rule: dict[str, Any] = {"apiGroups": groups, "resources": resources, "verbs": ["get", "list"]}
    named = {"resourceNames": names} if names else {}
    return {"kind": "Role", "metadata": {"namespace": namespace}, "rules": [{**rule, **named}]}


def everywhere(*resources: str) -> dict[str, Any]:
    return {**role("", resources), "kind": "ClusterRole"}


OWN = role("default", ("namespaces", "pods", "localqueues"))
FACTS = role(NAMESPACE, ("configmaps",), *CONFIGURATION, "drawbridge-facts")
WITHOUT_FACTS = role(NAMESPACE, ("configmaps",), *CONFIGURATION)
WEBHOOK = everywhere("mutatingwebhookconfigurations")


def translate(folder: Path, roles: list[dict[str, Any]] | None, *words: str) -> Printed:
    """Translate on a server that publishes the facts about its objects."""
    return run(folder, roles, "translate", *words)


def run(
    folder: Path,
    roles: list[dict[str, Any]] | None,
    *words: str,
    published: dict[str, Any] | None = None,
) -> Printed:
    """Run a command on a server that publishes the facts about its objects, or something else."""

    def prepare(api: FakeApi) -> None:
        healthy(api)
        if published is not None:
            api.remove("ConfigMap", "drawbridge-facts", NAMESPACE)
        api.put(published or publish(folder))
        api.rights = Rights(roles, NAMESPACE) if roles is not None else api.rights

    return on_api(folder, (LABELLED,), *words, "--context", prepare=prepare)


def publish(folder: Path) -> dict[str, Any]:
    """The facts about the objects, as the controller publishes them."""
    dump = folder / "dump.yaml"
    dump.write_text(write_yaml(OBJECTS), "utf-8")
    words = ("--cluster", str(dump), "--kubernetes-version", "1.36", "-o", "json")
    facts = serialized.read_facts(msgspec.json.decode(command("config", "facts", *words).out))
    assert isinstance(facts, Facts)
    digest = serialized.facts_hash(facts)
    content = serialized.encode_facts(facts).decode()
    return config_map("drawbridge-facts", {"current": digest, build_data_key(digest): content})


def check(
    folder: Path,
    roles: list[dict[str, Any]] | None,
    *objects: dict[str, Any],
    context: str = "",
    manifests: str = CHECKED,
    words: tuple[str, ...] = (),
) -> tuple[int, set[str], Printed]:
    """Check manifests in the namespace of a context, or of the words.

    Return the exit code and which findings there are about which objects.
    """
    path = folder / "checked.yaml"
    path.write_text(manifests, "utf-8")

    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.put(publish(folder))
        api.context = {"namespace": context} if context else {}
        api.rights = Rights(roles, NAMESPACE) if roles is not None else api.rights

    asked = ("check", "--context", "-f", str(path), "-o", "json", *words)
    printed = on_api(folder, objects, *asked, prepare=prepare)
    findings = json.loads(printed.out)["findings"] if printed.out else []
    about = {f"{each['object']} {each['code']}".strip() for each in findings}
    return printed.code, about, printed


def unread(printed: Printed) -> list[str]:
    """The messages about what may not be read."""
    return [
        each.removeprefix('warning: User "jane" cannot ').removesuffix(" [PartUnreadable]")
        for each in printed.err.splitlines()
        if each.endswith("[PartUnreadable]")
    ]


@every_row("manifest", ["nvidia.yaml", "hami.yaml", "rdma.yaml"])
def test_the_published_facts_decide_as_the_objects_do(manifest: str, tmp_path: Path) -> None:
    words = ("-f", str(LEGACY / manifest))
    by_objects = translate(tmp_path, None, *words)
    by_facts = translate(tmp_path, [OWN, FACTS], *words)
    assert by_facts.out == by_objects.out
    assert by_facts.code == by_objects.code == 0
    assert "resourceClaimTemplateName" in by_facts.out


def test_each_missing_right_is_named_once(tmp_path: Path) -> None:
    printed = translate(tmp_path, [OWN, FACTS], "-f", str(LEGACY / "nvidia.yaml"))
    instead = "the published facts decide, and claims are compared with no devices"
    own = "only namespace default is read"
    assert unread(printed) == [
        f"list /nodes; {LISTS}; {instead}",
        f"list /namespaces; {own}",
        f"list kueue.x-k8s.io/localqueues; {own}",
    ]
    # What may be read in no namespace either is named once, too.
    only_facts = translate(tmp_path, [FACTS], "-f", str(LEGACY / "nvidia.yaml"))
    assert unread(only_facts)[1:] == ["list /namespaces", "list kueue.x-k8s.io/localqueues"]
    assert only_facts.out == printed.out


@every_row("missing", LISTED)
def test_one_missing_list_is_enough_for_the_published_facts(missing: str, tmp_path: Path) -> None:
    rest = everywhere(*(each for each in LISTED if each != missing))
    printed = translate(tmp_path, [OWN, FACTS, rest], "-f", str(LEGACY / "nvidia.yaml"))
    assert "resourceClaimTemplateName" in printed.out
    assert [each.split(";")[0].split("/")[1] for each in unread(printed)][:1] == [missing]


LISTS = "nor may you read deviceclasses.resource.k8s.io, resourceslices.resource.k8s.io"
DAMAGED = config_map("drawbridge-facts", {"current": "sha256:00"})


class Refused(NamedTuple):
    """What is published, the options, and what is told of it."""

    reason: str
    remedy: str
    roles: tuple[dict[str, Any], ...] = (OWN, FACTS)
    words: tuple[str, ...] = ()
    published: dict[str, Any] | None = None


@every_row(
    "row",
    [
        Refused(
            'no published facts instead: User "jane" cannot get /configmaps drawbridge-facts',
            "Ask for Role `drawbridge-reader` with a RoleBinding in the namespace of Drawbridge",
            roles=(OWN, WITHOUT_FACTS),
        ),
        Refused(
            'no published facts instead: User "jane" cannot get /configmaps drawbridge-facts',
            "Ask for Role `drawbridge-reader` with a RoleBinding in namespace drawbridge-system",
            roles=(OWN, WITHOUT_FACTS, WEBHOOK),
        ),
        Refused("cannot get /configmaps drawbridge-facts", "Ask for Role", roles=(OWN,)),
        Refused(
            "drawbridge-system/drawbridge-facts: data.current refers to data.facts-00.json, which",
            "Let the cluster administrator run `drawbridge doctor`",
            published=DAMAGED,
        ),
        Refused(
            "ConfigMap drawbridge-system/drawbridge-facts not found",
            "Let the cluster administrator run `drawbridge doctor`",
            roles=(OWN, FACTS, WEBHOOK),
            published=config_map("other", {}),
        ),
        Refused(
            "the published facts do not have the objects of --cluster",
            "Ask for ClusterRole `drawbridge-reader` with a ClusterRoleBinding",
            words=("--cluster", "DUMP"),
        ),
        # The fields that these drop are not those of the published facts.
        Refused(
            "the published facts are not those of --kubernetes-version or --feature-gates",
            "Leave these options out.",
            words=("--kubernetes-version", "1.35"),
        ),
    ],
)
def test_without_the_facts_no_manifest_is_printed(row: Refused, tmp_path: Path) -> None:
    dump = tmp_path / "dump.yaml"
    dump.write_text(write_yaml(OBJECTS), "utf-8")
    words = [str(dump) if each == "DUMP" else each for each in row.words]
    given = ("-f", str(LEGACY / "nvidia.yaml"))
    for name in ("translate", "check"):
        asked = (name, *given, *words, "-o", "json")
        printed = run(tmp_path, [*row.roles], *asked, published=row.published)
        (told,) = (
            each
            for each in json.loads(printed.out)["findings"]
            if each["code"] == "ClusterUnreadable"
        )
        assert printed.code == 2
        assert told["message"].startswith(f'User "jane" cannot list /nodes; {LISTS}; '), told
        assert row.reason in told["message"]
        assert told["remedy"].startswith(row.remedy), told


@every_row(
    ("words", "read"),
    [
        (("simulate", "-f", "FILE"), f"{LISTS}, resourceclaims.resource.k8s.io, TEMPLATES"),
        (("simulate", "-f", "FILE", "--preempt"), "TEMPLATES, priorityclasses.scheduling.k8s.io"),
        (("audit",), f"{LISTS}, namespaces, pods"),
        (("config", "facts"), LISTS),
    ],
)
def test_what_needs_the_cluster_names_all_lists_at_once(
    words: tuple[str, ...], read: str, tmp_path: Path
) -> None:
    given = (str(LEGACY / "nvidia.yaml") if each == "FILE" else each for each in words)
    printed = run(tmp_path, [FACTS], *given)
    assert (printed.code, printed.out) == (2, "")
    (told,) = (each for each in printed.err.splitlines() if each.startswith("error: "))
    assert told.startswith('error: User "jane" cannot list /nodes; ')
    assert read.replace("TEMPLATES", "resourceclaimtemplates.resource.k8s.io") in told
    assert "Ask for ClusterRole `drawbridge-reader` with a ClusterRoleBinding" in printed.err


def test_workloads_that_may_not_be_listed_need_the_role_of_the_namespace(tmp_path: Path) -> None:
    printed = run(tmp_path, [FACTS], "translate", "-n", "team")
    (told,) = (each for each in printed.err.splitlines() if each.startswith("error: "))
    assert "nor may you read" in told
    assert "Ask for ClusterRole `view` with a RoleBinding in namespace team" in printed.err


@every_row("name", ["translate", "check"])
def test_the_published_facts_are_not_those_of_another_configuration(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(ALLOWED, "utf-8")
    words = (name, "-f", str(LEGACY / "nvidia.yaml"))
    own = "computed with the installed configuration, and not with that of --config"
    printed = run(tmp_path, [OWN, FACTS], *words, "--config", f"{tmp_path}/config.yaml")
    assert (printed.out + printed.err).count(own) == 1
    assert own not in "".join(run(tmp_path, [OWN, FACTS], *words)[1:])


@pytest.mark.parametrize("label", ["true", "false"])
@pytest.mark.parametrize("is_listed", [True, False])
def test_the_namespace_of_the_kubeconfig_decides_about_manifests_that_name_none(
    label: str, *, is_listed: bool, tmp_path: Path
) -> None:
    admin = {"resource.kubernetes.io/admin-access": label}
    namespace = {**LABELLED, "metadata": {"name": "default", "labels": admin}}
    files = {"pod.yaml": MONITOR.replace(", namespace: NAMESPACE", ""), "config.yaml": ALLOWED}
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")

    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.put(publish(tmp_path))
        roles = [OWN, FACTS, *([everywhere("namespaces")] if is_listed else ())]
        api.rights = Rights(roles, NAMESPACE)

    words = ("-f", f"{tmp_path}/pod.yaml", "--config", f"{tmp_path}/config.yaml")
    printed = on_api(tmp_path, (namespace,), "translate", "--context", *words, prepare=prepare)
    assert ("adminAccess: true" in printed.out) is (label == "true"), printed.err


def test_the_namespace_of_an_option_is_read_instead(tmp_path: Path) -> None:
    words = ("-n", "watchers", "-f", str(LEGACY / "nvidia.yaml"), "-o", "json")
    watchers = role("watchers", ("namespaces", "localqueues"))
    printed = translate(tmp_path, [watchers, FACTS], *words)
    told = [each["message"] for each in json.loads(printed.out)["findings"]]
    assert sum(each.endswith("only namespace watchers is read") for each in told) == 2


@every_row("part", LISTED)
def test_a_kind_that_is_not_served_is_no_kind_without_objects(part: str, tmp_path: Path) -> None:
    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.put(publish(tmp_path))
        api.fail(404, times=9, part=part)

    words = ("translate", "--context", "-f", str(LEGACY / "nvidia.yaml"))
    printed = on_api(tmp_path, OBJECTS, *words, prepare=prepare)
    assert (printed.code, printed.out) == (2, "")
    assert "[ClusterUnreadable]" in printed.err


def test_check_compares_no_claim_with_the_devices_of_the_manifests_only(tmp_path: Path) -> None:
    code, about, _ = check(tmp_path, [OWN, FACTS], manifests=DEVICES)
    assert (code, about) == (0, {"PartUnreadable"})
    code, about, _ = check(tmp_path, None, *OBJECTS, manifests=DEVICES)
    assert (code, about) == (0, {"ResourceSlice/new SliceOfMissingNode"})


def test_check_says_nothing_of_what_may_not_be_read(tmp_path: Path) -> None:
    code, about, _ = check(tmp_path, None)
    unknown = {"Pod/model DeviceNeverMatches", "Pod/templated ClaimNotFound"}
    assert (code, about) == (2, {*unknown, "ResourceClaim/other ClassNotFound", NEVER})
    assert check(tmp_path, [OWN, FACTS])[:2] == (2, {"PartUnreadable", NEVER})
    code, _, printed = check(tmp_path, [OWN, WITHOUT_FACTS])
    assert code == 2
    assert "ClusterUnreadable" in printed.out + printed.err


def test_a_template_that_may_not_be_listed_is_not_missing(tmp_path: Path) -> None:
    lists = (*LISTED, "resourceclaims")
    _, about, _ = check(tmp_path, [OWN, FACTS, everywhere(*lists)])
    assert "ResourceClaim/other ClassNotFound" in about
    assert "Pod/templated ClaimNotFound" not in about
    _, about, _ = check(tmp_path, [OWN, FACTS, everywhere(*lists, "resourceclaimtemplates")])
    assert "Pod/templated ClaimNotFound" in about


@every_row(
    ("context", "words"),
    [("watchers", ()), ("", ("-n", "watchers")), ("team", ("-n", "watchers"))],
)
def test_check_judges_manifests_that_name_no_namespace_in_that_of_the_caller(
    context: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "absent", "namespace": "watchers"},
        "spec": {"spec": {"devices": {"requests": []}}},
    }
    told = "Pod/watchers/templated ClaimNotFound"
    others = {
        "Pod/watchers/model DeviceNeverMatches",
        "ResourceClaim/watchers/other ClassNotFound",
        "ResourceClaim/watchers/many TooManyDevices",
    }
    assert check(tmp_path, None, context=context, words=words)[1] == {told, *others}
    assert check(tmp_path, None, template, context=context, words=words)[1] == others
    # Reads it there, where one may not list in all namespaces.
    own = role("watchers", ("resourceclaims", "resourceclaimtemplates"))
    rest = everywhere(*LISTED)
    _, about, printed = check(tmp_path, [own, FACTS, rest], template, context=context, words=words)
    assert {*others} <= about
    assert printed.out.count("only namespace watchers is read") == 2


def test_simulate_places_what_names_no_namespace_in_that_of_the_kubeconfig(tmp_path: Path) -> None:
    # The pod uses a claim of its namespace, and there is none of that name in default.
    files = {
        "pod.yaml": CLAIMED.replace("namespace: default", "labels: {}"),
        "more.yaml": USES_CLAIM,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")

    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.context = {"namespace": "watchers"}

    for words in (["--claims", "gpu"], []):
        named = ("simulate", "-f", f"{tmp_path}/pod.yaml", "-f", f"{tmp_path}/more.yaml", *words)
        printed = on_api(tmp_path, (), *named, "--context", prepare=prepare)
        assert printed.code == 0, printed
        assert "watchers/gpu" in printed.out
