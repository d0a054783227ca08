"""Decodes claims and pods as the caches of the controller keep them: with what tells who is stuck.

A pod without devices is kept as one value that all such pods share.
"""

from typing import Final

import msgspec

from drawbridge.agreement.scope import PodMetadata, PodOwner, find_root_owner
from drawbridge.report.stuck.objects import HangingClaim, HangingPod
from drawbridge.report.stuck.pods import has_devices
from drawbridge.usage.claims import ClaimHolding, read_claim_use

NO_DEVICES: Final = HangingPod()
_POD: Final = msgspec.json.Decoder(HangingPod, strict=False)
_CLAIM: Final = msgspec.json.Decoder(HangingClaim, strict=False)


class WatchedClaim(ClaimHolding, frozen=True):
    """A claim: what it holds, and what keeps it."""

    hanging: HangingClaim = HangingClaim()


def read_watched_claim(raw: bytes) -> WatchedClaim:
    """Read a claim of `resource.k8s.io/v1`; raises msgspec.DecodeError or ValueError."""
    use = read_claim_use(raw)
    held = {name: getattr(use, name) for name in use.__struct_fields__}
    return WatchedClaim(**held, hanging=_CLAIM.decode(raw))


def find_owner(pod: HangingPod) -> str:
    """Return the root owner of a pod, as far as the pod shows it."""
    metadata = pod.metadata
    owners = tuple(
        PodOwner(each.kind, each.name, each.controller is True)
        for each in metadata.owner_references or ()
    )
    root = PodMetadata(metadata.name, metadata.generate_name, metadata.labels, owners)
    return find_root_owner("", root).removeprefix("/")


def find_users(pod: HangingPod, claim: str, request: str) -> tuple[str, ...]:
    """Return the containers that use a request of a claim; init containers if no others do."""
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name == claim:
        mappings = extended.request_mappings or ()
        return tuple(e.container_name for e in mappings if e.request_name == request)
    entries = (*(pod.spec.resource_claims or ()), *(pod.status.resource_claim_statuses or ()))
    names = {each.name for each in entries if each.resource_claim_name == claim}
    for containers in (pod.spec.containers, pod.spec.init_containers):
        users = tuple(
            each.name
            for each in containers or ()
            if any(
                use.name in names and use.request in {None, "", request}
                for use in each.resources.claims or ()
            )
        )
        if users:
            return users
    return ()


def read_device_pod(raw: bytes) -> HangingPod:
    """Read a pod; NO_DEVICES if it has none."""
    pod = _POD.decode(raw)
    return pod if has_devices(pod) else NO_DEVICES
