"""Which pods with devices are stuck: never started, never ended, or with devices of no plugin."""

from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from drawbridge.documents.paths import get_value
from drawbridge.documents.values import Value
from drawbridge.ledger.extended_resources import is_extended
from drawbridge.report.events import describe_events, is_about
from drawbridge.report.stuck import codes
from drawbridge.report.stuck.context import StuckSearch
from drawbridge.report.stuck.found import (
    CLAIM_CONTROLLER,
    NODE_WRITER,
    RESTART_CONTROLLER,
    Stuck,
    name_finalizers,
    stuck_at,
)
from drawbridge.report.stuck.objects import FINISHED, HangingClaim, HangingPod, HeldResult
from drawbridge.translate.legacy.pod_view import is_device_resource

SCHEDULED: Final = "PodScheduled"
_PREPARED: Final = "PodReadyToStartContainers"
# The conditions that are read.
POD_CONDITIONS: Final = (SCHEDULED, _PREPARED)
_UNPREPARED: Final = "FailedPrepareDynamicResources"
# Why a kubelet does not start a pod, and why a pod gets no claim, by the reasons of events.
_NOT_STARTED: Final = (_UNPREPARED, "FailedMount", "FailedCreatePodSandBox")
_NOT_CREATED: Final = ("FailedResourceClaimCreation",)
FAILURES: Final = (*_NOT_STARTED, *_NOT_CREATED)
# The claims of a thousand pods that come at once are made in this time.
_BURST_SECONDS: Final = 300.0


def find_stuck_pods(search: StuckSearch) -> Iterator[Stuck]:
    """Yield the pods with devices that do not go on; a pod has at most one reason."""
    for pod in search.objects.pods:
        claims = [
            search.claims[key]
            for name in sorted(pod.claim_names)
            if (key := (pod.key[0], name)) in search.claims
        ]
        if not (claims or has_devices(pod)):
            continue
        reason = (
            _find_unfinished_deletion(pod, claims, search)
            or _find_unfinished_end(pod, claims, search)
            or _find_unnamed_claim(pod, search)
            or _find_devices_elsewhere(pod, claims, search)
            or _find_no_start(pod, claims, search)
            or _find_no_plugin(pod, search)
        )
        if reason is not None:
            yield reason


_POD: Final = msgspec.json.Decoder(HangingPod, strict=False)


def decode_device_pod(raw: bytes) -> HangingPod:
    """Decode a pod that has claims or asks a device plugin; raises ValueError for any other."""
    pod = _POD.decode(raw)
    if not has_devices(pod):
        raise ValueError("the pod has no devices")
    return pod


def has_devices(pod: HangingPod) -> bool:
    """Whether a pod has claims, or asks for what a device plugin or a class serves."""
    return bool(pod.spec.resource_claims or pod.claim_names) or asks_plugin(pod)


def asks_plugin(pod: HangingPod) -> bool:
    """Whether a pod asks for a resource that a device plugin or a class serves."""
    return any(plugin_names(pod))


def is_asked(name: str, amount: object) -> bool:
    """Whether a limit of a container asks for a device that a plugin or a class serves."""
    return (is_device_resource(name) or is_extended(name)) and f"{amount}" != "0"


def plugin_names(pod: HangingPod) -> Iterator[str]:
    """Yield the resources that containers ask for and that a device plugin or a class serves.

    The kubelet keeps the devices of an init container until the pod ends.
    """
    for containers in (pod.spec.init_containers, pod.spec.containers):
        for container in containers or ():
            for name, amount in (container.resources.limits or {}).items():
                if is_asked(name, amount):
                    yield name


def _about(pod: HangingPod) -> str:
    return f"Pod/{pod.full_name}"


def _devices(claims: list[HangingClaim]) -> list[HeldResult]:
    return [each for claim in claims for each in claim.results]


def _name_drivers(claims: list[HangingClaim], node: str) -> str:
    drivers = sorted({each.driver for claim in claims for each in claim.results})
    return f"driver {', '.join(drivers)} on node {node}" if drivers else ""


def _name_holder(pod: HangingPod, claims: list[HangingClaim], search: StuckSearch) -> str:
    """Name the kubelet while its containers run or its node is down, else the driver."""
    node = pod.spec.node_name
    drivers = _name_drivers(claims, node)
    kubelet = search.name_kubelet(node)
    if search.is_node_down(node) or not (drivers and pod.ended):
        return kubelet
    return f"{drivers}, or {kubelet}"


