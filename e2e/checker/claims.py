"""Checks one claim's allocation on its own: requests, counts, copied fields, configuration."""

from collections import Counter
from collections.abc import Iterator

from e2e.checker.asked import Asked, asked, devices_of
from e2e.checker.pools import listed, section
from e2e.checker.quantities import Json
from e2e.checker.violation import BrokenRule


def results_of(allocation: Json) -> list[Json]:
    """The devices of an allocation."""
    return listed(section(allocation, "devices"), "results")


def check_requests(claim: Json, allocation: Json) -> Iterator[BrokenRule]:
    """Every request is served once, by one alternative, in order, with as many as it asked."""
    requests = {one.name: one for one in asked(claim)}
    results = results_of(allocation)
    if len(results) > 32:
        yield BrokenRule("TooManyResults", f"{len(results)} results, at most 32")
    counts = Counter(str(result["request"]) for result in results)
    for name in counts.keys() - requests.keys():
        yield BrokenRule("UnknownRequest", f"no request {name}")
    positions = [requests[str(r["request"])].position for r in results if r["request"] in requests]
    if positions != sorted(positions):
        yield BrokenRule("OutOfOrder", "results are not in the order of requests")
    for main in dict.fromkeys(one.main for one in requests.values()):
        options = [one for one in requests.values() if one.main == main]
        used = [one for one in options if counts[one.name]]
        if len(used) > 1:
            yield BrokenRule("TwoAlternatives", f"request {main} got {[one.name for one in used]}")
        elif not used:
            yield BrokenRule("NotServed", f"request {main} got nothing")
        yield from wrong_counts(used, counts)


def wrong_counts(used: list[Asked], counts: Counter[str]) -> Iterator[BrokenRule]:
    """The number of devices, where the request names one."""
    for request in used:
        if (
            request.spec.get("allocationMode") == "ExactCount"
            and counts[request.name] != request.spec["count"]
        ):
            yield BrokenRule(
                "WrongCount",
                f"{request.name} asked {request.spec['count']}, got {counts[request.name]}",
            )


def check_features(claim: Json, gates: dict[str, bool]) -> Iterator[BrokenRule]:
    """A claim that uses what is switched off is never allocated."""
    for request in listed(devices_of(claim), "requests"):
        if request.get("firstAvailable") and not gates["DRAPrioritizedList"]:
            yield BrokenRule("FeatureOff", f"request {request['name']} has alternatives")
    fields = {
        "adminAccess": "DRAAdminAccess",
        "capacity": "DRAConsumableCapacity",
        "derivedAttributes": "DRADerivedAttributes",
    }
    for wanted in asked(claim):
        for field, gate in fields.items():
            # An empty list asks for nothing; any other presence does, even that of false.
            if wanted.spec.get(field) not in (None, []) and not gates[gate]:
                yield BrokenRule("FeatureOff", f"{wanted.name} uses {field} without {gate}")


def check_config(claim: Json, allocation: Json, classes: dict[str, Json]) -> Iterator[BrokenRule]:
    """The configuration: of each class used once, then of the claim, nothing else."""
    chosen = {str(result["request"]) for result in results_of(allocation)}
    used = [one for one in asked(claim) if one.name in chosen]
    wanted: list[tuple[str, list[str], object]] = []
    for name in dict.fromkeys(str(one.spec["deviceClassName"]) for one in used):
        requests = [one.name for one in used if one.spec["deviceClassName"] == name]
        spec = section(classes.get(name, {}), "spec")
        wanted += [("FromClass", requests, entry.get("opaque")) for entry in listed(spec, "config")]
    for entry in listed(devices_of(claim), "config"):
        names = [str(name) for name in listed(entry, "requests")]
        if not names or any(one.main in names or one.name in names for one in used):
            wanted.append(("FromClaim", names, entry.get("opaque")))
    expected = [(source, narrowed(names, used), opaque) for source, names, opaque in wanted]
    given = [
        (str(entry.get("source")), [str(n) for n in listed(entry, "requests")], entry.get("opaque"))
        for entry in listed(section(allocation, "devices"), "config")
    ]
    if given != expected:
        yield BrokenRule("WrongConfig", f"{given} instead of {expected}")


def narrowed(names: list[str], used: list[Asked]) -> list[str]:
    """A list that covers every request is written as none."""
    return [] if all(one.main in names or one.name in names for one in used) else names
