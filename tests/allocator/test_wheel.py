"""The times at which something is due: none comes early, late, twice or after it was removed."""

from hypothesis import given
from hypothesis import strategies as st

from allocator.state.wheel import Wheel

keys = st.sampled_from("abc")
times = st.integers(0, 9)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), keys, st.one_of(st.none(), times)),
        st.tuples(st.just("take"), st.just(""), times),
    )
)


@given(steps)
def test_a_wheel_is_a_list_of_times(given_steps: list[tuple[str, str, int | None]]) -> None:
    wheel: Wheel[str] = Wheel()
    expected: dict[str, int] = {}
    for step, key, at in given_steps:
        if step == "set":
            wheel.set("kind", key, at)
            expected = {each: time for each, time in expected.items() if each != key}
            expected |= {} if at is None else {key: at}
        elif at is not None:
            due = [
                each for each in sorted(expected, key=expected.__getitem__) if expected[each] <= at
            ]
            assert sorted(wheel.take("kind", at)) == sorted(due)
            assert wheel.take_first("kind", at) is None
            expected = {each: time for each, time in expected.items() if each not in due}
        assert wheel.next("kind") == min(expected.values(), default=None)
        assert wheel.next("other") is None
