"""The roles of people have the rights that the commands use, and no others.

Each command runs on an API server that authorizes as drawbridge-reader may.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from cli.diagnosis.left_objects import INSTALLED
from cli.served_page.objects import KINDS as SHOWN
from drawbridge.cluster import resources
from drawbridge.cluster.resources import Resource
from drawbridge.pod_groups import COSCHEDULING_API, WORKLOADS_API
from drawbridge.report.workloads import KINDS
from tests.cli.installed_api import healthy
from tests.cli.running import Printed, on_api
from tests.cli.test_live_cluster import CLAIMED, RULE, pod_of
from tests.cli.test_live_workloads import job_set
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.rights import Rights
from tests.manifests.rendering import NAMESPACE, read_base
from tests.tables import write_yaml

PEOPLE = read_base("roles-people.yaml")
READER = [each for each in PEOPLE if each["metadata"]["name"] == "drawbridge-reader"]
COMMANDS = """\
config facts --context
check -f FOLDER --context
translate -f FOLDER --context
translate -n default --context
undo -n default --context
simulate -f FOLDER --context
simulate -f FOLDER --claims gpu --context
simulate -f FOLDER --preempt --context
audit --context
audit default --context
doctor --context
usage --context
explain devices --context
explain there -n default --context
explain deployment/web -n default --context
"""
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none", "namespace": "default"},
    "spec": {"hard": {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "0"}},
    "status": {"hard": {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "0"}, "used": {}},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}},
}
READY_POD = pod_of("ready", "1", nodeName="edge-1")
READY_POD["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


def run(folder: Path, rights: Rights, *words: str) -> Printed:
    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.rights = rights

    files = folder / "manifests"
    files.mkdir()
    (files / "claim.yaml").write_text(CLAIMED, "utf-8")
    (files / "pod.yaml").write_text(write_yaml([pod_of("new", "2")]), "utf-8")
    (files / "jobs.yaml").write_text(write_yaml([job_set("j", "nvidia.com/mig-1g.10gb")]), "utf-8")
    named = (str(files) if each == "FOLDER" else each for each in words)
    objects = (RULE, QUOTA, DEPLOYMENT, pod_of("there", "1", nodeName="edge-1"), READY_POD)
    return on_api(folder, objects, *named, prepare=prepare)


@pytest.mark.parametrize("words", COMMANDS.splitlines())
def test_the_roles_of_a_reader_suffice_for_every_command_that_reads_a_cluster(
    tmp_path: Path, words: str
) -> None:
    rights = Rights(READER, NAMESPACE)
    printed = run(tmp_path, rights, *words.split())
    # `doctor` tries what it may, with dry runs.
    assert [each for each in rights.denied if not each.startswith("create ")] == []
    assert "Unreadable]" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("words", "resource", "told"),
    [
        ("check -f FOLDER --context", "devicetaintrules", "PartUnreadable"),
        ("check -f FOLDER --context", "resourcequotas", "PartUnreadable"),
        ("simulate -f FOLDER --claims gpu --context", "devicetaintrules", "PartUnreadable"),
        ("translate -f FOLDER --context", "localqueues", "PartUnreadable"),
        ("translate -f FOLDER --context", "customresourcedefinitions", "PartUnreadable"),
        ("translate -n default --context", "jobsets", "PartUnreadable"),
        ("undo -n default --context", "jobsets", "PartUnreadable"),
        ("audit --context", "events", "PartUnreadable"),
        ("doctor --context", "events", "PartUnreadable"),
        ("explain there -n default --context", "nodes", "PartUnreadable"),
        ("explain there -n default --context", "resourceslices", "PartUnreadable"),
        ("doctor --context", "nodepools", "you may not list nodepools"),
    ],
)
def test_what_a_command_may_not_read_is_said(
    tmp_path: Path, words: str, resource: str, told: str
) -> None:
    rights = Rights([_without(each, resource) for each in READER], NAMESPACE)
    printed = run(tmp_path, rights, *words.split())
    assert any(resource in each for each in rights.denied)
    assert (printed.out + printed.err).count(told) == 1


def test_explain_names_no_right_that_only_shows_more_while_the_pod_is_ready(tmp_path: Path) -> None:
    role = READER
    for resource in ("nodes", "resourceslices"):
        role = [_without(each, resource) for each in role]
    rights = Rights(role, NAMESPACE)
    printed = run(tmp_path, rights, "explain", "ready", "-n", "default", "--context")
    assert printed.code == 0
    assert "Unreadable" not in printed.out + printed.err


def test_a_kind_that_may_not_be_listed_and_that_no_server_has_is_not_missed(tmp_path: Path) -> None:
    resource = "network-attachment-definitions"
    rights = Rights([_without(each, resource) for each in READER], NAMESPACE)
    printed = run(tmp_path, rights, "config", "facts", "--context")
    assert any(resource in each for each in rights.denied)
    assert "Unreadable" not in printed.out + printed.err


def _without(role: dict[str, Any], resource: str) -> dict[str, Any]:
    rules = [
        {**rule, "resources": [each for each in rule["resources"] if each != resource]}
        for rule in role["rules"]
    ]
    return {**role, "rules": rules}


def _list_rights(*verbs: str) -> Iterator[tuple[str, str]]:
    for role in READER:
        for rule in role["rules"]:
            if role["kind"] == "ClusterRole" and {*verbs} <= {*rule["verbs"]}:
                yield from product(rule["apiGroups"], rule["resources"])


def test_a_reader_lists_workloads_of_all_kinds_and_watches_what_the_page_shows() -> None:
    assert {(each.group, each.plural) for each in KINDS} <= {*_list_rights("list")}
    assert {*SHOWN} <= {plural for _, plural in _list_rights("list", "watch")}


def test_a_reader_lists_what_an_uninstallation_can_leave() -> None:
    assert {(each.group, each.plural) for each in INSTALLED} <= {*_list_rights("list")}


def test_every_right_of_a_person_is_for_a_resource_that_exists() -> None:
    served = (each for each in vars(resources).values() if isinstance(each, Resource))
    exist = {(each.group, each.plural) for each in (*served, *KINDS)}
    exist |= {(WORKLOADS_API, "podgroups"), (WORKLOADS_API, "workloads")}
    exist |= {(COSCHEDULING_API, "podgroups")}
    named = {
        right
        for role in PEOPLE
        for rule in role["rules"]
        for right in product(rule["apiGroups"], rule["resources"])
    }
    assert named - exist == set()