def _find_unfinished_deletion(
    pod: HangingPod, claims: list[HangingClaim], search: StuckSearch
) -> Stuck | None:
    """Return why a pod is still there when its grace period is over."""
    since, finalizers = pod.metadata.deletion_timestamp, pod.metadata.finalizers
    if not search.is_old(since):
        return None
    ended = not pod.spec.node_name or pod.metadata.deletion_grace_period_seconds == 0
    is_kept = bool(finalizers) and (ended or pod.status.phase in FINISHED)
    code = codes.DELETION_STUCK if is_kept else codes.NEVER_RELEASED
    held_by, remedy = name_finalizers(finalizers or (), pod.metadata.finalizers_left_out), ""
    if not is_kept:
        held_by = _name_holder(pod, claims, search) if pod.spec.node_name else "API server"
        if pod.spec.node_name and search.is_node_down(pod.spec.node_name):
            remedy = (
                "Start the node again. If it is switched off and stays so, add the taint"
                " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute to it; it must not run."
            )
    about, devices, pods = _about(pod), _devices(claims), (pod.full_name,)
    message = "under deletion, and its grace period is over"
    return stuck_at(
        code, about, message, held_by, since=since, remedy=remedy, pods=pods, devices=devices
    )


def _find_unfinished_end(
    pod: HangingPod, claims: list[HangingClaim], search: StuckSearch
) -> Stuck | None:
    """Return why a pod is not finished although its containers have ended for good."""
    restart, ended = pod.spec.restart_policy, pod.ended
    if not ended or pod.status.phase in FINISHED or pod.metadata.deletion_timestamp:
        return None
    failed = any(each.exit_code for each in ended)
    is_over = restart == "Never" or (restart == "OnFailure" and not failed)
    times = sorted(each.finished_at or "" for each in ended)
    if not (is_over and search.is_old(times[-1])):
        return None
    return stuck_at(
        codes.NEVER_RELEASED,
        _about(pod),
        "all containers have ended, and the pod is not finished",
        _name_holder(pod, claims, search),
        since=times[-1],
        pods=(pod.full_name,),
        devices=_devices(claims),
    )


def _find_unnamed_claim(pod: HangingPod, search: StuckSearch) -> Stuck | None:
    """Return for which template the status of a pod names no claim, so that it waits for good.

    A status can say that an entry needs no claim. It is written when all claims are there, so one
    that names others only has lost this one. What exceeds a quota waits for others.
    """
    since, named = pod.metadata.creation_timestamp, pod.status.resource_claim_statuses or ()
    is_waiting = pod.status.phase == "Pending" and not pod.metadata.deletion_timestamp
    if not is_waiting or pod.spec.scheduling_gates or not search.is_old(since):
        return None
    told = {each.name for each in named}
    entries = [e for e in pod.spec.resource_claims or () if e.resource_claim_template_name]
    entry = next((each for each in entries if each.name not in told), None)
    if entry is None:
        return None
    what = f"its entry {entry.name}, of template {entry.resource_claim_template_name}"
    message, remedy = f"no claim is made for {what}", RESTART_CONTROLLER
    text = _find_failure(pod, search, _NOT_CREATED)[1]
    if told.intersection(each.name for each in entries):
        message = f"the status of the pod names no claim for {what}, and names those of others"
        remedy = (
            "Delete the pod, so that its controller creates another one. If that has the same"
            " fault, create the claim of one of its entries yourself, and name it in the pod."
        )
    elif text:
        message = f"its claims are not made: {text}"
        remedy = "Mend what the message of kube-controller-manager names."
    elif not search.is_old(since, _BURST_SECONDS):
        return None
    if "exceeded quota" in text:
        return None
    return stuck_at(
        codes.NEVER_ALLOCATED,
        _about(pod),
        message,
        CLAIM_CONTROLLER,
        since=since,
        remedy=remedy,
        pods=(pod.full_name,),
    )


