"""Tests of the conflicts of one claim: what another writer allocated, and no driver may refuse."""

from functools import partial

from msgspec.structs import replace

from drawbridge.dra.allocation import ClaimStatus
from drawbridge.dra.claim import Claim
from drawbridge.dra.device import NodeSelector, NodeSelectorTerm, Requirement
from drawbridge.dra.inventory import build_inventory, find_published_pool
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.ledger.allocation_mark import format_mark, make_mark
from drawbridge.ledger.conflicts import (
    MAX_HOLDERS,
    abridge_finding,
    describe_conflict,
    find_conflicts,
    find_exceeded,
    find_rival,
)
from drawbridge.ledger.ledger import Ledger, Reservation
from drawbridge.names import ALLOCATION_ANNOTATION
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
    return [(each.finding.code, each.finding.message) for each in conflicts]


@every_row(
    ("held", "code"),
    [
        (["a/plain"], None),
        (["a/part-0", "a/part-1"], None),
        (["a/part-0", "a/gpu"], "CounterOverdrawn"),
        (["a/plain", "a/part-0 a/gpu"], "CounterOverdrawn"),
        (["a/part-0 a/gpu", "a/plain"], None),
        (["a/gpu", "b/part-0"], None),
        (["a/shared:1=4G", "a/shared:2=4G"], None),
        (["a/shared:1=6G", "a/shared:2=6G"], "CapacityExceeded"),
        (["a/shared:1=6G", "a/plain b/shared:2=6G"], None),
        (["elsewhere/plain", "a/gone"], None),
    ],
)
def test_what_is_reserved_exceeds_its_pools(held: list[str], code: str | None) -> None:
    """Of several claims, the first is allocated or reserved itself; the last one is asked about."""
    for reserves_all in (False, True):
        ledger = Ledger()
        for number, results in enumerate(held):
            uid, whole = f"{number}", allocation(*results.split())
            ledger.observe(claim(uid, 1))
            if reserves_all or number == len(held) - 1:
                ledger.assume({uid: Reservation(whole)})
            else:
                ledger.observe(replace(claim(uid, 2), status=ClaimStatus(allocation=whole)))
        finding = find_exceeded(ledger, find_pool, [f"{len(held) - 1}"])
        assert (finding and finding.code) == code


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


@every_row(
    ("namespaces", "results", "text"),
    [
        ("aa", "a/plain", "held by a/claim-0 and a/claim-1"),
        ("ab", "a/plain", "held by a/claim-0 and a claim of another namespace"),
        ("bab", "a/plain", "held by a/claim-1 and 2 claims of other namespaces"),
        ("ab", "a/shared:1=1G", "share 1 is held by a/claim-0 and a claim of another namespace"),
        (
            "bcaabb",
            "a/plain",
            "held by a/claim-2, a/claim-3, 2 claims of other namespaces and more",
        ),
        ("bbbbaa", "a/plain", "held by 4 claims of other namespaces and more"),
    ],
)
def test_a_message_for_one_namespace_names_no_claim_of_others(
    namespaces: str, results: str, text: str
) -> None:
    ledger = Ledger()
    for number, namespace in enumerate(namespaces):
        held = on_node("a", f"{number}", results)
        ledger.observe(replace(held, metadata=replace(held.metadata, namespace=namespace)))
    (conflict,) = find_conflicts(ledger, find_pool, "0")
    message = abridge_finding(conflict, ledger, "a").message
    assert message.removesuffix(" claims" if len(namespaces) > 4 else "") == text


def test_a_message_without_claims_is_the_same_for_each_namespace() -> None:
    ledger = Ledger()
    for number, results in enumerate(("a/part-0", "a/gpu")):
        ledger.observe(on_node("a", f"{number}", results))
    (conflict,) = find_conflicts(ledger, find_pool, "1")
    assert abridge_finding(conflict, ledger, "other") == conflict.finding


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
    (twice,) = find_conflicts(ledger, find_pool, "2")
    assert twice.finding.code == "DeviceHeldTwice"
    ledger.observe_deletion("1")
    assert not [*find_conflicts(ledger, find_pool, "2")]


def test_a_message_about_many_claims_stays_equal_while_further_ones_come() -> None:
    assert conflicts(*["a/plain"] * 6) == conflicts(*["a/plain"] * 9)


# --- who yields ---


def observe(ledger: Ledger, uid: str, text: str) -> None:
    """Add a claim: `ours ...` has the mark of our allocator, `forged ...` one of other devices."""
    who, *results = text.split()
    held = on_node("a", uid, *results)
    of = {"ours": results, "forged": ["a/other"], "theirs": []}[who]
    if of:
        mark = format_mark(make_mark(allocation(*of), lambda _pool, _device: ()))
        metadata = replace(held.metadata, annotations={ALLOCATION_ANNOTATION: mark})
        held = replace(held, metadata=metadata)
    ledger.observe(held)


