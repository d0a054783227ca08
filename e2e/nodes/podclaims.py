"""Finds the claims of a pod and runs the kubelet's checks before any driver call. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

JSON = dict[str, Any]
# The API group of PodGroups; their claims exist with the gate DRAWorkloadResourceClaims only.
SCHEDULING = "scheduling.k8s.io"


def names(pod: JSON) -> Iterator[tuple[str, bool]]:
    """Yield the claims that a pod needs, with whether each was generated for it.

    An empty name means that the claim does not exist yet.
    """
    status = pod.get("status", {})
    generated = {
        entry["name"]: entry.get("resourceClaimName")
        for entry in status.get("resourceClaimStatuses", ())
    }
    for entry in pod["spec"].get("resourceClaims", ()):
        if "resourceClaimName" in entry:
            yield entry["resourceClaimName"], False
        elif entry["name"] not in generated:
            yield "", True
        elif generated[entry["name"]]:  # else the controller found that none is needed
            yield generated[entry["name"]], True
    special = status.get("extendedResourceClaimStatus")
    if special:
        yield special["resourceClaimName"], True


def not_owned(pod: JSON, claim: JSON) -> str:
    """Return why a generated claim is neither this pod's nor its group's; empty when it is."""
    for owner in claim["metadata"].get("ownerReferences", ()):
        api = owner.get("apiVersion", "").partition("/")[0]
        named = (api, owner.get("kind"), owner.get("name"))
        group = named == (SCHEDULING, "PodGroup", _group(pod))
        if owner.get("controller") and (owner["uid"] == pod["metadata"]["uid"] or group):
            return ""
    return "the claim was not created for this pod or its group"


def not_reserved(pod: JSON, claim: JSON) -> str:
    """Return why the pod may not use the claim; empty when it may."""
    for user in claim.get("status", {}).get("reservedFor", ()):
        named = (user.get("apiGroup"), user.get("resource"), user.get("name"))
        group = named == (SCHEDULING, "podgroups", _group(pod))
        if user["uid"] == pod["metadata"]["uid"] or group:
            return ""
    return "the claim is not reserved for this pod or its group"


def _group(pod: JSON) -> str | None:
    """Return the name of the PodGroup of a pod, which does not know its UID."""
    name: str | None = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
    return name


def not_allocated(_pod: JSON, claim: JSON) -> str:
    """Return why the claim cannot be prepared; empty when it can."""
    return "" if claim.get("status", {}).get("allocation") else "the claim is not allocated"


def tell_writes(value: JSON) -> str:
    """Return who wrote an object, and when; the last of them has probably made it as it is."""
    metadata = value["metadata"]
    writes = sorted(
        f"{each.get('time')} {each.get('manager')} {each.get('subresource', '')}".strip()
        for each in metadata.get("managedFields", ())
    )
    return f"version {metadata.get('resourceVersion')}, written {', '.join(writes)}"


def drivers(claim: JSON) -> list[str]:
    """List the drivers that an allocated claim has devices of."""
    results = claim["status"]["allocation"]["devices"].get("results", ())
    return sorted({result["driver"] for result in results})


def extended(pod: JSON, advertised: Mapping[str, object]) -> dict[str, int]:
    """Sum what a pod asks of a node's plugins: the larger of all containers and any init one.

    What the scheduler turned into a claim is no longer asked of a plugin.
    """
    special = pod.get("status", {}).get("extendedResourceClaimStatus", {})
    mapped = {mapping["resourceName"] for mapping in special.get("requestMappings", ())}
    asked: dict[str, int] = {}
    for name in advertised.keys() - mapped:
        main = sum(_asked(container, name) for container in pod["spec"]["containers"])
        first = [_asked(container, name) for container in pod["spec"].get("initContainers", ())]
        if total := max([main, *first]):
            asked[name] = total
    return asked


def _asked(container: JSON, name: str) -> int:
    resources = container.get("resources", {})
    text = resources.get("limits", {}).get(name) or resources.get("requests", {}).get(name) or 0
    return int(text)
