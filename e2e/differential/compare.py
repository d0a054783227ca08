"""What differs between two answers to one scenario, and the exceptions that are meant.

A difference is a kind and a sentence. The kinds are the words of the summary.
"""

import json
from typing import NamedTuple

from e2e.checker.pools import listed, section
from e2e.checker.quantities import Json

# Where our own answer is on purpose not upstream's: the field of
# `drawbridge.solver.deviations.Deviations` that makes the difference, and what upstream calls it.
# Nothing else may differ.
EXCEPTIONS = {
    "admin_draws_nothing": "kubernetes#140729",
    "snapshots_count": "kubernetes#140802",
    "overdraft_stays_in_its_set": "unnumbered: an over-committed counter blocks other sets",
    "all_goes_back": "unnumbered: All with a broken constraint aborts without going back",
    "several_terms_bind": "unnumbered: a node selector of several terms aborts after the search",
    "obeys_rules": "unnumbered: rules about groups of devices are unknown",
    "errors_stay_on_their_node": "unnumbered: an error on one node aborts the pod",
    "spares_drivers": "unnumbered: configurations that end a driver are allocated",
    "shares_hold_device": "unnumbered: a device with former shares is allocated as a whole",
    "overdraft_blocks_shares": "unnumbered: a device gives shares while its counters are overdrawn",
    "limits_configurations": "unnumbered: an allocation has too many configurations",
}
# How far an answer goes: an error for one node is "not this node" with a louder message.
SAME = {"node": "none"}


class Difference(NamedTuple):
    """One way in which two answers are not the same."""

    kind: str
    message: str


def plain(allocation: Json) -> Json:
    """An allocation without what is drawn at random: a share id only says that there is one."""
    out: Json = json.loads(json.dumps(allocation))
    for result in listed(section(out, "devices"), "results"):
        if "shareID" in result:
            result["shareID"] = "some"
    return out


def picked(allocation: Json) -> list[object]:
    """Which devices, for which requests."""
    names = ("request", "driver", "pool", "device")
    return [
        [one[name] for name in names] for one in listed(section(allocation, "devices"), "results")
    ]


def differences(ours: Json, theirs: Json) -> list[Difference]:
    """Compare the answers for one node."""
    mine, other = str(ours["verdict"]), str(theirs["verdict"])
    other = SAME.get(other, other)
    if mine != other:
        message = (
            f"we say {mine} ({ours.get('message', '')}), they {other} ({theirs.get('message', '')})"
        )
        return [Difference("feasibility", message)]
    out: list[Difference] = []
    pairs = zip(listed(ours, "allocations"), listed(theirs, "allocations"), strict=True)
    for a, b in ((plain(one), plain(two)) for one, two in pairs):
        if picked(a) != picked(b):
            out.append(Difference("devices", f"{picked(a)} instead of {picked(b)}"))
            continue
        if a.get("nodeSelector") != b.get("nodeSelector"):
            out.append(Difference("nodeSelector", f"{a} instead of {b}"))
        of_a, of_b = section(a, "devices"), section(b, "devices")
        if of_a.get("config") != of_b.get("config"):
            out.append(
                Difference("config", f"{of_a.get('config')} instead of {of_b.get('config')}")
            )
        if of_a.get("results") != of_b.get("results"):
            out.append(
                Difference("results", f"{of_a.get('results')} instead of {of_b.get('results')}")
            )
    return out
