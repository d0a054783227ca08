"""Decodes claims and pods as the caches of the controller keep them: with what tells who is stuck.

A pod without devices is kept as one value that all such pods share. Of others, nothing is kept that
their owners may write without end, but the devices that they ask for, and the users of these.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from drawbridge.agreement.owned_templates import LARGEST_TEMPLATE
from drawbridge.agreement.scope import PodMetadata, PodOwner, find_root_owner
from drawbridge.digest import digest
from drawbridge.dra.claim import Owner
from drawbridge.dra.quantity import Quantity, QuantityError, from_json
from drawbridge.ledger.generated_claims import POD_CLAIM
from drawbridge.names import RULES_ANNOTATION
from drawbridge.report.stuck.found import MOST_NAMES
from drawbridge.report.stuck.objects import (
    HangingClaim,
    HangingClaimSpec,
    HangingContainer,
    HangingMetadata,
    HangingPod,
    HeldResult,
)
from drawbridge.report.stuck.pods import POD_CONDITIONS, has_devices, is_asked
from drawbridge.usage.claims import ClaimHolding, HeldPart, read_time

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
NO_DEVICES: Final = HangingPod()
# As long as names of Kubernetes are. The API server does not check those of owners.
_MAX_NAME: Final = 253
# Stands for the gates of a pod: it only counts whether there are any.
_GATED: Final = (None,)
# What is kept of each list of a pod whose namespace has more than its share of the memory.
_MOST_PARTS: Final = 8
_POD: Final = msgspec.json.Decoder(HangingPod, strict=False)
_CLAIM: Final = msgspec.json.Decoder(HangingClaim)


class WatchedClaim(ClaimHolding, frozen=True):
    """A claim: what it holds, and what keeps it.

    One that was generated for an entry of a pod, and is no larger than a template of ours, has the
    name of the entry, and a digest of what it has of a template.
    """

    hanging: HangingClaim = HangingClaim()
    entry: str = ""
    content: bytes = b""


class _Annotations(msgspec.Struct, frozen=True):
    entry: str = msgspec.field(default="", name=POD_CLAIM)
    rules: str = msgspec.field(default="", name=RULES_ANNOTATION)


class _Metadata(msgspec.Struct, frozen=True):
    annotations: _Annotations | None = None


class _Content(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_CONTENT: Final = msgspec.json.Decoder(_Content)


def read_watched_claim(raw: bytes) -> WatchedClaim:
    """Read a claim of `resource.k8s.io/v1`; raises msgspec.DecodeError or ValueError."""
    entry, content = _read_content(raw)
    claim = _CLAIM.decode(raw)
    metadata, allocation, classes = claim.metadata, claim.status.allocation, claim.class_of
    owners = metadata.owner_references or ()
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    if owner is not None:
        kind, name, uid = (each[:_MAX_NAME] for each in (owner.kind, owner.name, owner.uid))
        owner = Owner(kind, name, uid, owner.controller)
    return WatchedClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        created=read_time(metadata.creation_timestamp),
        allocated=read_time(allocation.allocation_timestamp) if allocation else None,
        parts=tuple(_read_part(each, classes) for each in claim.results if not each.admin_access),
        pods=tuple(each.name for each in claim.pods),
        owner=owner,
        extended=metadata.annotations is not None and metadata.annotations.extended == "true",
        hanging=_shorten_claim(claim, owner),
        entry=entry,
        content=content,
    )


def _read_content(raw: bytes) -> tuple[str, bytes]:
    """Return the entry of a pod that a claim is for, and a digest of its content."""
    content = _CONTENT.decode(raw)
    noted, spec = content.metadata.annotations, bytes(content.spec)
    if noted is None or not noted.entry or len(spec) + len(noted.rules) > LARGEST_TEMPLATE:
        return "", b""
    return noted.entry[:_MAX_NAME], digest(b"\0".join((noted.rules.encode(), spec)))


def _read_part(result: HeldResult, classes: Mapping[str, str]) -> HeldPart:
    shared = result.share_id is not None
    consumed = result.consumed_capacity or {} if shared else {}
    return HeldPart(
        class_name=classes.get(result.request, ""),
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        shared=shared,
        consumed={name: _read_quantity(amount) for name, amount in consumed.items()},
        request=result.request.partition("/")[0],
        share=result.share_id or "",
    )


def _read_quantity(value: object) -> Quantity:
    try:
        return from_json(value)
    except QuantityError as error:
        raise ValueError(f"{value} is not a quantity: {error}") from None


def _shorten_claim(claim: HangingClaim, owner: Owner | None) -> HangingClaim:
    """Leave out what nobody reads, and what the parts of the claim have."""
    devices, allocation = claim.spec.devices, claim.status.allocation
    requests = [replace(e, name="", first_available=None) for e in devices.requests or ()]
    if allocation:
        held = [HeldResult(e.driver, e.pool, e.device, e.admin_access) for e in claim.results]
        allocation = replace(allocation, devices=replace(allocation.devices, results=(*held,)))
    return replace(
        claim,
        metadata=_shorten_metadata(claim.metadata, owner),
        spec=replace(claim.spec, devices=replace(devices, requests=(*requests,))),
        status=replace(claim.status, allocation=allocation),
    )


def reduce_watched_claim(claim: WatchedClaim) -> WatchedClaim:
    """Return what must be known of a claim whatever it takes: all but the classes it asks for."""
    return replace(claim, hanging=replace(claim.hanging, spec=HangingClaimSpec()))


def _shorten_metadata(metadata: HangingMetadata, owner: Owner | None) -> HangingMetadata:
    finalizers = metadata.finalizers or ()
    return replace(
        metadata,
        finalizers=finalizers[:MOST_NAMES] or None,
        finalizers_left_out=max(0, len(finalizers) - MOST_NAMES),
        generate_name="",
        labels=None,
        annotations=None,
        owner_references=None if owner is None else (owner,),
    )


def find_owner(pod: HangingPod) -> str:
    """Return the root owner of a pod, as far as the pod shows it."""
    metadata = pod.metadata
    owners = tuple(
        PodOwner(each.kind, each.name, each.controller is True)
        for each in metadata.owner_references or ()
    )
    return name_root_owner(
        PodMetadata(metadata.name, metadata.generate_name, metadata.labels, owners)
    )


def name_root_owner(pod: PodMetadata) -> str:
    """Return `kind/name` of the root owner, cut: a reference can have a megabyte of either."""
    kind, _, name = find_root_owner("", pod).removeprefix("/").partition("/")
    return format_owner(kind, name)


def format_owner(kind: str, name: str) -> str:
    """Return `kind/name`, cut.

    No kind begins with a parenthesis, as what stands in the books for an unknown owner does, but
    anybody can write such a reference.
    """
    return f"{kind.lstrip('(')[:_MAX_NAME]}/{name[:_MAX_NAME]}"


class DeviceUsers:
    """The containers of a pod, by the requests of claims that they use.

    It is made once for all devices of a pod, which can have thousands of uses.
    """

    def __init__(self, pod: HangingPod) -> None:
        claims: dict[str, set[str]] = {}
        for entry in (
            *(pod.spec.resource_claims or ()),
            *(pod.status.resource_claim_statuses or ()),
        ):
            if entry.resource_claim_name:
                claims.setdefault(entry.name, set()).add(entry.resource_claim_name)
        self._users = tuple(
            _select_users(
                ((claim, use.request or ""), container.name)
                for container in containers or ()
                for use in container.resources.claims or ()
                for claim in claims.get(use.name, ())
            )
            for containers in (pod.spec.containers, pod.spec.init_containers)
        )
        extended = pod.status.extended_resource_claim_status
        mappings = extended.request_mappings or () if extended is not None else ()
        self._extended = extended.resource_claim_name if extended is not None else None
        self._mapped = _select_users((each.request_name, each.container_name) for each in mappings)

    def find(self, claim: str, request: str) -> str:
        """Return the container that uses a request; empty if several can, or if it is unknown.

        Init containers count if no others use the request.
        """
        if claim == self._extended:
            return self._mapped.get(request, "")
        for users in self._users:
            if using := {users[use] for use in ((claim, ""), (claim, request)) if use in users}:
                return using.pop() if len(using) == 1 else ""
        return ""


def _select_users(uses: Iterable[tuple[K, str]]) -> Mapping[K, str]:
    """Return the only container that uses each thing; empty if several do."""
    users: dict[K, str] = {}
    for used, container in uses:
        users[used] = container if users.get(used, container) == container else ""
    return users


def read_device_pod(raw: bytes) -> HangingPod:
    """Read a pod; NO_DEVICES if it has none."""
    pod = _POD.decode(raw)
    return _shorten_pod(pod) if has_devices(pod) else NO_DEVICES


def _shorten_pod(pod: HangingPod) -> HangingPod:
    """Leave out what nobody reads; the root owner is kept as the only owner."""
    kind, _, name = find_owner(pod).partition("/")
    owner = Owner(kind, name, controller=True)
    spec = replace(
        pod.spec,
        scheduling_gates=_GATED if pod.spec.scheduling_gates else None,
        containers=_shorten_containers(pod.spec.containers),
        init_containers=_shorten_containers(pod.spec.init_containers),
    )
    conditions = tuple(
        replace(each, reason=None, message=None)
        for each in pod.status.conditions or ()
        if each.type in POD_CONDITIONS
    )
    return replace(
        pod,
        metadata=_shorten_metadata(pod.metadata, owner),
        spec=spec,
        status=replace(pod.status, conditions=conditions or None),
    )


def _shorten_containers(
    containers: tuple[HangingContainer, ...] | None,
) -> tuple[HangingContainer, ...] | None:
    """Keep the containers that have devices, without other resources."""
    kept = []
    for container in containers or ():
        resources = container.resources
        asked = {k: n for k, n in (resources.limits or {}).items() if is_asked(k, n)}
        if asked or resources.claims:
            kept.append(replace(container, resources=replace(resources, limits=asked)))
    return tuple(kept) or None


def reduce_device_pod(pod: HangingPod) -> HangingPod:
    """Return what must be known of a pod whatever it takes: the first parts of each list."""
    if pod is NO_DEVICES:
        return pod
    spec, status, entries = pod.spec, pod.status, _first(pod.spec.resource_claims)
    statuses, extended = status.container_statuses or (), status.extended_resource_claim_status
    kept = {entry.name for entry in entries or ()}
    named = tuple(each for each in status.resource_claim_statuses or () if each.name in kept)
    return replace(
        pod,
        spec=replace(
            spec,
            scheduler_name=spec.scheduler_name[:_MAX_NAME],
            resource_claims=entries,
            containers=_reduce_containers(spec.containers),
            init_containers=_reduce_containers(spec.init_containers),
        ),
        status=replace(
            status,
            # They tell something only if they are all there.
            container_statuses=None if len(statuses) > _MOST_PARTS else statuses,
            # Without that of an entry which is kept, the pod would seem to lack a claim.
            resource_claim_statuses=_first(named) or None,
            extended_resource_claim_status=extended and replace(extended, request_mappings=None),
        ),
    )


def _reduce_containers(
    containers: tuple[HangingContainer, ...] | None,
) -> tuple[HangingContainer, ...] | None:
    kept = []
    for container in _first(containers) or ():
        resources = container.resources
        limits = _first((*(resources.limits or {}).items(),)) or ()
        few = replace(resources, limits=dict(limits), claims=_first(resources.claims))
        kept.append(replace(container, resources=few))
    return tuple(kept)


def _first(parts: tuple[T, ...] | None) -> tuple[T, ...] | None:
    return parts and parts[:_MOST_PARTS]
