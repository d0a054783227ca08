"""What the API server serves can change while a process runs."""

from collections.abc import Sequence

import pytest

from drawbridge.api_error import ApiError
from drawbridge.cluster.discovery import ASK_SECONDS, wait_until_changed

OTHER, SAME, FAILED = "v1", "v1beta2", None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("answers", "needed", "asked"),
    [
        ((OTHER, OTHER, OTHER), 3, 3),
        ((OTHER, OTHER, OTHER, OTHER), 4, 4),
        # Two API servers answer by turns.
        ((OTHER, SAME, OTHER, SAME, OTHER, OTHER, SAME, OTHER, OTHER, OTHER), 3, 10),
        ((OTHER, OTHER, FAILED, OTHER, OTHER, OTHER), 3, 6),
        ((SAME, SAME, SAME, SAME, OTHER, OTHER, OTHER), 3, 7),
        # Versions that follow each other are others, too.
        ((OTHER, "v2", "v2"), 3, 3),
    ],
)
async def test_enough_other_answers_in_a_row_show_that_something_else_is_served(
    answers: Sequence[str | None], needed: int, asked: int
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def find() -> str:
        answer = answers[len(pauses) - 1]
        if answer is None:
            raise ApiError(503)
        return answer

    assert await wait_until_changed(find, SAME, lambda: needed, pause) == answers[-1]
    assert len(pauses) == asked
    assert all(ASK_SECONDS[0] <= each <= ASK_SECONDS[1] for each in pauses)
