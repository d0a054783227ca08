"""The inputs of the last minutes, which the guard respects."""

from drawbridge.agreement.published_facts import FactsConfigMap, build_data_key
from drawbridge.config.model import Configuration, Placement, Rollout, Scope
from drawbridge.facts import serialized
from drawbridge.facts.model import Cluster, Facts
from webhook.server.recent_state import RecentState, RecentValues

FIRST = Configuration()
SECOND = Configuration(scope=Scope(rollout=Rollout(percent=10)))
THIRD = Configuration(placement=Placement.BRIDGE)


class Seconds:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_replaced_value_counts_until_the_window_ends() -> None:
    clock = Seconds()
    values = RecentValues(FIRST, 300, clock)
    values.set(SECOND)
    clock.now += 200
    values.set(THIRD)
    values.set(SECOND)
    assert values.recent() == (SECOND, THIRD, FIRST)
    clock.now += 101
    assert values.recent() == (SECOND, THIRD)
    clock.now += 300
    assert values.recent() == (SECOND,)


def test_an_equal_value_is_no_change() -> None:
    values = RecentValues(FIRST, 300, Seconds())
    values.set(Configuration())
    assert values.recent() == (FIRST,)


def test_the_number_of_values_is_bounded() -> None:
    values = RecentValues(0, 300, Seconds())
    for number in range(1, 1000):
        values.set(number)
    assert len(values.recent()) == 65


def test_a_new_process_is_incomplete_for_the_length_of_the_window() -> None:
    clock = Seconds()
    state = RecentState(FIRST, 300, clock)
    clock.now += 1000
    assert not state.read(FactsConfigMap()).is_complete, "the caches are not synced yet"
    state.start()
    clock.now += 299
    state.start()
    assert not state.read(FactsConfigMap()).is_complete
    clock.now += 1
    assert state.read(FactsConfigMap()).is_complete


def test_all_kept_facts_are_read() -> None:
    versions = (Facts(cluster=Cluster(version="1.35")), Facts(cluster=Cluster(version="1.36")))
    data = {
        build_data_key(serialized.facts_hash(version)): serialized.encode_facts(version).decode()
        for version in versions
    }
    state = RecentState(FIRST)
    published = FactsConfigMap({**data, "current": "x", "facts-broken.json": "{"})
    facts = state.read(published).facts
    assert len(facts) == 2
    assert all(each in versions for each in facts)
    assert state.read(published).facts is facts
