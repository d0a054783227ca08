"""Reproductions: pods that end, and claims that are released."""

from .cluster import (
    QUIET,
    RESOURCE,
    ApiError,
    DefectError,
    Place,
    UnclearError,
    allocated,
    device,
    happens,
)

TAINT = {"key": "example.com/broken", "value": "", "effect": "NoExecute"}


def a_device_is_free_before_its_node_lets_go(place: Place) -> None:
    """A pod is deleted with force while its node has its device prepared, for nobody lets go."""
    place.publish(place.node(), [device("d0")])
    template = place.template(place.wanted())
    place.pod("first", template)
    place.prepare_scheduled("first")
    (prepared,) = place.devices("first")
    place.remove_pod("first")
    place.pod("second", template)
    given = happens(lambda: place.devices("second"))
    if given == [prepared]:
        raise DefectError(f"{prepared} is allocated anew, and its node still has it prepared")
    if given:
        raise UnclearError(f"the pod has {given}")


def a_taint_spares_pods_of_extended_names(place: Place) -> None:
    """A rule evicts a pod with a claim, and must evict the one that has a device by a name."""
    version = place.api.find_version("resource.k8s.io", "devicetaintrules")
    if not version:
        raise UnclearError("the API server has no DeviceTaintRules")
    name = _serve_name(place)
    place.publish(place.node(), [device("d0"), device("d1")])
    place.pod("by-claim", place.template(place.wanted()))
    place.pod("by-name", limits={name: "1"})
    place.prepare_scheduled("by-claim", "by-name")
    rule = {"deviceSelector": {"driver": place.driver}, "taint": TAINT}
    rules = f"/apis/resource.k8s.io/{version}/devicetaintrules"
    place.create(rules, {"metadata": {"name": place.name}, "spec": rule})
    if not happens(lambda: _ends(place, "by-claim")):
        raise UnclearError("the rule evicts no pod")
    if not happens(lambda: _ends(place, "by-name")):
        raise DefectError("the pod with a claim is evicted, the pod with an extended name stays")


def a_priority_evicts_nobody_for_a_device(place: Place) -> None:
    """A pod of a high priority needs the device that a pod of a low one has."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    place.create(path, {"metadata": {"name": place.name}, "value": 1000})
    place.publish(place.node(), [device("d0")])
    template = place.template(place.wanted())
    place.pod("low", template)
    place.prepare_scheduled("low")
    place.pod("high", template, priorityClassName=place.name)
    if not happens(lambda: _ends(place, "low")):
        raise DefectError(f"the pod of the low priority stays: {place.explain('high')}")


def _ends(place: Place, pod: str) -> bool:
    """Return whether a pod is deleted, or is going to be."""
    try:
        pod_object = place.get_pod(pod)
    except ApiError:
        return True
    return "deletionTimestamp" in pod_object["metadata"]


def claims_pose_as_a_pods_own(place: Place) -> None:
    """A quota allows one device. Claims that name a waiting pod as their owner go past it."""
    name = _serve_name(place)
    place.publish(place.node(), [device(f"d{number}") for number in range(4)])
    quota = {"metadata": {"name": "one"}, "spec": {"hard": {f"requests.{name}": "1"}}}
    place.create(place.path("resourcequotas"), quota)
    if not happens(lambda: place.objects("resourcequotas")[0]["status"].get("used")):
        raise UnclearError("nobody counts the quota")
    pod = place.pod("waits", limits={name: "1"}, nodeSelector={"none": "such"})
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    owner |= {"name": "waits", "uid": pod["metadata"]["uid"]}
    refused = 0
    for number in range(3):
        claim = f"posing-{number}"
        metadata = {
            "name": claim,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [owner],
        }
        spec = {"devices": {"requests": [place.wanted()]}}
        try:
            place.create(place.path("resourceclaims"), {"metadata": metadata, "spec": spec})
        except ApiError as problem:
            if problem.code != 403:
                raise
            refused += 1
            continue
        place.pod(f"uses-{number}", claim=claim)
    if happens(lambda: len(_held(place)) > 1, QUIET):
        raise DefectError(f"the quota allows one device, and claims have {len(_held(place))}")
    if not refused:
        raise UnclearError("no claim is refused, and the pods that use them have no device")


def _serve_name(place: Place) -> str:
    """Let the class serve the name of an extended resource, and return it."""
    name = f"{place.driver}/gpu"
    patch = {"spec": {"extendedResourceName": name}}
    place.api.call("PATCH", f"{RESOURCE}/deviceclasses/{place.name}", patch, "merge-patch+json")
    return name


def _held(place: Place) -> list[str]:
    """Return the devices of all claims."""
    return [each for claim in place.objects("resourceclaims") for each in allocated(claim)]
