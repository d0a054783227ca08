"""What the books have of the time before a watch of claims breaks, and of the time without one."""

from fractions import Fraction

import pytest

from controller import usage_books
from drawbridge.usage.book import DAY
from tests.controller.test_usage import NOW, TEAM, Cluster, Controller
from tests.tables import every_row

JOB = (TEAM, "Job/job")


def run_job(cluster: Cluster, name: str, seconds: int = 40, *, pending: bool = True) -> None:
    """Let a job hold two devices for some seconds; the watch tells of it."""
    uid = cluster.pod(name, "job", pending=pending)
    cluster.claim(name, "gpu-0", "gpu-1", pod=name, uid=uid, allocated=cluster.time)
    cluster.time += seconds
    cluster.claims.remove(name, TEAM)


def wait(cluster: Cluster, controller: Controller, seconds: int) -> None:
    """Let a replica check its caches each second."""
    for _ in range(seconds):
        cluster.time += 1
        controller.check()


def break_watch(cluster: Cluster, controller: Controller, seconds: int) -> None:
    """Let the watch of claims deliver nothing for some seconds."""
    cluster.claims.fresh = False
    wait(cluster, controller, seconds)
    cluster.claims.fresh = True
    controller.check()


@every_row(
    ("breaks", "silent", "expected"),
    [
        (1, 0, [(42, 55)]),
        (2, 0, [(42, 55), (97, 110)]),
        (1, 4, [(38, 55)]),  # since the last response
        # The oldest of three is forgotten.
        (3, 0, [(-3, 55), (97, 110), (152, 165)]),
    ],
)
def test_what_was_observed_before_a_watch_breaks_is_in_the_book(
    breaks: int, silent: int, expected: list[tuple[int, int]]
) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.claim("kept", "gpu-2", allocated=NOW)
    controller.write()
    cluster.time = began = NOW + 63
    controller.write()
    for number in range(breaks):
        run_job(cluster, f"job-{number}", 30)
        wait(cluster, controller, 14)
        cluster.claims.silent = silent
        wait(cluster, controller, 1)
        break_watch(cluster, controller, 10)
        cluster.claims.silent = 0
    cluster.time += 200
    controller.write()
    assert [tuple(at - began for at in gap) for gap in cluster.books()[0].gaps] == expected
    used = cluster.used()
    assert used[JOB].devices == 60 * min(breaks, 2)
    assert used[TEAM, "ResourceClaim/kept"].devices == cluster.time - 3 - NOW


@every_row(
    ("silence", "expected", "unknown"),
    [
        (6, [(41, 51)], 0),
        (20, [(41, 65)], 24),
    ],
)
def test_a_list_tells_nothing_of_what_came_and_went_although_no_check_found_a_failure(
    silence: int, expected: list[tuple[int, int]], unknown: int
) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.claim("kept", "gpu-2", allocated=NOW)
    cluster.claim("ended", "gpu-3", allocated=NOW)
    controller.write()
    cluster.time = began = NOW + 63
    controller.write()
    run_job(cluster, "job", 30)
    wait(cluster, controller, 14)
    cluster.claims.stays = True  # a server answers, and tells of no change
    wait(cluster, controller, silence)
    cluster.claims.stays = False
    cluster.claims.remove("ended", TEAM)
    cluster.claims.listed += 1
    wait(cluster, controller, 20)
    cluster.time += 200
    controller.write()
    assert [tuple(at - began for at in gap) for gap in cluster.books()[0].gaps] == expected
    used = cluster.used()
    assert used[JOB].devices == 60
    assert used[TEAM, "ResourceClaim/kept"].devices == cluster.time - 3 - NOW
    assert used[TEAM, "ResourceClaim/ended"].unknown == unknown


def test_a_book_ends_where_the_watch_stopped_to_tell_of_changes() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.claim("kept", "gpu-2", allocated=NOW)
    controller.write()
    wait(cluster, controller, 100)
    cluster.claims.stays = True
    wait(cluster, controller, 30)
    controller.write()
    assert cluster.books()[0].through == NOW + 97
    cluster.claims.stays = False
    wait(cluster, controller, 70)
    controller.write()
    assert cluster.books()[0].through == NOW + 197
    assert cluster.used()[TEAM, "ResourceClaim/kept"].devices == 197


def test_a_watch_that_breaks_again_at_once_displaces_nothing_that_was_observed() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    run_job(cluster, "job", 30)
    wait(cluster, controller, 15)
    for _ in range(3):
        break_watch(cluster, controller, 6)
    cluster.time += 200
    controller.write()
    assert cluster.used()[JOB].devices == 60
    assert len(cluster.books()[0].gaps) == 1


def test_a_large_book_does_not_wait_until_what_was_observed_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usage_books, "BYTES_A_MINUTE", 20)
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.time += 1_000
    controller.write()
    for _ in range(4):
        run_job(cluster, "job", 30)
        wait(cluster, controller, 15)
        break_watch(cluster, controller, 10)
        controller.write()
    through = cluster.books()[0].through
    assert cluster.used()[JOB].devices == 4 * 60
    cluster.time += 200
    controller.write()
    assert cluster.books()[0].through == through


