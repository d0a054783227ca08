"""Unlocked counters and histograms export the same values as those of prometheus_client."""

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families

from drawbridge.process.counters import UnlockedCounter, UnlockedHistogram
from drawbridge.process.named_series import IDLE_SECONDS, OTHER

BOUNDS = (0.0005, 0.01, 0.25, 1, 5)
LABELS = st.sampled_from(["pods", "workloads", 'a"b\\c', ""])
NUMBERS = st.sampled_from([*BOUNDS, 0.0, 7.0]) | st.floats(0, 10)


def scrape(registry: CollectorRegistry) -> list[tuple[str, dict[str, str], float]]:
    """Return the samples of a scrape, without creation unlocked."""
    text = prometheus_client.generate_latest(registry).decode()
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


@given(st.lists(st.tuples(LABELS, LABELS)))
def test_an_unlocked_counter_exports_the_same_as_a_counter(seen: list[tuple[str, str]]) -> None:
    own, reference = CollectorRegistry(), CollectorRegistry()
    unlocked = UnlockedCounter("requests", "Requests.", ["client", "kind"], own)
    counter = Counter("requests", "Requests.", ["client", "kind"], registry=reference)
    for client, kind in seen:
        unlocked.add(client, kind)
        counter.labels(client, kind).inc()
    assert scrape(own) == scrape(reference)


def test_what_is_known_of_the_labels_is_exposed_before_the_first_event() -> None:
    registry = CollectorRegistry()
    by_result = UnlockedCounter("reads", "R.", ["result"], registry, [("success", "error")])
    calls = UnlockedCounter("calls", "C.", ["call", "result"], registry, [("OK", "Bug")])
    calls.declare("bind")
    calls.add("reserve", "Late")
    assert [(*labels.values(), value) for _, labels, value in scrape(registry)] == [
        ("success", 0),
        ("error", 0),
        ("bind", "OK", 0),
        ("bind", "Bug", 0),
        ("reserve", "OK", 0),
        ("reserve", "Bug", 0),
        ("reserve", "Late", 1),
    ]
    by_result.add("error")
    calls.add("reserve", "Bug")
    values = [value for *_, value in scrape(registry)]
    assert values == [0, 1, 0, 0, 0, 1, 1]


def counts_of(registry: CollectorRegistry) -> dict[str, float]:
    return {labels["namespace"]: value for _, labels, value in scrape(registry)}


@given(st.lists(st.sampled_from("abcde")), st.integers(0, 4))
def test_a_label_has_so_many_values_and_then_other_and_the_sum_stays(
    seen: list[str], most: int
) -> None:
    registry = CollectorRegistry()
    counter = UnlockedCounter("n", "N.", ["namespace"], registry)
    counter.name_values(most, now=lambda: 0.0)
    for namespace in seen:
        counter.add(namespace)
    counts = counts_of(registry)
    named = list(dict.fromkeys(seen))[:most]
    assert counts.keys() - {OTHER} == set(named)
    assert {name: counts[name] for name in named} == {name: seen.count(name) for name in named}
    assert sum(counts.values()) == len(seen)


SCRAPE_SECONDS = IDLE_SECONDS / 4


ADDED = st.tuples(st.sampled_from(["a", "b", "c", "d", OTHER]), st.integers(0, 3))


@given(st.lists(ADDED), st.integers(0, 3))
def test_scrapes_see_each_increment_once_whichever_names_come_and_go(
    seen: list[tuple[str, int]], most: int
) -> None:
    """As Prometheus reads them: a series that is new, or has decreased, has begun at 0."""
    registry, time = CollectorRegistry(), 0.0
    counter = UnlockedCounter("n", "N.", ["namespace"], registry)
    counter.name_values(most, now=lambda: time)
    before: dict[str, float] = {}
    for namespace, number in seen:
        time += SCRAPE_SECONDS
        for _ in range(number):
            counter.add(namespace)
        counts = counts_of(registry)
        resets = {name for name in before if counts.get(name, 0.0) < before[name]}
        increases = {
            name: value - (0.0 if name in resets else before.get(name, 0.0))
            for name, value in counts.items()
        }
        assert sum(increases.values()) == number
        assert OTHER not in resets
        assert len(counts.keys() - {OTHER}) <= most
        before = counts


def test_a_name_that_was_not_used_for_an_hour_makes_way_for_a_new_one() -> None:
    registry, time = CollectorRegistry(), 0.0
    counter = UnlockedCounter("n", "N.", ["namespace"], registry)
    counter.name_values(2, now=lambda: time)
    for name in ("used", "gone", "gone"):
        counter.add(name)
    time = IDLE_SECONDS - 1
    for name in ("used", "new"):
        counter.add(name)
    assert counts_of(registry) == {"used": 2, "gone": 2, OTHER: 1}
    time = IDLE_SECONDS
    for name in ("new", "newer"):
        counter.add(name)
    # What went was not added to another series, where it would be an increase now.
    assert counts_of(registry) == {"used": 2, "new": 1, OTHER: 2}


@given(st.lists(st.tuples(LABELS, NUMBERS)))
def test_an_unlocked_histogram_exports_the_same_as_a_histogram(
    seen: list[tuple[str, float]],
) -> None:
    own, reference = CollectorRegistry(), CollectorRegistry()
    unlocked = UnlockedHistogram("latency", "Latency.", "client", BOUNDS, own)
    histogram = Histogram("latency", "Latency.", ["client"], buckets=BOUNDS, registry=reference)
    for client, seconds in seen:
        unlocked.add(client, seconds)
        histogram.labels(client).observe(seconds)
    assert sorted(scrape(own), key=str) == sorted(scrape(reference), key=str)
