"""The scheduler runs while its Lease is renewed, whoever holds it."""

from typing import Any

from drawbridge.agreement.scheduler_lease import is_scheduler_missing
from tests.tables import every_row

RENEWED = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def lease(**spec: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    return {"metadata": {"name": "drawbridge-scheduler"}, "spec": spec}


@every_row(
    ("live", "age", "missing"),
    [
        (None, 0, True),
        (lease(), 0, True),
        (lease(renewTime=None), 0, True),
        (lease(renewTime="soon"), 0, True),
        (lease(renewTime="2027-01-15T08:00:00.000000Z", holderIdentity="a"), 0, False),
        (lease(renewTime="2027-01-15T08:00:00.000000Z", holderIdentity=""), 59, False),
        (lease(renewTime="2027-01-15T08:00:00.000000Z", holderIdentity="a"), 61, True),
        (lease(renewTime="2027-01-15T08:00:00.000000Z", holderIdentity="a"), -3600, False),
    ],
)
def test_a_lease_that_was_renewed_within_a_minute_shows_a_scheduler(
    live: dict[str, Any] | None, age: float, missing: object
) -> None:
    assert is_scheduler_missing(live, RENEWED + age) is missing