def yielding(held: list[str], changed: str, in_use: str = "") -> dict[str, str]:
    """Return which claims yield to which after the change of one."""
    ledger = Ledger()
    for number, text in enumerate(held):
        observe(ledger, f"{number}", text)
    rivals: dict[str, str] = {}
    for conflict in find_conflicts(ledger, find_pool, changed):
        for uid in ledger.claims:
            rival = find_rival(
                conflict, ledger, uid, in_use.__contains__, lambda each: ledger.claims[each].ours
            )
            rivals |= {uid: rival} if rival else {}
    return rivals


@every_row(
    ("held", "expected"),
    [
        # one whole device: ours yields, whichever was written first
        (["ours a/plain", "theirs a/plain"], {"0": "1"}),
        (["theirs a/plain", "ours a/plain"], {"1": "0"}),
        (["ours a/plain", "theirs a/part-0"], {}),
        # not an allocation of ours: nobody wrote a mark, or it is of other devices
        (["theirs a/plain", "theirs a/plain"], {}),
        (["forged a/plain", "theirs a/plain"], {}),
        # two of ours are a bug or a driver's change, for which nothing is undone
        (["ours a/plain", "ours a/plain"], {}),
        # admin access holds nothing
        (["ours a/plain", "theirs a/plain!"], {}),
        (["ours a/plain!", "theirs a/plain"], {}),
        # several of ours and of theirs
        (["ours a/plain", "ours a/plain", "theirs a/plain"], {"0": "2", "1": "2"}),
        (["ours a/plain", "theirs a/plain", "theirs a/plain"], {"0": "1"}),
        # shares: of one identity, of more than there is, and under a whole device
        (["ours a/shared:1=4G", "theirs a/shared:2=4G"], {}),
        (["ours a/shared:1=4G", "theirs a/shared:1=4G"], {"0": "1"}),
        (["ours a/shared:1=6G", "theirs a/shared:2=6G"], {"0": "1"}),
        (
            ["ours a/shared:1=3G", "ours a/shared:2=3G", "theirs a/shared:3=6G"],
            {"0": "2", "1": "2"},
        ),
        (["ours a/shared", "theirs a/shared:1=1G"], {"0": "1"}),
        (["ours a/shared:1=1G", "theirs a/shared"], {"0": "1"}),
        # counters: a partition under the whole GPU
        (["ours a/part-0", "theirs a/gpu"], {"0": "1"}),
        (["ours a/gpu", "theirs a/part-1"], {"0": "1"}),
        (["ours a/part-0", "theirs a/part-1"], {}),
        (["ours a/part-0", "ours b/part-0", "theirs a/gpu"], {"0": "2"}),
        # one of two devices is enough
        (["ours a/part-0 a/plain", "theirs a/plain"], {"0": "1"}),
        # an allocation for another node contradicts no claim
        (["ours b/plain", "theirs a/plain"], {}),
    ],
)
def test_only_ours_yields_to_what_another_allocator_wrote(
    held: list[str], expected: dict[str, str]
) -> None:
    taking_part = expected.keys() | expected.values() or {"0", "1"}
    for changed in sorted(taking_part):
        assert yielding(held, changed) == expected, changed


def test_nothing_yields_while_a_pod_uses_it() -> None:
    assert not yielding(["ours a/plain", "theirs a/plain"], "1", in_use="0")
    three = ["ours a/plain", "ours a/plain", "theirs a/plain"]
    assert yielding(three, "2", in_use="0") == {"1": "2"}


def test_ours_is_named_first_and_another_claim_beside_it() -> None:
    ledger = Ledger()
    for uid, text in {"0": "theirs a/plain", "1": "ours a/plain", "2": "theirs a/plain"}.items():
        observe(ledger, uid, text)
    (conflict,) = find_conflicts(ledger, find_pool, "2")
    line = describe_conflict(conflict, ledger)
    assert line == (
        "DeviceHeldTwice",
        f"Device/{DRIVER}/a/plain",
        "default/claim-1",
        "default/claim-2",
    )
    for uid in "012":
        ledger.observe_deletion(uid)
    assert describe_conflict(conflict, ledger)[2:] == ("", "")


def test_a_claim_of_others_takes_part_beside_thousands_of_ours() -> None:
    ledger = Ledger()
    for number in range(100):
        observe(ledger, f"{number}", "ours a/plain")
    observe(ledger, "rival", "theirs a/plain")
    (conflict,) = find_conflicts(ledger, find_pool, "50")
    assert conflict.holders[:2] == ("rival", "50")
    assert len(conflict.holders) == MAX_HOLDERS
