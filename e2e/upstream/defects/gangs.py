"""Reproductions: gangs, whose pods need devices together."""

from .cluster import Place, UnclearError, counter_set, device, happens, has_kind, kind_of

GROUP = "scheduling.k8s.io"


def _gang(place: Place, name: str, size: int, template: str = "", claim: str = "") -> list[str]:
    """Create a PodGroup whose pods are needed all at once, and return their names."""
    version = place.api.find_version(GROUP, "podgroups")
    if not version:
        raise UnclearError(f"the API server has no PodGroups of {GROUP}")
    path = f"/apis/{GROUP}/{version}/namespaces/{place.name}/podgroups"
    policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
    place.create(path, {"metadata": {"name": name}, "spec": policy})
    names = [f"{name}-{number}" for number in range(size)]
    for each in names:
        place.pod(each, template, claim, schedulingGroup={"podGroupName": name})
    return names


def a_gang_shares_a_claim(place: Place) -> None:
    """Both pods of a gang use one claim, for which there is a device."""
    place.publish(place.node(), [device("d0")])
    spec = {"devices": {"requests": [place.wanted()]}}
    claims = place.path("resourceclaims")
    place.create(claims, {"metadata": {"name": "shared"}, "spec": spec})
    place.expect_scheduled(*_gang(place, "gang", 2, claim="shared"))


def a_gang_takes_other_alternatives(place: Place) -> None:
    """The first pod would take the whole device; with two halves, both pods have one."""
    devices = [
        device("whole", 2, attributes=has_kind("whole")),
        device("half-0", 1, attributes=has_kind("half")),
        device("half-1", 1, attributes=has_kind("half")),
    ]
    place.publish(place.node(), devices, [counter_set(2)])
    choices = [
        {"name": name, **place.choice(selector=kind_of(place.driver, name))}
        for name in ("whole", "half")
    ]
    halves = place.template(place.wanted(selector=kind_of(place.driver, "half")), name="half")
    names = _gang(place, "halves", 2, halves)
    place.prepare_scheduled(*names)
    for name in names:
        place.end_pod(name)
    if not happens(lambda: not place.objects("resourceclaims")):
        raise UnclearError("claims of removed pods stay")
    template = place.template({"name": "r", "firstAvailable": choices})
    place.expect_scheduled(*_gang(place, "either", 2, template))
