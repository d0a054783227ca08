"""Scenario: the books of usage agree with the claims on the API server, also after a gap."""

import json
import time
from datetime import UTC, datetime
from fractions import Fraction

from e2e.installed.installation import NAMESPACE, Installation, installed, wait_for_facts
from e2e.scenarios.admission import NEEDS, add_gpu_node, claim_of, legacy_pod
from e2e.scenarios.objects import JSON
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

BOOKS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
# The book is written each minute, and is three seconds late.
BOOK_SECONDS = 150
# The time of a release is that of its event.
SEEN_SECONDS = 3


def read_books(stage: Stage) -> list[JSON]:
    """Return all books, the oldest first."""
    items = stage.client.get(BOOKS)["items"]
    texts = [
        item["data"]["book.json"]
        for item in items
        if item["metadata"]["name"].startswith("drawbridge-usage-")
    ]
    return sorted(map(json.loads, texts), key=lambda book: str(book["date"]))


def gaps_since(stage: Stage, began: int) -> list[tuple[str, str]]:
    """Return when nobody observed; before that time, other scenarios did what they want."""
    gaps = [tuple(gap) for book in read_books(stage) for gap in book.get("unobserved", ())]
    return [(since, until) for since, until in gaps if seconds_of(until) > began]


def seconds_of(text: str) -> int:
    """Return a time of the API server in Unix seconds."""
    return int(datetime.fromisoformat(text).timestamp())


def through(stage: Stage) -> int:
    """Return until when the books are complete; 0 without a book."""
    return max((seconds_of(book["through"]) for book in read_books(stage)), default=0)


def wait_for_book(stage: Stage) -> int:
    """Wait until the books have everything up to now; return until when they are complete."""
    now = int(time.time())
    stage.wait("the book", lambda: through(stage) > now, BOOK_SECONDS)
    return through(stage)


def used(stage: Stage, owner: str) -> tuple[Fraction, Fraction]:
    """Return the certain and the unknown device-seconds of an owner in the stage's namespace."""
    rows = [row for book in read_books(stage) for row in book["rows"]]
    mine = [row for row in rows if (row[0], row[2]) == (stage.namespace, owner)]
    return sum((Fraction(row[3]) for row in mine), Fraction(0)), sum(
        (Fraction(row[4]) for row in mine), Fraction(0)
    )


def start(stage: Stage, cluster: Installation, name: str, count: int = 1) -> int:
    """Run a translated pod; return when its claim was allocated."""
    cluster.kubectl.inside(stage.namespace).apply(legacy_pod(stage, name, count)).check()
    stage.wait_running(name)
    allocation = stage.get_claim(claim_of(stage, name)[1])["status"]["allocation"]
    return seconds_of(allocation["allocationTimestamp"])


def end(stage: Stage, name: str) -> tuple[int, int]:
    """Delete a pod; return when its claim existed for sure, and when it did not."""
    claim = claim_of(stage, name)[1]
    before = int(time.time())
    stage.delete_pod(name)
    stage.wait_gone(stage.claim_path(claim))
    return before, int(time.time()) + SEEN_SECONDS


# Kubernetes 1.36 is the first to write the time of an allocation by default.
@scenario("full", since="1.36", rig="installed", needs=NEEDS)
def the_books_of_usage_agree_with_the_claims(stage: Stage) -> None:
    """Pods run and end, the leader is killed, and no controller runs for a while."""
    cluster = installed(stage)
    for suffix in ("a", "b"):
        add_gpu_node(stage, suffix)
    wait_for_facts(stage, cluster, legacy_pod(stage, "kept"))
    began = wait_for_book(stage)
    allocated = {name: start(stage, cluster, name) for name in ("kept", "ended", "lost")}
    # The books count whole seconds: what is held for less than one has no row.
    held_until = allocated["ended"] + SEEN_SECONDS
    stage.wait('"ended" holds its GPU', lambda: time.time() > held_until, 2 * SEEN_SECONDS)
    earliest, latest = end(stage, "ended")
    complete = wait_for_book(stage)
    for name in ("kept", "lost"):
        # "lost" still runs, and the books may be a write ahead of `complete`.
        assert used(stage, f"Pod/{name}")[0] >= complete - allocated[name], name
    certain, unknown = used(stage, "Pod/ended")
    assert earliest <= allocated["ended"] + certain <= latest, (allocated, certain)
    assert certain > 0, "nothing is counted for a pod that ended"
    assert unknown == 0

    cluster.leader.kill()
    stage.wait("another controller leads", lambda: cluster.find_leader() is not None)
    wait_for_book(stage)
    assert not gaps_since(stage, began), "a new leader lost time"

    for replica in cluster.controllers:
        if replica.alive:
            replica.kill()
    stopped = through(stage)
    allocated["meanwhile"] = start_without_controller(stage, cluster)
    gone, _ = end(stage, "lost")
    cluster.start_all()
    wait_for_book(stage)
    check_gap(stage, allocated, stopped, gone)
    check_command(stage, cluster)


def start_without_controller(stage: Stage, cluster: Installation) -> int:
    """Run a pod while no controller runs: the webhook needs none."""
    assert not any(replica.alive for replica in cluster.controllers)
    return start(stage, cluster, "meanwhile")


def check_gap(stage: Stage, allocated: dict[str, int], stopped: int, gone: int) -> None:
    """Compare the books with what the claims say and what was done while nobody observed."""
    ((since, until),) = gaps_since(stage, stopped)
    assert seconds_of(since) == stopped, (since, stopped)
    for name in ("kept", "meanwhile"):
        claim = stage.get_claim(claim_of(stage, name)[1])
        text = claim["status"]["allocation"]["allocationTimestamp"]
        assert seconds_of(text) == allocated[name]
        complete = through(stage)
        certain, unknown = used(stage, f"Pod/{name}")
        assert certain == complete - allocated[name], (name, complete)
        assert unknown == 0, name
    certain, unknown = used(stage, "Pod/lost")
    assert certain == stopped - allocated["lost"], (certain, stopped)
    assert unknown == seconds_of(until) - stopped, (unknown, since, until)
    assert certain <= gone - allocated["lost"] <= certain + unknown


def check_command(stage: Stage, cluster: Installation) -> None:
    """The command and the metrics of the leader say the same as the books."""
    words = ("usage", stage.namespace, "--by", "owner", "-o", "json")
    told = json.loads(cluster.drawbridge(*words).check().out)
    lines = {each["owner"]: each for each in told["usage"]}
    assert {*lines} == {f"Pod/{name}" for name in ("kept", "ended", "lost", "meanwhile")}, lines
    assert Fraction(lines["Pod/lost"]["unknownDeviceSeconds"]) == used(stage, "Pod/lost")[1]
    today = datetime.now(UTC).date()
    assert told["to"].startswith(f"{today}"), told
    labels = {"namespace": stage.namespace, "owner": "Pod/kept"}
    assert cluster.leader.metric("drawbridge_held_devices", **labels) == 1
    assert cluster.leader.metric("drawbridge_device_held", **labels, pod="kept") == 1
