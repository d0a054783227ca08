"""Unlocked counters and histograms export the same values as those of prometheus_client."""

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families

from drawbridge.process.counters import OTHER, UnlockedCounter, UnlockedHistogram

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


@given(st.lists(st.sampled_from("abcde")), st.integers(0, 4))
def test_a_label_has_so_many_values_and_then_other_and_the_sum_stays(
    seen: list[str], first_values: int
) -> None:
    registry = CollectorRegistry()
    counter = UnlockedCounter("n", "N.", ["namespace"], registry, first_values=first_values)
    for namespace in seen:
        counter.add(namespace)
    counts = {labels["namespace"]: value for _, labels, value in scrape(registry)}
    named = list(dict.fromkeys(seen))[:first_values]
    assert counts.keys() - {OTHER} == set(named)
    assert {name: counts[name] for name in named} == {name: seen.count(name) for name in named}
    assert sum(counts.values()) == len(seen)


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
