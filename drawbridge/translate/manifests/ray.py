"""Reports Ray groups whose number of GPUs KubeRay reads from a limit that a translation removes.

KubeRay derives `num-gpus` of `ray start`, and the autoscaler the GPUs of a new worker, from the
first limit of the Ray container that names a GPU. `rayStartParams` and `resources` of the group
take precedence.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from drawbridge.documents.patch import apply_edits
from drawbridge.documents.paths import Path, format_path, get_value
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.finding import Finding
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import Translation
from drawbridge.translate.legacy.dialects import kai
from drawbridge.translate.legacy.pod_view import format_value
from drawbridge.translate.manifests.codes import RAY_GPUS_LOST, REQUEST_NOT_IN_POD
from drawbridge.translate.manifests.workloads import Place, group_kind

_GROUP: Final = "ray.io"
_TEMPLATE: Final = "template"  # of a group; other templates are not of Ray nodes
_PARAMETER: Final = "num-gpus"
# KubeRay runs Ray in the first container.
_RAY_CONTAINER: Final[Path] = ("spec", "containers", 0)
# The names that KubeRay recognizes as GPUs.
_GPU_NAME: Final = re.compile(r".*gpu|.*nvidia\.com/mig-\d+g\.\d+gb")


def report_lost_gpus(value: Value, place: Place, translation: Translation) -> Iterator[Finding]:
    """Report the group of a pod template if its number of GPUs gets lost."""
    if not isinstance(value, dict) or group_kind(value)[0] != _GROUP or not translation.edits:
        return
    group = as_mapping(get_value(value, place.path[:-1]))
    params = as_mapping(group.get("rayStartParams"))
    named = [*map(str.lower, as_mapping(group.get("resources")))]
    if place.path[-1] != _TEMPLATE or _PARAMETER in params or any(map(_GPU_NAME.fullmatch, named)):
        return
    after = apply_edits(place.pod, translation.edits)
    limits, kept = (
        as_mapping(get_value(pod, (*_RAY_CONTAINER, "resources", "limits")))
        for pod in (place.pod, after)
    )
    lost = next(
        (name for name in sorted(limits) if _GPU_NAME.fullmatch(name) and name not in kept), None
    )
    if lost is None:
        return
    count = count_gpus(after, translation.templates, _RAY_CONTAINER)
    path = format_path((*place.path[:-1], "rayStartParams"))
    yield RAY_GPUS_LOST.at(
        path,
        f"{_PARAMETER} is not set, and KubeRay can no longer read it from the limit "
        f"{lost}: {format_value(limits[lost])}, which the translation removes",
        remedy=f'Set `rayStartParams.{_PARAMETER}: "{count}"` in the group.',
    )


def report_queue_of_cluster(
    value: Value, place: Place, translation: Translation
) -> Iterator[Finding]:
    """Report a template with KAI's annotations whose queue stands on the Ray object only.

    KubeRay copies the label to the pods, which KAI then reads; the template alone requests nothing.
    """
    if not isinstance(value, dict) or group_kind(value)[0] != _GROUP or translation.edits:
        return
    labels = as_mapping(get_value(value, ("metadata", "labels")))
    queue = next((key for key in kai.QUEUES if key in labels), "")
    annotations = as_mapping(get_value(place.pod, ("metadata", "annotations")))
    for key in annotations if queue else ():
        if key.startswith(kai.STANDALONE_KEYS):
            path = format_path((*place.path, "metadata", "annotations", key))
            yield REQUEST_NOT_IN_POD.at(
                path,
                f"{key} requests a part of a GPU for the pods, to which KubeRay copies {queue}",
                remedy=f"Set the label {queue} in the template as well.",
            )


def count_gpus(pod: Value, templates: Iterable[ClaimTemplate], container: Path) -> int:
    """Count the GPUs that a container gets from the claims."""
    by_name: dict[str, Value] = {each.name: dict(each.object) for each in templates}
    claims = {
        f"{as_mapping(claim).get('name')}": as_mapping(claim).get("resourceClaimTemplateName")
        for claim in as_list(get_value(pod, ("spec", "resourceClaims")))
    }
    total = 0
    for use in as_list(get_value(pod, (*container, "resources", "claims"))):
        used = as_mapping(use)
        template = by_name.get(f"{claims.get(str(used.get('name')))}", {})
        requests = as_list(get_value(template, ("spec", "spec", "devices", "requests")))
        for request in map(as_mapping, requests):
            if used.get("request") in (None, request.get("name")):
                total += _count_request(request)
    return total


def _count_request(request: Mapping[str, Value]) -> int:
    exactly = request.get("exactly") or next(iter(as_list(request.get("firstAvailable"))), None)
    count, kind = as_mapping(exactly).get("count"), f"{request.get('name')}".partition("-")[0]
    return count if isinstance(count, int) and kind == "gpu" else 0
