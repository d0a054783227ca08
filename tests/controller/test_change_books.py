"""The leader counts translated pods once, also those that are gone when somebody asks."""

import asyncio
from typing import Any

import msgspec
import pytest

from controller import change_books
from controller.steps import STEP
from controller.usage_books import MAX_BYTES
from drawbridge.documents.values import Value
from drawbridge.translate.changes.template import make_template
from drawbridge.usage.accounts import OTHER
from drawbridge.usage.book import DAY
from drawbridge.usage.changes import KEY, MAX_OF_NAMESPACE, read_changes
from drawbridge.usage.stored_books import KEY as USED
from tests.controller.test_usage import CLASS, NOW, TEAM, Cluster, Controller, plugin_pod, text_of


def template(class_name: str = CLASS, padding: str = "") -> dict[str, Any]:
    """A template of ours."""
    exactly: dict[str, Value] = {"deviceClassName": class_name}
    if padding:
        exactly["selectors"] = [{"cel": {"expression": padding}}]
    made = make_template({"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}).object
    return {**made, "metadata": {**made["metadata"], "namespace": TEAM}}  # type: ignore[dict-item]


def name_of(value: dict[str, Any]) -> str:
    """The name of a template."""
    return f"{value['metadata']['name']}"


OURS = name_of(template())


def translated_pod(
    cluster: Cluster,
    name: str,
    *templates: str,
    with_claim: bool = True,
    owner: str = "train",
    namespace: str = TEAM,
) -> None:
    """Put a pod of a Job with claims of templates, or with one of ours."""
    names = templates or (OURS,)
    entries = [
        {"name": f"drawbridge-{number}", "resourceClaimTemplateName": each}
        for number, each in enumerate(names)
    ]
    claim = {"name": "drawbridge", "resourceClaimName": f"{name}-claim"}
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": text_of(cluster.time),
            "ownerReferences": [{"kind": "Job", "name": owner, "controller": True}],
        },
        "spec": {"resourceClaims": entries, "containers": [{"name": "main"}]},
        "status": {"resourceClaimStatuses": [claim]} if with_claim else {},
    }
    cluster.device_pods.put(pod)


def changed(cluster: Cluster) -> list[tuple[str, str, str, int]]:
    """The rows of the book of changes."""
    (stored,) = cluster.config_maps.objects.values()
    read = read_changes(stored)
    assert read is not None
    return [*read.rows]


def test_translated_pods_are_in_the_book_when_they_are_gone() -> None:
    cluster = Cluster()
    cluster.templates.put(template())
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    translated_pod(cluster, "a", with_claim=False)
    translated_pod(cluster, "a")
    translated_pod(cluster, "b")
    cluster.device_pods.remove("a", TEAM)
    cluster.time += 90
    controller.write()
    assert changed(cluster) == [(TEAM, "Job/train", f"1 device of class {CLASS}", 2)]


def test_another_leader_counts_what_the_book_does_not_have() -> None:
    cluster = Cluster()
    first = Controller(cluster)
    first.write()
    cluster.time += 10
    translated_pod(cluster, "a")
    cluster.time += 90
    first.write()
    cluster.time += 10
    second = Controller(cluster)
    translated_pod(cluster, "b")  # seen before it leads
    second.check()
    cluster.time += 90
    second.write()
    cluster.time += 90
    second.write()
    ((_, _, claims, number),) = changed(cluster)
    assert (claims, number) == (OURS, 2)


def test_another_leader_counts_the_rest_of_the_pods_of_a_second() -> None:
    cluster = Cluster()
    first = Controller(cluster)
    first.write()
    cluster.time += 90
    for number in range(5):
        translated_pod(cluster, f"a{number}")
    first.write()
    for number in range(95):
        translated_pod(cluster, f"b{number}")
    second = Controller(cluster)
    second.check()
    for _ in range(2):
        cluster.time += 90
        second.write()
    ((_, _, _, number),) = changed(cluster)
    assert number == 100


def test_pods_of_others_are_no_change() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    cluster.device_pods.put(plugin_pod("p", "train", {"nvidia.com/gpu": "1"}))
    cluster.time += 90
    controller.write()
    assert changed(cluster) == []


def count(cluster: Cluster, *templates: str) -> list[tuple[str, str, str, int]]:
    """What the book has of a pod with these templates."""
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    translated_pod(cluster, "a", *templates)
    cluster.time += 90
    controller.write()
    return changed(cluster)


