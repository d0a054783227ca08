"""`drawbridge off` and `on` change the webhooks of a live cluster, and name the pods that wait."""

from pathlib import Path
from typing import Any

import pytest

from drawbridge.agreement.switch import SWITCH_CONDITION, is_switched_off
from tests.cli.installed_api import healthy, namespace, register_all
from tests.cli.running import Printed, on_api
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON
from tests.cluster.fake.status import RefusedError

CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "drawbridge"),
    ("ValidatingWebhookConfiguration", "drawbridge"),
    ("ValidatingWebhookConfiguration", "drawbridge-judge"),
)


def installation(api: FakeApi) -> None:
    """Put an installation with the judge, and namespaces in both modes."""
    healthy(api)
    register_all(api)
    api.put(namespace("team-b", "report"))


def pod(name: str, *, node: str = "", scheduler: str = "drawbridge", owned: bool = False) -> JSON:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1"}
    metadata: JSON = {"name": name, "namespace": "team-a"}
    if owned:
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    spec = {"schedulerName": scheduler, "containers": [], **({"nodeName": node} if node else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def webhooks(api: FakeApi) -> list[JSON]:
    live: list[Any] = [api.get(kind, name) for kind, name in CONFIGURATIONS]
    return [webhook for each in live for webhook in each["webhooks"]]


def conditions(api: FakeApi) -> list[object]:
    return [each.get("matchConditions") or [] for each in webhooks(api)]


def play(folder: Path, *words: str, prepare: Any = installation, check: Any = None) -> Printed:  # noqa: ANN401  # callables of the tests
    return on_api(folder, (), *words, prepare=prepare, check=check or (lambda _: None))


def test_off_and_on_again_leave_every_webhook_as_it_was(tmp_path: Path) -> None:
    before: list[object] = []

    def prepare(api: FakeApi) -> None:
        installation(api)
        before.extend(conditions(api))

    def after_off(api: FakeApi) -> None:
        assert all(map(is_switched_off, webhooks(api)))

    done = play(tmp_path, "off", prepare=prepare, check=after_off)
    assert done.code == 0, done.err
    assert "enforce: 1 namespace (team-a)" in done.out
    assert "report: 1 namespace (team-b)" in done.out

    def switched(api: FakeApi) -> None:
        installation(api)
        for kind, name in CONFIGURATIONS:
            value: Any = api.get(kind, name)
            for webhook in value["webhooks"]:
                never = {"name": SWITCH_CONDITION, "expression": "false"}
                webhook.setdefault("matchConditions", []).append(never)
            api.put(value)

    def after_on(api: FakeApi) -> None:
        assert conditions(api) == before

    assert play(tmp_path, "on", prepare=switched, check=after_on).code == 0


def test_a_repeated_command_writes_nothing(tmp_path: Path) -> None:
    def check(api: FakeApi) -> None:
        assert not api.asked("PATCH", "webhookconfigurations")

    assert play(tmp_path, "on", prepare=installation, check=check).code == 0


def test_a_part_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    def prepare(api: FakeApi) -> None:
        installation(api)

        def on_write(plural: str, value: JSON) -> JSON:
            if plural == "mutatingwebhookconfigurations":
                raise RefusedError(403, "forbidden")
            return value

        api.on_write = on_write

    def check(api: FakeApi) -> None:
        states = [is_switched_off(each) for each in webhooks(api)]
        assert states == [False, False, *[True] * (len(states) - 2)]

    failed = play(tmp_path, "off", prepare=prepare, check=check)
    assert failed.code == 2
    assert "SwitchIncomplete" in failed.err
    assert "docs/rbac.md" in failed.err
    assert "`drawbridge on` switches on again" in failed.out


@pytest.mark.parametrize(("word", "code"), [("off", 403), ("on", 403), ("off", 500)])
def test_the_remedy_names_rights_only_where_they_are_missing(
    tmp_path: Path, word: str, code: int
) -> None:
    def prepare(api: FakeApi) -> None:
        installation(api)
        api.fail(code, method="GET", part="webhookconfigurations", times=99)

    failed = play(tmp_path, word, prepare=prepare)
    assert failed.code == 2
    remedies = ["Let a cluster administrator run" in failed.err, "Repeat the" in failed.err]
    assert remedies == [code == 403, code != 403]
    assert "switches on again" not in failed.out


def test_pods_without_a_node_that_wait_for_our_scheduler_are_named(tmp_path: Path) -> None:
    def prepare(api: FakeApi) -> None:
        installation(api)
        for each in (
            pod("bare"),
            pod("owned", owned=True),
            pod("bound", node="n", owned=True),
            pod("other", scheduler="default-scheduler", owned=True),
        ):
            api.put(each)

    named = play(tmp_path, "off", prepare=prepare)
    assert "2 pods wait for the scheduler drawbridge" in named.out
    assert "kubectl -n team-a get pod bare -o yaml | drawbridge undo -f -" in named.out
    assert "drawbridge off --recreate  # 1 pod with an owner" in named.out

    def check(api: FakeApi) -> None:
        left = {each["metadata"]["name"] for each in api.all("Pod", "team-a")}
        assert left == {"bare", "bound", "other"}

    deleted = play(tmp_path, "off", "--recreate", prepare=prepare, check=check)
    assert "1 pod deleted, which their owners create again" in deleted.out
    assert "1 pod waits for the scheduler drawbridge" in deleted.out


def test_nothing_is_installed(tmp_path: Path) -> None:
    done = play(tmp_path, "off", prepare=lambda _: None)
    assert (done.code, done.out.count("does not exist")) == (0, 3)
    assert "switches on again" not in done.out
