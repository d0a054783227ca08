"""What a search that found nothing has to look at again."""

from allocator.state.change_log import _MOST_NAMES, ChangeLog


def test_a_search_looks_only_at_the_nodes_that_changed_since() -> None:
    log = ChangeLog()
    log.add("a")
    seen = log.last
    log.add_listed("b")
    log.add("c")
    assert log.changed_since(seen) == {"b", "c"}
    log.add(None)
    assert log.changed_since(seen) is None


def test_nodes_of_ever_new_names_are_forgotten_and_then_all_are_looked_at() -> None:
    log, before = ChangeLog(), 0
    for number in range(_MOST_NAMES + 1):
        log.add_listed(f"n{number}")
    assert log.changed_since(before) is None
    seen = log.last
    log.add("a")
    assert log.changed_since(seen) == {"a"}
    assert log.of_offers == log.last