def test_a_template_that_is_not_ours_counts_nothing() -> None:
    cluster = Cluster()
    forged = template("forged\x01\u202e class")
    forged["metadata"]["name"] = f"drawbridge-{'0' * 32}"
    cluster.templates.put(forged)
    named = template("forged")
    named["metadata"]["name"] = "drawbridge-x"
    cluster.templates.put(named)
    assert count(cluster, name_of(forged), "drawbridge-x") == []


def test_a_template_that_is_too_deep_to_read_is_not_ours() -> None:
    for depth in (100, 500, 900, 990, 5_000):
        config = b'{"a":' * depth + b"1" + b"}" * depth
        raw = b'{"spec":{"spec":{"devices":{"x":' + config + b"}}}}"
        assert change_books.describe_template(OURS, raw) is None


def test_the_text_of_a_tenant_is_clean() -> None:
    cluster = Cluster()
    own = template("own\x01\u202e class")
    cluster.templates.put(own)
    assert count(cluster, name_of(own)) == [
        (TEAM, "Job/train", "1 device of class own/x01/u202e class", 1)
    ]


def test_a_large_template_counts_under_its_name() -> None:
    cluster = Cluster()
    large = template(padding="x" * 1_000_000)
    cluster.templates.put(large)
    assert count(cluster, name_of(large)) == [(TEAM, "Job/train", name_of(large), 1)]


def test_events_of_pods_decode_no_template_and_a_book_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[str] = []
    describe = change_books.describe_template

    def note(name: str, raw: bytes) -> str | None:
        decoded.append(name)
        return describe(name, raw)

    monkeypatch.setattr(change_books, "describe_template", note)
    cluster = Cluster()
    templates = [template(f"class-{number}") for number in range(20)]
    for each in templates:
        cluster.templates.put(each)
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    for number in range(30):
        names = [name_of(each) for each in templates for _ in range(50)]
        translated_pod(cluster, f"p{number}", *names)
    assert not decoded
    cluster.time += 90
    controller.write()
    assert decoded == [name_of(each) for each in templates[:8]]
    ((_, _, _, number),) = changed(cluster)
    assert number == 30
    metadata = {**templates[0]["metadata"], "annotations": {"note": "another version"}}
    cluster.templates.put({**templates[0], "metadata": metadata})
    translated_pod(cluster, "last", *map(name_of, templates))
    cluster.time += 90
    controller.write()
    assert decoded == [name_of(each) for each in (*templates[:8], templates[0])]
    assert [row[3] for row in changed(cluster)] == [31]


