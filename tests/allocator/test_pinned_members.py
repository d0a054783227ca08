"""Gangs whose members have hosts or domains, as Kueue and JobSet assign them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from allocator.decisions import member_nodes
from allocator.decisions.member_nodes import MAX_EXPRESSIONS, MAX_KINDS, MemberNodes
from allocator.decisions.shortlist import NodeSearch
from allocator.scheduler.protocol import GroupMember, GroupReference, PreFilterGroupRequest
from drawbridge.agreement import allocator_codes
from drawbridge.dra.nodes import Node
from drawbridge.ledger.pods import NodeAffinity
from tests.allocator.clusters import Cluster, ask_group, claim, codes
from tests.tables import every_row

HOST, RACK = "kubernetes.io/hostname", "rack"
MANY = MAX_KINDS + 4
# All nodes have these.
COMMON = {f"k{number}": "v" for number in range(MANY)}
# The fields of the pod of each member.
Fields: TypeAlias = Callable[[int], Mapping[str, Any]]


def make_cluster(nodes: int) -> Cluster:
    """Return nodes with one device and a host of another name each, two in a rack."""
    cluster = Cluster(**{f"n{number}": 1 for number in range(nodes)})
    for number in range(nodes):
        labels = {HOST: f"h{number}", RACK: f"r{number // 2}", **COMMON}
        cluster.add(Node(f"n{number}", labels))
    return cluster


def selector(**labels: str) -> Mapping[str, Any]:
    """Return the fields of a pod with a node selector."""
    return {"node_selector": {HOST if key == "host" else key: labels[key] for key in labels}}


def by_name(number: int) -> Mapping[str, Any]:
    """Return the fields of a pod with its node in the required affinity."""
    field = {"key": "metadata.name", "operator": "In", "values": [f"n{number}"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"node_affinity": msgspec.convert({key: required}, NodeAffinity)}


def ask(cluster: Cluster, fields: Fields, members: int) -> tuple[bool, Sequence[str]]:
    """Return whether a gang with one device for each member fits, and why not."""
    asking = tuple(
        GroupMember(
            pod=replace(cluster.pod(f"m{number}"), **fields(number)),
            claims=(Raw(msgspec.json.encode(claim(f"c-m{number}"))),),
        )
        for number in range(members)
    )
    group = GroupReference(key="default/g", min_count=members)
    request = PreFilterGroupRequest(pod_uid="m0", group=group, members=asking)
    reply = ask_group(cluster.decisions, request, 0.0)
    return bool(reply.fit), codes(reply)


VARIED, LARGE = allocator_codes.GANG_TOO_VARIED.name, allocator_codes.GANG_TOO_LARGE.name
# How many members there are, what their pods say, and why they do not fit.
GANGS: dict[str, tuple[int, Fields, str]] = {
    "a host each": (MANY, lambda number: selector(host=f"h{number}"), ""),
    "two in a rack": (2 * MANY, lambda number: selector(rack=f"r{number // 2}"), ""),
    "host and rack": (MANY, lambda n: selector(host=f"h{n}", rack=f"r{n // 2}"), ""),
    "a name each": (MAX_EXPRESSIONS + 1, by_name, ""),
    "one without a host": (MANY, lambda number: selector(host=f"h{number}") if number else {}, ""),
    "many and one without": (
        70,
        lambda n: selector(**{"host": f"h{n}"} if n < 69 else {"k0": "v"}),
        "",
    ),
    "a host of another rack": (
        MANY,
        lambda n: selector(host=f"h{n}", rack="r0" if n == MANY - 1 else f"r{n // 2}"),
        LARGE,
    ),
    "a host without a node": (MANY, lambda number: selector(host=f"h{number or 'none'}"), LARGE),
    "more labels than are read": (2, lambda number: selector(**COMMON, host=f"h{number}"), ""),
    "labels of all nodes": (MANY, lambda number: selector(**{f"k{number}": "v"}), VARIED),
    "one host for all": (MANY, lambda number: selector(host="h0", **{f"k{number}": "v"}), VARIED),
}


@every_row("case", GANGS)
def test_members_with_hosts_are_as_many_as_fit(case: str) -> None:
    members, fields, reason = GANGS[case]
    fits, told = ask(make_cluster(members), fields, members)
    assert (fits, reason in told or not reason) == (not reason, True), told


def test_what_is_kept_for_a_gang_with_hosts_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_nodes, "_FEWEST_NODES", 0)
    cluster = make_cluster(MAX_KINDS**2 + 1)
    searches = [
        NodeSearch(pod=replace(cluster.pod("m"), **selector(host=f"h{number}")), claims=())
        for number in range(MAX_KINDS**2 + 1)
    ]
    nodes = MemberNodes(cluster.state)
    assert not nodes.find_problem(searches[:-1])
    assert nodes.find_problem(searches)
