"""Checks whether an allocation is valid by the specification, without an allocator.

`check(scenario, node, allocations, expressions)` lists every broken rule by name. It checks
whether the allocation is allowed, not whether it is the best or the first. Where upstream is known
to refuse more than its rules say, the rules decide. Kubernetes' CEL (`expressions`) evaluates
selectors and derived attributes; everything else is written here.
"""

import copy
from collections.abc import Iterator

from e2e.checker.alike import check_constraints
from e2e.checker.asked import Asked, asked
from e2e.checker.chosen import Chosen, Cluster, amounts, check_device, check_wanted, find
from e2e.checker.claims import check_config, check_features, check_requests, results_of
from e2e.checker.expressions import Expressions
from e2e.checker.gates import gates
from e2e.checker.pools import listed, name_of, pools, section, spec_of
from e2e.checker.quantities import Json
from e2e.checker.reach import check_reach
from e2e.checker.together import DevicesInUse, check_counters, check_use, constraints_of, held
from e2e.checker.violation import BrokenRule

RULES = (
    "BindingConditionsOff", "CapacityExceeded", "CapacityRefuses", "ClassGone", "ConstraintBroken",
    "CountersExceeded", "CountersOff", "FeatureOff", "GroupsClash", "Held", "NodeLacksFeature",
    "NotAll", "NotServed", "OneAllocationPerClaim", "OtherNode", "OutOfOrder", "PoolIncomplete",
    "PoolInvalid", "SelectorRefuses", "ShareOff", "ShareRepeated", "Tainted", "TakenTwice",
    "TooManyResults", "TwoAlternatives", "TwiceInRequest", "UnknownDevice", "UnknownRequest",
    "WrongAmount", "WrongConfig", "WrongCopy", "WrongCount", "WrongNodeSelector", "WrongShare",
)  # fmt: skip  # a list of names


def tainted(slices: list[Json], rules: list[Json]) -> list[Json]:
    """Slices with the taints that rules add."""
    out = copy.deepcopy(slices)
    for entry in out:
        spec = spec_of(entry)
        for rule in map(spec_of, rules):
            if "deviceSelector" not in rule:
                continue
            selector = section(rule, "deviceSelector")
            for device in listed(spec, "devices"):
                facts = {
                    "driver": spec["driver"],
                    "pool": section(spec, "pool")["name"],
                    "device": device["name"],
                }
                if all(facts[name] == value for name, value in selector.items()):
                    device["taints"] = [*listed(device, "taints"), rule["taint"]]
    return out


def cluster_of(scenario: Json, name: str, expressions: Expressions) -> Cluster:
    """Take from a scenario what one node sees."""
    on = gates(scenario)
    node = next(node for node in listed(scenario, "nodes") if name_of(node) == name)
    rules = listed(scenario, "rules") if on["DRADeviceTaintRules"] else []
    visible = pools(tainted(listed(scenario, "slices"), rules), node, on)
    classes = {name_of(entry): entry for entry in listed(scenario, "classes")}
    return Cluster(node, on, classes, visible, expressions)


def check(
    scenario: Json, node: str, allocations: list[Json], expressions: Expressions
) -> list[BrokenRule]:
    """List what is wrong with the allocations of a scenario's claims on a node."""
    cluster = cluster_of(scenario, node, expressions)
    claims = listed(scenario, "claims")
    if len(claims) != len(allocations):
        return [BrokenRule("OneAllocationPerClaim", f"{len(allocations)} for {len(claims)} claims")]
    state = held(listed(scenario, "allocated"), shares=cluster.gates["DRAConsumableCapacity"])
    return list(replay(cluster, state, list(zip(claims, allocations, strict=True))))


def replay(
    cluster: Cluster, state: DevicesInUse, pairs: list[tuple[Json, Json]]
) -> Iterator[BrokenRule]:
    """Every claim by itself and after those before it."""
    for number, (claim, allocation) in enumerate(pairs):
        yield from check_features(claim, cluster.gates)
        yield from check_requests(claim, allocation)
        yield from check_config(claim, allocation, cluster.classes)
        devices: list[Chosen] = []
        requests = {one.name: one for one in asked(claim)}
        for result in results_of(allocation):
            if str(result["request"]) not in requests:
                continue
            chosen = find(cluster, result, requests[str(result["request"])])
            if isinstance(chosen, BrokenRule):
                yield chosen
                continue
            yield from check_device(cluster, chosen)
            yield from check_use(cluster, state, chosen, number)
            devices.append(chosen)
        yield from repeated(devices)
        yield from check_all(cluster, requests, devices)
        yield from check_constraints(cluster, constraints_of(claim), devices)
        yield from check_reach(cluster.node, allocation, devices)
    if cluster.gates["DRAPartitionableDevices"]:
        yield from check_counters(state)


def repeated(devices: list[Chosen]) -> Iterator[BrokenRule]:
    """No request takes a device twice, not even in shares, and no share is given twice."""
    pairs = [(one.asked.name, one.key) for one in devices]
    for name, key in {pair for pair in pairs if pairs.count(pair) > 1}:
        yield BrokenRule("TwiceInRequest", f"{'/'.join(key)} for {name}")
    shares = [one.result["shareID"] for one in devices if one.result.get("shareID")]
    for share in {share for share in shares if shares.count(share) > 1}:
        yield BrokenRule("ShareRepeated", str(share))


def check_all(
    cluster: Cluster, requests: dict[str, Asked], devices: list[Chosen]
) -> Iterator[BrokenRule]:
    """Mode All means every device that is wanted and large enough, of pools that are all whole."""
    for request in requests.values():
        got = {chosen.key for chosen in devices if chosen.asked is request}
        if request.spec.get("allocationMode") != "All" or not got:
            continue
        for pool in cluster.pools:
            if pool.incomplete or pool.faults:
                yield BrokenRule("NotAll", f"{request.name}: pool {pool.name} is not whole")
                continue
            for spec, device in pool.devices():
                key = (pool.driver, pool.name, str(device["name"]))
                wanted = not any(check_wanted(cluster, request, pool.driver, spec, device))
                if wanted and fits(cluster, request, device) and key not in got:
                    yield BrokenRule("NotAll", f"{request.name}: {'/'.join(key)} is missing")


def fits(cluster: Cluster, request: Asked, device: Json) -> bool:
    """Large enough when nothing is consumed, where capacity is looked at."""
    if not cluster.gates["DRAConsumableCapacity"]:
        return True
    return not isinstance(amounts(cluster, request, device), BrokenRule)
