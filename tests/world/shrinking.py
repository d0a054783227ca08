"""Finds the fewest events of a script that break the same invariant."""

from dataclasses import replace

from tests.world.world import Outcome, play


def shrink(outcome: Outcome) -> Outcome:
    """Return the run with the fewest events that breaks the same invariant, found by halves."""
    broken = outcome.violation.partition(":")[0]
    best = replace(outcome, script=outcome.script[: outcome.happened])
    size = max(1, len(best.script) // 2)
    while size:
        before, at = best, 0
        while at < len(best.script):
            kept = best.script[:at] + best.script[at + size :]
            tried = play(outcome.seed, kept, outcome.defects)
            if tried.violation.partition(":")[0] == broken:
                best = tried
            else:
                at += size
        # One that had to stay can go once others went.
        if size > 1 or best is before:
            size //= 2
    return best