def test_a_claim_that_is_released_while_nobody_observes_is_unknown_since_then() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.claim("a", "gpu-0", allocated=NOW)
    wait(cluster, controller, 30)
    cluster.claims.fresh = False
    controller.check()
    cluster.claims.remove("a", TEAM)
    break_watch(cluster, controller, 70)
    cluster.time += 100
    controller.write()
    (used,) = cluster.used().values()
    assert (used.devices, used.unknown) == (27, 73)


@every_row("seen", [55, 60, 62])
def test_an_allocation_that_is_seen_late_is_in_the_book_before_a_watch_breaks(seen: int) -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    wait(cluster, controller, 60)
    cluster.time = NOW + seen
    cluster.claim("a", "gpu-0", allocated=NOW + 20)
    cluster.time = NOW + 63
    cluster.claims.fresh = False
    controller.check()
    break_watch(cluster, controller, 27)
    cluster.time = NOW + 303
    controller.write()
    assert cluster.books()[0].gaps == ((NOW + 57, NOW + 90),)
    (used,) = cluster.used().values()
    assert (used.devices, used.unknown) == (280, 0)


def test_the_book_gets_what_was_observed_while_a_watch_is_broken() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    cluster.time = midnight = (NOW // DAY + 1) * DAY
    cluster.time -= 20
    controller.write()
    run_job(cluster, "job", 30)
    wait(cluster, controller, 5)
    cluster.claims.fresh = False
    cluster.time += 3_600
    controller.write()
    assert [each.through - midnight for each in cluster.books()] == [0, 12]
    amounts = [used.devices for book in cluster.books() for used in book.used().values()]
    assert amounts == [40, 20]
    controller.write()
    assert cluster.books()[-1].through == midnight + 12
    cluster.claims.fresh = True
    cluster.time += 100
    controller.write()
    cluster.time += 100
    controller.write()
    assert cluster.books()[-1].gaps == ((midnight + 12, cluster.time - 100),)


def test_a_pod_is_looked_up_for_what_was_observed_before_a_watch_breaks() -> None:
    cluster = Cluster()
    controller = Controller(cluster)
    controller.write()
    run_job(cluster, "job", pending=False)
    wait(cluster, controller, 5)
    cluster.claims.fresh = False
    controller.check()
    cluster.claim("b", "gpu-3", pod="b", uid=cluster.pod("b", "other", pending=False))
    break_watch(cluster, controller, 10)
    cluster.time += 100
    controller.write()
    cluster.time += 100
    controller.write()
    assert {key: used.devices for key, used in cluster.used().items()} == {
        JOB: 80,
        (TEAM, "Job/other"): Fraction(cluster.time - 3 - NOW - 55),
    }


@pytest.mark.parametrize("after", [0, 899])
def test_another_leader_continues_what_a_replica_whose_watch_broke_has_written(after: int) -> None:
    cluster = Cluster()
    leader, standby = Controller(cluster), Controller(cluster)
    leader.write()
    standby.check()
    run_job(cluster, "job")
    wait(cluster, standby, 5)
    break_watch(cluster, standby, 10)
    cluster.claim("b", "gpu-3")
    cluster.time += 100
    leader.write()
    assert not cluster.books()[0].gaps
    cluster.time += after
    standby.write()
    cluster.time += 100
    standby.write()
    assert not cluster.books()[0].gaps
    assert not standby.observer.former
    devices = {key: used.devices for key, used in cluster.used().items()}
    assert devices == {JOB: 80, (TEAM, "ResourceClaim/b"): cluster.time - 3 - NOW - 55}


def test_a_replica_that_does_not_lead_forgets_what_the_book_has() -> None:
    cluster = Cluster()
    standby = Controller(cluster)
    standby.check()
    for _ in range(5):
        wait(cluster, standby, 20)
        break_watch(cluster, standby, 10)
        assert len(standby.observer.former) <= 2
    cluster.time += 900
    standby.check()
    assert not standby.observer.former


@every_row(("after_midnight", "expected"), [(-80, [200, 0]), (-1_000, [120])])
def test_a_book_takes_back_what_a_clock_that_was_ahead_counted_too_much(
    after_midnight: int, expected: list[int]
) -> None:
    """Until then a device counted that was released before; the next day cannot have less."""
    cluster = Cluster()
    controller = Controller(cluster)
    cluster.time = midnight = (NOW // DAY + 1) * DAY
    cluster.time += after_midnight - 120
    controller.write()
    cluster.claim("a", "gpu-0", allocated=cluster.time)
    cluster.time += 240
    controller.write()
    before = {key: total.devices for key, total in controller.books.totals.items()}
    cluster.time -= 120  # the clock is right again
    cluster.claims.remove("a", TEAM)
    cluster.time += 300
    controller.write()
    used = [amount.devices for book in cluster.books() for amount in book.used().values()]
    assert used == expected
    assert cluster.books()[-1].through - midnight == after_midnight + 297
    assert {key: total.devices for key, total in controller.books.totals.items()} == before