def _find_devices_elsewhere(
    pod: HangingPod, claims: list[HangingClaim], search: StuckSearch
) -> Stuck | None:
    """Return why a pod that has not ended is not on the only node that has its devices.

    It can run: there are drivers that give it the devices of its own node that have the same names.
    """
    node, scheduled = pod.spec.node_name, pod.condition(SCHEDULED)
    since = scheduled.last_transition_time if scheduled else pod.metadata.creation_timestamp
    claim = next((each for each in claims if each.node not in {"", node}), None)
    if not node or claim is None or pod.status.phase in FINISHED or not search.is_old(since):
        return None
    does = "has" if pod.status.phase in ("", "Pending") else "runs on"
    return stuck_at(
        codes.NEVER_PREPARED,
        _about(pod),
        f"{does} node {node}, but its claim {claim.metadata.name} has devices of node {claim.node}",
        NODE_WRITER,
        since=since,
        remedy="Delete the pod, and create it without spec.nodeName if no controller does. If it"
        f" runs, it can use devices of node {node} that other pods have.",
        pods=(pod.full_name,),
        devices=claim.results,
    )


def _find_no_start(
    pod: HangingPod, claims: list[HangingClaim], search: StuckSearch
) -> Stuck | None:
    """Return why a pod with a node and all its devices has no containers."""
    node, scheduled = pod.spec.node_name, pod.condition(SCHEDULED)
    since = scheduled.last_transition_time if scheduled else pod.metadata.creation_timestamp
    is_waiting = bool(node) and pod.status.phase in ("", "Pending") and bool(claims)
    if not is_waiting or pod.metadata.deletion_timestamp or not search.is_old(since):
        return None
    if not all(claim.status.allocation for claim in claims):
        return None
    ready = pod.condition(_PREPARED)
    is_down = search.is_node_down(node)
    if ready is not None and ready.status == "True" and not is_down:
        # The claims are prepared; images are pulled.
        return None
    reason, text = _find_failure(pod, search, _NOT_STARTED)
    held_by = search.name_kubelet(node)
    if not is_down and reason in {"", _UNPREPARED}:
        silent = _find_silent_driver(claims, node, search)
        drivers = _name_drivers(claims, node)
        held_by = silent or (f"{drivers}" if reason else f"{held_by}, or {drivers}")
    return stuck_at(
        codes.NEVER_PREPARED,
        _about(pod),
        f"has its devices, but does not start{f': {text}' if text else ''}",
        held_by,
        since=since,
        pods=(pod.full_name,),
        devices=_devices(claims),
    )


def _find_silent_driver(claims: list[HangingClaim], node: str, search: StuckSearch) -> str:
    """Name a driver that publishes nothing for the node."""
    if not search.knows_slices_of(node):
        return ""
    for claim in claims:
        for driver in sorted({each.driver for each in claim.results}):
            if not {(driver, node), (driver, "")} & search.publishing:
                return f"driver {driver} on node {node}, which publishes nothing there"
    return ""


def _find_failure(
    pod: HangingPod, search: StuckSearch, reasons: Collection[str]
) -> tuple[str, str]:
    """Return the reason and the text of the last event of a pod with one of these reasons."""
    namespace, name = pod.key
    metadata: dict[str, Value] = {"namespace": namespace, "name": name, "uid": pod.metadata.uid}
    mine = [
        each
        for key in (pod.key, ("", name))
        for each in search.events.get(key, ())
        if get_value(each, ("reason",)) in reasons and is_about(each, "Pod", metadata)
    ]
    told = describe_events(mine)
    return (told[-1].reason, told[-1].message) if told else ("", "")


def _find_no_plugin(pod: HangingPod, search: StuckSearch) -> Stuck | None:
    """Return which resource of a running pod the kubelet of its node does not offer any more.

    A kubelet keeps the name of a plugin that is gone, with the amount zero. A node without the name
    never had it: only a scheduler counts it, such as nvidia.com/gpumem of HAMi.
    """
    node = search.nodes.get(pod.spec.node_name)
    if (
        node is None
        or not node.status.allocatable
        or pod.status.phase != "Running"
        or pod.metadata.deletion_timestamp
    ):
        return None
    if pod.status.extended_resource_claim_status is not None:
        return None
    offered = node.status.allocatable
    gone = sorted({n for n in plugin_names(pod) if f"{offered.get(n)}" == "0"})
    if not gone:
        return None
    name = node.metadata.name
    return stuck_at(
        codes.NOT_PUBLISHED,
        _about(pod),
        f"holds {', '.join(gone)}, which node {name} does not offer any more",
        f"device plugin of node {name}",
        remedy=(
            "Start the device plugin of the node again. If a driver has its devices now, drain the"
            " node: the pod still uses them."
        ),
        pods=(pod.full_name,),
    )
