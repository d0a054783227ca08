"""Whom a taint of devices evicts: the decisions of the device taint eviction controller."""

from typing import Any

from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device import Taint
from drawbridge.dra.taints import DeviceTaintRule, TaintSelector
from drawbridge.ledger.evictions import find_tainted_pods
from drawbridge.ledger.pods import Pod, pod_reader
from tests.tables import every_row

TAINT = Taint("broken", "NoExecute", "yes")
ALL = TaintSelector(driver="d.io")


def pod(name: str = "a", node: str = "n1", claims: tuple[str, ...] = ("c",)) -> Pod:
    read = pod_reader().read(
        {
            "metadata": {"name": name, "namespace": "t", "uid": name},
            "spec": {
                "nodeName": node,
                "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
            },
        }
    )
    assert isinstance(read, Pod)
    return read


def claim(*tolerations: dict[str, Any], users: tuple[str, ...] = ("a",), **more: object) -> Claim:
    result = {"request": "r", "driver": "d.io", "pool": "p", "device": "x", **more}
    read = read_claim(
        {
            "metadata": {"name": "c", "namespace": "t", "uid": "c"},
            "spec": {"devices": {"requests": []}},
            "status": {
                "allocation": {"devices": {"results": [{**result, "tolerations": tolerations}]}},
                "reservedFor": [{"resource": "pods", "name": each, "uid": each} for each in users],
            },
        }
    )
    assert isinstance(read, Claim)
    return read


def tolerate(effect: str = "NoExecute", **more: object) -> dict[str, Any]:
    return {"key": "broken", "operator": "Exists", "effect": effect, **more}


NEVER = None


@every_row(
    ("name", "claims", "pods", "selector", "taint", "expected"),
    [
        ("at once", [claim()], [pod()], ALL, TAINT, [("t/a", 0)]),
        ("other driver", [claim()], [pod()], TaintSelector(driver="e.io"), TAINT, []),
        ("its pool", [claim()], [pod()], TaintSelector(pool="p"), TAINT, [("t/a", 0)]),
        ("other device", [claim()], [pod()], TaintSelector(device="y"), TAINT, []),
        ("an empty selector selects all", [claim()], [pod()], TaintSelector(), TAINT, [("t/a", 0)]),
        ("no selector selects none", [claim()], [pod()], None, TAINT, []),
        ("NoSchedule evicts nobody", [claim()], [pod()], ALL, Taint("a", "NoSchedule"), []),
        ("tolerated", [claim(tolerate())], [pod()], ALL, TAINT, [("t/a", NEVER)]),
        ("without an effect", [claim(tolerate(""))], [pod()], ALL, TAINT, [("t/a", 0)]),
        ("of another effect", [claim(tolerate("NoSchedule"))], [pod()], ALL, TAINT, [("t/a", 0)]),
        ("for a time", [claim(tolerate(tolerationSeconds=60))], [pod()], ALL, TAINT, [("t/a", 60)]),
        (
            "the shortest time",
            [claim(tolerate(tolerationSeconds=60), tolerate(tolerationSeconds=-5))],
            [pod()], ALL, TAINT, [("t/a", 0)],
        ),
        (
            "for ever beside a time",
            [claim(tolerate(tolerationSeconds=60), tolerate())],
            [pod()], ALL, TAINT, [("t/a", NEVER)],
        ),
        ("admin access", [claim(adminAccess=True)], [pod()], ALL, TAINT, [("t/a", 0)]),
        ("an extended resource", [claim()], [pod(claims=())], ALL, TAINT, [("t/a", NEVER)]),
        ("without a node", [claim()], [pod(node="")], ALL, TAINT, []),
        ("reserved for another", [claim(users=("b",))], [pod()], ALL, TAINT, []),
        (
            "two users", [claim(users=("a", "b"))], [pod(), pod("b")], ALL, TAINT,
            [("t/a", 0), ("t/b", 0)],
        ),
    ],
)  # fmt: skip
def test_who_is_evicted_and_when(  # noqa: PLR0917  # the columns
    name: str,
    claims: list[Claim],
    pods: list[Pod],
    selector: TaintSelector | None,
    taint: Taint,
    expected: list[tuple[str, int | None]],
) -> None:
    rule = DeviceTaintRule("r", taint, selector)
    tainted = find_tainted_pods([rule], claims, pods, "1.36")
    assert [(each.pod.full_name, each.seconds) for each in tainted] == expected, name


def test_the_device_that_evicts_first_counts() -> None:
    rules = [
        DeviceTaintRule("r", TAINT, ALL),
        DeviceTaintRule("s", Taint("other", "NoExecute"), ALL),
    ]
    claims = [claim(tolerate(tolerationSeconds=60))]
    (tainted,) = find_tainted_pods(rules, claims, [pod()], "1.36")
    assert (tainted.taint.key, tainted.seconds) == ("other", 0)


def test_since_1_37_pods_are_found_by_the_claims_of_their_extended_names() -> None:
    rule = DeviceTaintRule("r", TAINT, ALL)
    for version, seconds in (("1.34", NEVER), ("1.36", NEVER), ("1.37", 0)):
        (tainted,) = find_tainted_pods([rule], [claim()], [pod(claims=())], version)
        assert (tainted.seconds, tainted.by_name) == (seconds, seconds is NEVER), version
