"""Which group a pod is a member of, what its objects say, and which gangs are split."""

from pathlib import Path

from drawbridge.ledger.pods import pod_reader
from drawbridge.pod_groups import (
    GroupPolicy,
    Member,
    PodGroup,
    find_group,
    find_split_gangs,
    read_policies,
)
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "pod_groups.yaml")


def pod_of(name: str, group: str = "train") -> YamlValue:
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"schedulingGroup": {"podGroupName": group}},
    }


def group_of_pod(name: str = "train") -> PodGroup:
    group = find_group(pod_of("a", name))
    assert group is not None
    return group


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_pod_is_a_member_of_the_group_that_it_names(case: YamlValue) -> None:
    group = find_group(case["pod"])
    assert (group and f"{group}") == case["group"]
    if group is not None:
        assert group.is_gang is case["gang"]


@every_row(
    "case",
    [case for case in CASES if case["group"]],
    ids=lambda case: case["name"],
)
def test_a_decoded_pod_is_a_member_of_the_same_group(case: YamlValue) -> None:
    metadata = {"name": "a", **case["pod"]["metadata"]}
    pod = pod_reader().read(
        {"apiVersion": "v1", "kind": "Pod", **case["pod"], "metadata": metadata}
    )
    assert not isinstance(pod, tuple)
    assert pod.group == find_group(case["pod"])


def policy_object(api: str, kind: str, spec: YamlValue) -> YamlValue:
    metadata = {"name": "train", "namespace": "ml"}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


@every_row(
    ("value", "pod", "policy"),
    [
        (
            policy_object(
                "scheduling.k8s.io/v1alpha2",
                "PodGroup",
                {"schedulingPolicy": {"gang": {"minCount": 4}}},
            ),
            {"spec": {"schedulingGroup": {"podGroupName": "train"}}},
            GroupPolicy(4),
        ),
        (
            policy_object(
                "scheduling.k8s.io/v1alpha2", "PodGroup", {"schedulingPolicy": {"basic": {}}}
            ),
            {"spec": {"schedulingGroup": {"podGroupName": "train"}}},
            GroupPolicy(0),
        ),
        (
            policy_object(
                "scheduling.k8s.io/v1alpha1",
                "Workload",
                {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 3}}}, None]},
            ),
            {"spec": {"workloadRef": {"name": "train", "podGroup": "workers"}}},
            GroupPolicy(3),
        ),
        (
            policy_object("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 2}),
            {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}},
            GroupPolicy(2),
        ),
        (
            policy_object("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": True}),
            {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "train"}}},
            GroupPolicy(0),
        ),
        (policy_object("example.com/v1", "PodGroup", {}), pod_of("a"), None),
        ("text", pod_of("a"), None),
    ],
    ids=["gang", "basic", "workload", "coscheduling", "not-a-number", "other-api", "no-object"],
)
def test_the_object_of_a_group_says_how_many_members_are_the_minimum(
    value: YamlValue, pod: YamlValue, policy: GroupPolicy | None
) -> None:
    group = find_group({**pod, "metadata": {"namespace": "ml", **pod.get("metadata", {})}})
    assert group is not None
    assert read_policies([value]).get(group.policy) == policy


def test_replicas_of_a_workload_have_one_policy_and_are_different_groups() -> None:
    groups = [
        find_group(
            {"spec": {"workloadRef": {"name": "w", "podGroup": "p", "podGroupReplicaKey": key}}}
        )
        for key in ("a", "b")
    ]
    first, second = (each for each in groups if each is not None)
    assert first != second
    assert first.policy == second.policy


def test_a_gang_with_several_schedulers_is_split() -> None:
    train = group_of_pod()
    members = [
        Member(train, "launcher", "default-scheduler"),
        Member(train, "worker-0", "drawbridge", waits=False),
        Member(train, "worker-1", "drawbridge"),
        Member(group_of_pod("whole"), "a", "drawbridge"),
        Member(group_of_pod("whole"), "b", "drawbridge"),
    ]
    (split,) = find_split_gangs(members)
    assert split.group == train
    assert list(split.pods.items()) == [
        ("drawbridge", ("worker-0", "worker-1")),
        ("default-scheduler", ("launcher",)),
    ]


def test_a_gang_of_which_no_member_waits_is_not_split() -> None:
    train = group_of_pod()
    members = [Member(train, name, name, waits=False) for name in ("a", "b")]
    assert not find_split_gangs(members)


def test_pods_that_only_have_one_owner_are_no_split_gang() -> None:
    owned = find_group({"metadata": {"labels": {"ray.io/cluster": "c"}}})
    assert owned is not None
    assert not find_split_gangs([Member(owned, name, name) for name in ("a", "b")])
