"""Whether the scheduler of bridge placement runs, by the Lease that it renews every two seconds."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

# Four times the duration of the Lease: a rollout or a change of the leader takes less.
PATIENCE_SECONDS: Final = 60.0


def is_scheduler_missing(lease: Mapping[str, Any] | None, now: float) -> bool:
    """Return whether nothing has renewed the Lease for a minute; `now` is a Unix time.

    The time in the Lease is that of another machine, so this answers a person only.
    The holder does not count: a scheduler that ends releases the Lease, and another one takes it.
    """
    renewed = last_renewal(lease)
    return renewed is None or now - renewed > PATIENCE_SECONDS


def last_renewal(lease: Mapping[str, Any] | None) -> float | None:
    """Return when a Lease was last renewed, as Unix time; None if it never was."""
    spec = (lease or {}).get("spec")
    text = spec.get("renewTime") if isinstance(spec, Mapping) else None
    try:
        return dt.datetime.fromisoformat(f"{text}").timestamp()
    except ValueError:
        return None
