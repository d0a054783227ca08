"""Generates the claims of a pod: from templates, and for extended resources.

The names follow those of the control plane, except that the random suffix is a hash of the input.
The same pod gets the same names and share IDs.
"""

import hashlib
import uuid
from collections.abc import Mapping

from msgspec.structs import replace

from drawbridge.dra.allocation import AllocationResult
from drawbridge.dra.claim import (
    EXTENDED_ANNOTATION,
    Claim,
    ClaimMetadata,
    ClaimSpec,
    Devices,
    Template,
)
from drawbridge.ledger.extended_resources import ServingClass, compose_requests
from drawbridge.ledger.pods import Pod, PodClaim

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
# The lengths of the base of a generated name, so that the name has at most 63 characters.
MAX_BASE_LENGTH, MAX_CONTROLLER_BASE_LENGTH = 58, 57
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SPACE = uuid.UUID("6f1d3c52-8d5e-5b7c-9a44-0f2f6d1f7a10")


def generate_name(base: str, hash_input: str) -> str:
    """Return a name like the API server generates from `base`."""
    number = int.from_bytes(hashlib.sha256(hash_input.encode()).digest()[:8])
    letters = ""
    for _ in range(5):
        number, digit = divmod(number, len(_LETTERS))
        letters += _LETTERS[digit]
    return base[:MAX_BASE_LENGTH] + letters


def with_name(pod: Pod, number: int) -> Pod:
    """Return a pod with a name, generated from `generateName` if it has none."""
    if pod.metadata.name:
        return pod
    base = pod.metadata.generate_name or "pod-"
    name = generate_name(base, f"{pod.namespace}/{base}/{number}")
    return replace(pod, metadata=replace(pod.metadata, name=name))


def claim_from_template(pod: Pod, entry: PodClaim, template: Template) -> Claim:
    """Generate the claim of a pod from a template."""
    base = f"{pod.metadata.name}-{entry.name}-"
    if len(base) > MAX_CONTROLLER_BASE_LENGTH:
        # Both parts are truncated in proportion to their length.
        first = len(pod.metadata.name) * MAX_CONTROLLER_BASE_LENGTH // len(base)
        second = len(entry.name) * MAX_CONTROLLER_BASE_LENGTH // len(base)
        base = f"{pod.metadata.name[:first]}-{entry.name[:second]}"
    template_metadata = template.spec.metadata
    metadata = ClaimMetadata(
        name=generate_name(base, f"{pod.full_name}/{entry.name}"),
        namespace=pod.namespace,
        labels=template_metadata.labels,
        annotations={**template_metadata.annotations, POD_CLAIM: entry.name},
        generate_name=base,
    )
    return Claim(metadata=metadata, spec=template.spec.spec)


def claim_for_extended_resources(pod: Pod, classes: Mapping[str, ServingClass]) -> Claim | None:
    """Generate the claim that the scheduler creates for a pod's extended resources of classes."""
    requests = compose_requests(pod, classes)
    if not requests:
        return None
    base = f"{pod.metadata.name}-extended-resources-"
    metadata = ClaimMetadata(
        name=generate_name(base, f"{pod.full_name}/{base}"),
        namespace=pod.namespace,
        annotations={EXTENDED_ANNOTATION: "true"},
        generate_name=base,
    )
    return Claim(metadata=metadata, spec=ClaimSpec(Devices(requests)))


def generate_share_id(claim: str, number: int, result: AllocationResult) -> str:
    """Return a share ID that depends only on the claim, the number of the result and the device."""
    parts = (claim, f"{number}", result.request, result.driver, result.pool, result.device)
    return str(uuid.uuid5(_SPACE, "\n".join(parts)))
