"""The places that are still to be visited: each once after a change, in order."""

from hypothesis import given
from hypothesis import strategies as st

from allocator.state.places_to_visit import PlacesToVisit
from allocator.state.records import WaitingPlace

uids = st.sampled_from("abcdef")
places = st.builds(WaitingPlace, st.integers(-2, 2), st.just(0.0), uids)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["move", "come"]), uids, st.one_of(st.none(), places)),
        st.tuples(st.sampled_from(["visit all", "take"]), st.just(""), st.none()),
    )
)


@given(steps)
def test_the_places_to_visit_are_a_sorted_set(
    given_steps: list[tuple[str, str, WaitingPlace | None]],
) -> None:
    visits = PlacesToVisit()
    at: dict[str, WaitingPlace] = {}
    expected: set[WaitingPlace] = set()
    reached = WaitingPlace(9, 0.0, "")
    for step, uid, place in given_steps:
        if step in {"move", "come"}:
            after = None if place is None else place._replace(uid=uid)
            expected.discard(at.get(uid, WaitingPlace(0, 0.0, "")))
            visits.move(at.pop(uid, None), after)
            if after is not None:
                at[uid] = after
                if step == "come":
                    visits.visit(after)
                if step == "come" or after > reached:
                    expected.add(after)
        elif step == "visit all":
            visits.visit_all()
            expected = set(at.values())
            reached = WaitingPlace(-9, 0.0, "")
        else:
            first = min(expected, default=None)
            assert visits.take() == first
            expected.discard(first or WaitingPlace(0, 0.0, ""))
            # The first one that came before the last one that was visited leaves that as it is.
            reached = WaitingPlace(9, 0.0, "") if first is None else max(reached, first)
        assert bool(visits) == bool(expected)
        assert visits.places == sorted(at.values())
