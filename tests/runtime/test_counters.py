"""Counters read when somebody looks say what those of the library would."""

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.parser import text_string_to_metric_families

from runtime.counters import Tally, Times

BOUNDS = (0.0005, 0.01, 0.25, 1, 5)
LABELS = st.sampled_from(["pods", "workloads", 'a"b\\c', ""])
NUMBERS = st.sampled_from([*BOUNDS, 0.0, 7.0]) | st.floats(0, 10)


def shown(registry: CollectorRegistry) -> list[tuple[str, dict[str, str], float]]:
    """Read what a scrape would get, but for the times at which the library's were made."""
    text = prometheus_client.generate_latest(registry).decode()
    return [
        (sample.name, sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]


@given(st.lists(st.tuples(LABELS, LABELS)))
def test_a_tally_is_a_counter(seen: list[tuple[str, str]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Tally("asked", "Asked.", ["who", "what"], ours)
    counter = Counter("asked", "Asked.", ["who", "what"], registry=theirs)
    for who, what in seen:
        tally.add(who, what)
        counter.labels(who, what).inc()
    assert shown(ours) == shown(theirs)


@given(st.lists(st.tuples(LABELS, NUMBERS)))
def test_times_are_a_histogram(seen: list[tuple[str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    times = Times("took", "Took.", "who", BOUNDS, ours)
    histogram = Histogram("took", "Took.", ["who"], buckets=BOUNDS, registry=theirs)
    for who, seconds in seen:
        times.add(who, seconds)
        histogram.labels(who).observe(seconds)
    assert sorted(shown(ours), key=str) == sorted(shown(theirs), key=str)
