"""Deliberate differences from the allocator of Kubernetes 1.37, each with its reason.

Everything else must be equal. `UPSTREAM` turns all deviations off. The differential tests use it to
compare the solver with the stock scheduler.
"""

import enum

import msgspec

from drawbridge.dra.counters import ConsumedCounters, Counters


class Allocator(enum.StrEnum):
    """The allocator whose results the solver returns: kube-scheduler's, or Drawbridge's."""

    UPSTREAM = "upstream"
    DRAWBRIDGE = "drawbridge"


class Deviations(msgspec.Struct, frozen=True):
    """Each field is one deviation: true is our behavior, false is upstream's."""

    # kubernetes#140729: upstream requires free counters for a request with admin access and holds
    # them during the search. Admin access is for devices in use, whose counters are consumed
    # already, so it needs no counters.
    admin_draws_nothing: bool = True
    # kubernetes#140802: upstream reads the counters and groups of allocated devices from current
    # slices, so a driver that withdraws an allocated device over-commits the hardware. A snapshot
    # that was kept at allocation counts while the device is not published.
    snapshots_count: bool = True
    # Unnumbered: an over-committed counter rejects all devices of the pool that consume any
    # counter. Sets represent separate hardware, so we reject only devices on the same set.
    overdraft_stays_in_its_set: bool = True
    # Unnumbered: mode All with an unsatisfied constraint aborts the pod, even if another node,
    # another device of an earlier request or another alternative works. We backtrack.
    all_goes_back: bool = True
    # Unnumbered: a chosen device whose node selector has several terms aborts the finished
    # allocation. The current node satisfies the selector, so we bind the allocation to it.
    several_terms_bind: bool = True
    # Unnumbered: upstream has no rules about groups of devices. We obey those in the annotation
    # drawbridge.dev/rules of a claim.
    obeys_rules: bool = True
    # Unnumbered: an error in a selector on one device, or in the node selector of one slice, aborts
    # the pod. One bad slice stops the pods of everybody then. We use the other nodes. The solver
    # answers for each node alone, so this concerns the choice of a node.
    errors_stay_on_their_node: bool = True
    # Unnumbered: upstream does not read configurations. A few of them end the process of the driver
    # that prepares the claim, again and again, so we never allocate such a claim.
    spares_drivers: bool = True
    # Unnumbered: upstream looks only for results without shares. A driver that publishes a device
    # as a whole while claims have shares of it, gives it to one more claim. The device is held.
    shares_hold_device: bool = True
    # Unnumbered: upstream looks at counters for the first share of a device only. While others have
    # overdrawn them, it gives further shares. They would be prepared on the hardware of others.
    overdraft_blocks_shares: bool = True
    # Unnumbered: upstream chooses devices with any number of configurations. The API server refuses
    # an allocation with more than 64, as often as it is tried, so it is an error of the claim.
    limits_configurations: bool = True


OURS = Deviations()
UPSTREAM = Deviations(**dict.fromkeys(Deviations.__struct_fields__, False))


def relevant_overdrafts(counters: Counters, drawn: ConsumedCounters) -> Counters:
    """Keep only the over-committed counters in sets that a device consumes."""
    if not counters.over_committed:
        return counters
    sets = {key[0] for key in drawn}
    return Counters(
        counters.remaining, frozenset(k for k in counters.over_committed if k[0] in sets)
    )
