"""Owners of pods in namespaces whose pods cannot be listed."""

from collections.abc import AsyncIterator
from fractions import Fraction

import pytest

from controller.protocols import Unstructured
from drawbridge.api_error import ApiError
from drawbridge.usage.accounts import UNKNOWN
from tests.controller.test_usage import TEAM, Cluster, Controller
from tests.tables import every_row


def refuse_lists(cluster: Cluster, prefix: str, code: int) -> None:
    """Let each list of the pods of some namespaces fail."""
    iterate = cluster.every_pod.iterate

    async def iterate_some(namespace: str) -> AsyncIterator[Unstructured]:
        if namespace.startswith(prefix):
            raise ApiError(code, "Failed")
        async for each in iterate(namespace):
            yield each

    cluster.every_pod.iterate = iterate_some  # type: ignore[assignment,method-assign]


def claim_in(cluster: Cluster, namespace: str, number: int) -> None:
    """Add a claim whose pod was scheduled before the claim was seen."""
    name = f"pod-{number}"
    cluster.claim(f"of-{name}", "gpu-1", pod=name, uid=f"uid-{number}", namespace=namespace)


@every_row("code", [403, 410, 500, 504])
def test_a_namespace_whose_pods_cannot_be_listed_stops_no_book(code: int) -> None:
    cluster = Cluster()
    refuse_lists(cluster, "bad", code)
    controller = Controller(cluster)
    controller.write()
    claim_in(cluster, "bad", 0)
    cluster.claim("a", "gpu-0", pod="train-0", uid=cluster.pod("train-0", "train", pending=False))
    for _ in range(2):
        cluster.time += 60
        with pytest.raises(ApiError):  # it is reported
            controller.write()
    (book,) = cluster.books()
    assert book.through == cluster.time - 3
    used = {key: amount.devices for key, amount in cluster.used().items()}
    assert used.pop(("bad", UNKNOWN)) == sum(used.values()) == Fraction(117)
    assert used[TEAM, "Job/train"]


@every_row(("code", "runs"), [(403, 2), (504, 21)])
def test_many_namespaces_whose_pods_cannot_be_listed_keep_no_place(code: int, runs: int) -> None:
    cluster = Cluster()
    refuse_lists(cluster, "bad", code)
    controller = Controller(cluster)
    controller.write()
    for number in range(20):
        claim_in(cluster, f"bad-{number}", number)
    cluster.claim("a", "gpu-0", pod="train-0", uid=cluster.pod("train-0", "train", pending=False))
    for _ in range(runs):
        with pytest.raises(ApiError):
            controller.write()
    assert ("list", TEAM) in cluster.every_pod.requests


def test_the_namespace_that_waits_longest_is_looked_up_first() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", pod="train-0", uid=cluster.pod("train-0", "train", pending=False))
    for number in range(20):
        claim_in(cluster, f"busy-{number:02}", number)
    controller.write()
    lists = [name for verb, name in cluster.every_pod.requests if verb == "list"]
    assert lists == [TEAM, *(f"busy-{number:02}" for number in range(19))]


def test_a_claim_of_another_namespace_takes_no_owner_of_a_pod() -> None:
    """A tenant can write the UID of any pod in the owner reference of a claim."""
    cluster = Cluster()
    started = cluster.pod("late-0", "late")
    running = cluster.pod("train-0", "train", pending=False)
    cluster.claim("a", "gpu-0", pod="train-0", uid=running)
    cluster.claim("b", "gpu-1", pod="x", uid=running, namespace="zz-other")
    controller = Controller(cluster)
    controller.write()
    cluster.pods.remove("late-0", TEAM)
    cluster.claim("c", "gpu-2", pod="late-0", uid=started)
    cluster.claim("d", "gpu-3", pod="late-0", uid=started, namespace="zz-other")
    for _ in range(2):
        cluster.time += 60
        controller.write()
    assert {*cluster.used()} == {(TEAM, "Job/train"), (TEAM, "Job/late"), ("zz-other", UNKNOWN)}


@every_row("of_pod", [False, True])
def test_an_owner_with_an_invented_kind_is_no_pod_of_another_namespace(*, of_pod: bool) -> None:
    """The observer has keys of its own for pods that it has not looked up yet."""
    cluster = Cluster()
    victim = cluster.pod("train-0", "secret", pending=False)
    cluster.claim("a", "gpu-0", pod="train-0", uid=victim)
    controller = Controller(cluster)
    controller.check()
    (waiting,) = controller.observer.waiting
    kind, _, name = waiting.partition("/")
    owner = {"kind": kind, "name": name, "uid": "x", "controller": True}
    if of_pod:
        metadata = {"name": "x", "namespace": "zz-other", "ownerReferences": [owner]}
        uid = cluster.every_pod.put({"metadata": metadata}).uid
        cluster.claim("b", "gpu-1", pod="x", uid=uid, namespace="zz-other")
    else:
        cluster.claim("b", "gpu-1", pod=name, uid="x", namespace="zz-other", kind=kind)
    for _ in range(2):
        cluster.time += 60
        controller.write()
    assert {*cluster.used()} == {(TEAM, "Job/secret"), ("zz-other", waiting.removeprefix("("))}
