"""Where our answer is not that of Kubernetes 1.37's allocator, each with its reason.

Everything else is meant to be equal. `UPSTREAM` turns all of them off: that is what the stock
scheduler will do, wrong or not, and what a comparison with it is made with.
"""

import msgspec

from dra.counters import Counters, Draw


class Deviations(msgspec.Struct, frozen=True):
    """Each field is one deviation; on is our answer, off is upstream's."""

    # kubernetes#140729: upstream lets a request with admin access need free counters and hold them
    # during the search. Admin access is for devices that others use, whose counters they hold
    # already; it takes nothing from anybody, so it needs nothing.
    admin_draws_nothing: bool = True
    # kubernetes#140802: upstream counts what allocated devices draw, and their groups, by what is
    # published now, so that a driver that edits its slices over-commits the hardware. Where a
    # snapshot was kept at allocation, we count the stricter of both.
    snapshots_count: bool = True
    # Unnumbered: an over-committed counter refuses all devices of the pool that draw from any
    # counter. Sets stand for separate hardware, so we refuse those that draw from the same set.
    overdraft_stays_in_its_set: bool = True
    # Unnumbered: mode All with a constraint that does not hold aborts the pod, even where another
    # node, an earlier request's next device or another alternative would do. We go back and try.
    all_goes_back: bool = True
    # Unnumbered: a chosen device whose node selector has several terms aborts the finished
    # allocation. The node at hand satisfies the selector, so we bind the allocation to it.
    several_terms_bind: bool = True


OURS = Deviations()
UPSTREAM = Deviations(
    admin_draws_nothing=False,
    snapshots_count=False,
    overdraft_stays_in_its_set=False,
    all_goes_back=False,
    several_terms_bind=False,
)


def concerning(counters: Counters, drawn: Draw) -> Counters:
    """Leave of the over-committed counters those in sets that a device draws from."""
    if not counters.overdrawn:
        return counters
    sets = {key[0] for key in drawn}
    return Counters(counters.left, frozenset(k for k in counters.overdrawn if k[0] in sets))
