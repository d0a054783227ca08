"""Tests of the conflicts of one claim: what another writer allocated, and no driver may refuse."""

from functools import partial

from msgspec.structs import replace

from drawbridge.dra.allocation import ClaimStatus
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import NodeSelector, NodeSelectorTerm, Requirement
from drawbridge.dra.inventory import build_inventory, find_published_pool
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.ledger.conflicts import find_conflicts
from drawbridge.ledger.ledger import Ledger
from tests.ledger.claims import DRIVER, allocation, claim
from tests.tables import every_row

GPU, PART = {"memory": {"value": "40Gi"}}, {"memory": {"value": "5Gi"}}


def of_node(node: str) -> list[Slice]:
    """A GPU, two of its partitions, a device that hands out shares, and a plain one."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    base = {"driver": DRIVER, "nodeName": node, "pool": pool}
    draws = {"gpu": GPU, "part-0": PART, "part-1": PART}
    devices = [
        {"name": name, "consumesCounters": [{"counterSet": "set", "counters": counters}]}
        for name, counters in draws.items()
    ]
    shared = {
        "name": "shared",
        "allowMultipleAllocations": True,
        "capacity": {"bandwidth": {"value": "10G"}},
    }
    specs = [
        {**base, "devices": [*devices, shared, {"name": "plain"}]},
        {**base, "sharedCounters": [{"name": "set", "counters": GPU}]},
    ]
    read = [
        read_slice({"metadata": {"name": f"{node}-{number}"}, "spec": spec})
        for number, spec in enumerate(specs)
    ]
    return [each for each in read if isinstance(each, Slice)]


INVENTORY = build_inventory([*of_node("a"), *of_node("b")])
find_pool = partial(find_published_pool, INVENTORY)


def on_node(name: str, uid: str, *results: str) -> Claim:
    term = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", (name,)),))
    held = replace(allocation(*results), node_selector=NodeSelector((term,)))
    return replace(claim(uid, 1), status=ClaimStatus(allocation=held))


def conflicts(*held: str, node: str = "a") -> list[tuple[str, str]]:
    """The conflicts of the last claim; spaces separate the results of a claim."""
    ledger = Ledger()
    for number, results in enumerate(held):
        ledger.observe(on_node(node, f"{number}", *results.split()))
    conflicts = find_conflicts(ledger, find_pool, f"{len(held) - 1}")
    return [(each.code, each.message) for each in conflicts]


@every_row(
    ("held", "codes"),
    [
        (["a/plain"], []),
        (["a/plain", "b/plain!"], []),
        (["a/plain", "a/plain"], ["DeviceHeldTwice"]),
        (["a/plain", "a/plain!"], []),
        # the whole GPU under a partition of it, and the reverse
        (["a/part-0", "a/part-1"], []),
        (["a/part-0", "a/gpu"], ["CounterOverdrawn"]),
        (["a/gpu", "a/part-1"], ["CounterOverdrawn"]),
        (["a/part-0", "b/gpu"], ["DeviceOfOtherNode"]),
        (["a/part-0 a/gpu", "a/plain"], []),
        # shares
        (["a/shared:1=4G", "a/shared:2=4G"], []),
        (["a/shared:1=4G", "a/shared:1=4G"], ["DeviceHeldTwice"]),
        (["a/shared:1=6G", "a/shared:2=6G"], ["CapacityExceeded"]),
        (["a/shared:1=6G", "a/shared"], ["DeviceHeldTwice"]),
        (["a/shared:1=1G a/shared:2=1G", "a/shared:1=1G a/shared:2=1G"], ["DeviceHeldTwice"] * 2),
        (["a/shared", "a/shared:1=1G a/shared:2=1G"], ["DeviceHeldTwice"]),
        # a pool of another node
        (["b/plain"], ["DeviceOfOtherNode"]),
        (["elsewhere/plain"], []),
    ],
)
def test_conflicts_of_a_claim_are_found(held: list[str], codes: list[str]) -> None:
    assert [code for code, _ in conflicts(*held)] == codes


def test_messages_name_claims_shares_and_nodes() -> None:
    twice = [("DeviceHeldTwice", "share 1 is held by default/claim-0 and default/claim-1")]
    assert conflicts("a/shared:1=1G", "a/shared:1=1G") == twice
    first = ", ".join(f"default/claim-{number}" for number in range(4))
    many = [("DeviceHeldTwice", f"held by {first} and more claims")]
    assert conflicts(*["a/plain"] * 6) == many
    elsewhere = "the claim is allocated for node a, but pool b is of node b"
    assert conflicts("b/plain") == [("DeviceOfOtherNode", elsewhere)]


def test_a_claim_without_an_allocation_has_no_conflicts() -> None:
    ledger = Ledger()
    ledger.observe(on_node("a", "0", "a/plain"))
    ledger.observe(claim("1", 1))
    assert not [*find_conflicts(ledger, find_pool, "1"), *find_conflicts(ledger, find_pool, "2")]


def test_the_last_user_of_a_share_has_no_conflict_when_the_others_are_gone() -> None:
    ledger = Ledger()
    for number in range(3):
        ledger.observe(on_node("a", f"{number}", "a/shared:1=1G"))
    ledger.observe_deletion("0")
    assert [each.code for each in find_conflicts(ledger, find_pool, "2")] == ["DeviceHeldTwice"]
    ledger.observe_deletion("1")
    assert not [*find_conflicts(ledger, find_pool, "2")]


def test_a_message_about_many_claims_stays_equal_while_further_ones_come() -> None:
    assert conflicts(*["a/plain"] * 6) == conflicts(*["a/plain"] * 9)