def test_pods_of_one_template_are_counted_in_the_minute_in_which_each_was_created() -> None:
    cluster = Cluster()
    cluster.templates.put(template())
    counter = Controller(cluster).changes
    minute = NOW - NOW % 60

    async def count() -> list[int]:
        await counter.begin({"data": {KEY: '{"through":0,"rows":[]}'}}, NOW // DAY, NOW)
        for number in range(2):
            cluster.time = minute + 60 * (number + 1)
            translated_pod(cluster, f"p{number}")
        counted = []
        for number in range(2):
            await counter.settle(minute + 60 * (number + 2))
            read = read_changes({"data": {KEY: counter.write(NOW // DAY, MAX_BYTES)}})
            assert read is not None
            counted.append(sum(row[3] for row in read.rows))
        return counted

    assert asyncio.run(count()) == [1, 2]


def test_a_leader_begins_in_steps_and_counts_each_pod_once() -> None:
    cluster = Cluster()
    pods = 5 * STEP
    for number in range(pods):
        translated_pod(cluster, f"p{number}")
    counter = Controller(cluster).changes

    async def begin() -> int:
        steps = 0
        task = asyncio.create_task(
            counter.begin({"data": {KEY: '{"through":0,"rows":[]}'}}, NOW // DAY, NOW)
        )
        while not task.done():
            await asyncio.sleep(0)
            steps += 1
            if steps == 2:
                translated_pod(cluster, "new")
                translated_pod(cluster, f"p{pods - 1}", with_claim=False)
        await counter.settle(NOW + DAY)
        return steps

    assert asyncio.run(begin()) >= 5
    read = read_changes({"data": {KEY: counter.write(NOW // DAY, MAX_BYTES)}})
    assert read is not None
    assert sum(row[3] for row in read.rows) == pods + 1


def test_a_namespace_with_many_owners_is_noted_as_a_bounded_number_of_rows() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    for number in range(MAX_OF_NAMESPACE + 200):
        translated_pod(cluster, f"p{number}", owner=f"job-{number}")
    assert controller.changes.waiting == MAX_OF_NAMESPACE + 1
    cluster.time += 90
    controller.write()
    assert sum(row[3] for row in changed(cluster)) == MAX_OF_NAMESPACE + 200


def test_many_namespaces_are_noted_as_a_bounded_number_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(change_books, "MOST_NOTED", 10)
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.time += 10
    for number in range(30):
        translated_pod(cluster, f"p{number}", namespace=f"team-{number}")
    assert controller.changes.waiting == 10 + 1
    cluster.time += 90
    controller.write()
    assert (OTHER, OTHER, OTHER, 20) in changed(cluster)
    assert sum(row[3] for row in changed(cluster)) == 30


def test_pods_of_days_that_no_book_counts_any_more_are_forgotten() -> None:
    """No book is written for days."""
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    for day in range(5):
        cluster.time += DAY
        translated_pod(cluster, f"p{day}")
    assert controller.changes.waiting == 2
    cluster.time -= 3 * DAY
    translated_pod(cluster, "late")
    assert controller.changes.waiting == 2


def test_the_owners_of_pods_of_many_minutes_keep_their_names() -> None:
    """A large book is written after many minutes; its limit is one of owners, not of minutes."""
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    minutes = MAX_OF_NAMESPACE // 2
    for _ in range(minutes):
        cluster.time += 60
        for owner in "abc":
            translated_pod(cluster, f"{owner}-{cluster.time}", owner=owner)
    cluster.time += 90
    controller.write()
    assert changed(cluster) == [(TEAM, f"Job/{owner}", OURS, minutes) for owner in "abc"]


def test_a_usage_book_without_room_for_changes_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.usage_books.MAX_BYTES", 100)
    cluster = Cluster()
    assert count_used(cluster) > 0
    (stored,) = cluster.config_maps.objects.values()
    assert KEY not in stored["data"]
    assert msgspec.json.decode(stored["data"][USED])["rows"]


def count_used(cluster: Cluster) -> int:
    """Hold a device while pods are translated; return the number of accounts in the book."""
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0")
    translated_pod(cluster, "a")
    cluster.time += 90
    controller.write()
    return len(cluster.used())


def test_the_changes_of_a_day_outlast_a_leader_that_starts_after_midnight() -> None:
    cluster = Cluster()
    cluster.templates.put(template())
    midnight = NOW - NOW % DAY + DAY
    cluster.time = midnight - 1000
    first = Controller(cluster)
    first.write()
    cluster.time += 10
    translated_pod(cluster, "a")
    cluster.time = midnight - 60
    first.write()
    (book,) = cluster.config_maps.objects.values()
    before = read_changes(book)
    cluster.time = midnight + 5
    second = Controller(cluster)
    second.check()
    for _ in range(2):
        cluster.time += 90
        second.write()
    stored = cluster.config_maps.objects.values()
    (after,) = (each for each in stored if each["metadata"]["name"] == book["metadata"]["name"])
    assert before is not None
    assert read_changes(after) == before


def test_a_leader_that_is_interrupted_when_it_begins_begins_again() -> None:
    cluster = Cluster()
    pods = 2 * STEP
    for number in range(pods):
        translated_pod(cluster, f"p{number}")
    counter, stored = Controller(cluster).changes, {"data": {KEY: '{"through":0,"rows":[]}'}}

    async def begin() -> None:
        interrupted = asyncio.create_task(counter.begin(stored, NOW // DAY, NOW))
        await asyncio.sleep(0)
        interrupted.cancel()
        await asyncio.wait([interrupted])
        await counter.begin(stored, NOW // DAY, NOW)
        await counter.settle(NOW + DAY)

    asyncio.run(begin())
    read = read_changes({"data": {KEY: counter.write(NOW // DAY, MAX_BYTES)}})
    assert read is not None
    assert sum(row[3] for row in read.rows) == pods


def test_a_leader_keeps_the_books_of_yesterday_and_today() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    for day in range(4):
        controller.write()
        cluster.time += 10
        translated_pod(cluster, f"p{day}")
        cluster.time += DAY - 10
        controller.write()
    books = [controller.changes.write(NOW // DAY + day, MAX_BYTES) for day in range(4)]
    assert [each is not None for each in books] == [False, False, True, True]
