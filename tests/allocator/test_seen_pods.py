"""What the pods of claims say of these, and what a change of one pod costs."""

import random
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pytest

from allocator.state.seen_pods import MAX_GRACE_SECONDS, SeenPods
from drawbridge.dra.claim import Claim
from drawbridge.dra.inventory import PoolID
from drawbridge.ledger.ledger import uid_of
from drawbridge.ledger.pods import Pod
from drawbridge.names import CHECKPOINTS_ANNOTATION
from tests.allocator.clusters import DRIVER, Cluster, allocation_on, as_claim, claim, pod

USERS, CLAIMS = tuple("abcde"), tuple("xyz")
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
# What a pod can be, of which some take longer to end than others wait.
LIVES: tuple[dict[str, Any], ...] = (
    {},
    {"node": "n1"},
    {"node": "n1", "phase": "Failed"},
    {"node": "n1", "deletionGracePeriodSeconds": 5, **DELETED},
    {"node": "n1", "deletionGracePeriodSeconds": MAX_GRACE_SECONDS + 1, **DELETED},
)


def random_claim(choice: random.Random, name: str, uid: str, version: int) -> Claim:
    """A claim that is reserved for some pods, and for something else."""
    users, place = choice.sample(USERS, choice.randrange(4)), CLAIMS.index(name)
    allocated: Any = {"allocation": allocation_on("n1", place), "pods": users}
    value: Any = claim(name, version=version, **choice.choice(({}, allocated)))
    if not choice.randrange(8):
        value["status"]["reservedFor"].append({"resource": "jobs", "name": "j", "uid": "j"})
    value["metadata"] |= {"uid": uid, **(DELETED if not choice.randrange(4) else {})}
    return as_claim(value)


def releasing(pods: SeenPods, claims: Iterable[Claim]) -> Iterator[str]:
    """The claims whose users all leave, and those without users that are deleted."""
    for used in claims:
        users = used.status.reserved_for
        is_used = bool(users) or used.metadata.deletion_timestamp is not None
        is_left = all(user.is_pod and pods.is_leaving(user.uid) for user in users)
        if used.status.allocation is not None and is_used and is_left:
            yield uid_of(used)


def with_unseen(seen: Collection[str], claims: Iterable[Claim]) -> Iterator[str]:
    """The claims with a user that was never seen, or is gone."""
    for used in claims:
        users = {user.uid for user in used.status.reserved_for if user.is_pod}
        if used.status.allocation is not None and not users.issubset(seen):
            yield uid_of(used)


def test_after_any_changes_claims_are_released_as_their_pods_say() -> None:
    choice, state, now = random.Random(5), Cluster(n1=3).state, 0.0
    seen, claims = dict[str, Pod](), dict[str, Claim]()
    for version in range(1, 3_000):
        uid, number, now = choice.choice(USERS), choice.randrange(6), now + choice.randrange(20)
        if number == 0 and uid in seen:
            state.apply(seen.pop(uid), None)
        elif number < 4:
            before, seen[uid] = seen.get(uid), pod(uid, *CLAIMS, **choice.choice(LIVES))
            state.apply(before, seen[uid])
        elif number == 4:
            state.pods.observe_time(now)
        elif (name := choice.choice(CLAIMS)) in claims and not choice.randrange(5):
            state.apply(claims.pop(name), None)
        else:
            known_as = uid_of(claims[name]) if name in claims else f"{name}{version}"
            changed = random_claim(choice, name, known_as, version)
            state.apply(claims.get(name), changed)
            claims[name] = changed
        assert state.pods.releasing == set(releasing(state.pods, claims.values())), version
        listed = set(state.pods.claims_unlisted("", [PoolID(DRIVER, "n1")], ()))
        assert listed == set(with_unseen(seen, claims.values())), version


def test_a_change_of_one_pod_looks_at_no_other_user_of_its_claims(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, users, looked = Cluster(n1=3), [f"p{number}" for number in range(50)], list[str]()
    for uid in users:
        cluster.add(pod(uid, *CLAIMS, node="n1"))
    for number, uid in enumerate(CLAIMS):
        cluster.add_claim(claim(uid, allocation=allocation_on("n1", number), pods=users))
    is_leaving = SeenPods.is_leaving

    def look(pods: SeenPods, uid: str) -> bool:
        looked.append(uid)
        return is_leaving(pods, uid)

    monkeypatch.setattr(SeenPods, "is_leaving", look)
    lives = ({"annotations": {CHECKPOINTS_ANNOTATION: "1m"}}, {"phase": "Failed"})
    pods = [pod(users[0], *CLAIMS, node="n1", **each) for each in ({}, *lives)]
    for before, after in zip(pods, (*pods[1:], None), strict=True):
        cluster.state.apply(before, after)
    assert 0 < len(looked) < 10
    assert set(looked) == {users[0]}


def test_a_change_of_a_pod_that_says_nothing_of_its_claims_looks_at_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(n1=1)
    cluster.add(pod("p", "x", node="n1"))
    cluster.add_claim(claim("x", allocation=allocation_on("n1", 0), pods=["p"]))
    monkeypatch.setattr(cluster.state.pods, "_claims", None)
    changed = pod("p", "x", node="n1", annotations={CHECKPOINTS_ANNOTATION: "1m"})
    cluster.state.pods.apply(pod("p", "x", node="n1"), changed)
    assert cluster.state.pods.get("p").checkpoint_interval == 60
