"""The claims that are made for a pod: from templates, and for extended resources.

They are named as the control plane names them, but for the last letters, which are drawn from what
they are made of instead of by chance: the same pod gets the same names and the same share ids.
"""

import hashlib
import uuid

from msgspec.structs import replace

from dra.claim import Claim, ClaimMetadata, ClaimSpec, Devices, Request, Template
from ledger.pods import Pod, PodClaim
from solver.results import AllocationJSON

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
EXTENDED = "resource.kubernetes.io/extended-resource-claim"
# The base of a generated name, so that the name has at most 63 letters.
LONGEST_BASE, LONGEST_OF_CONTROLLER = 58, 57
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SPACE = uuid.UUID("6f1d3c52-8d5e-5b7c-9a44-0f2f6d1f7a10")


def generate_name(base: str, made_of: str) -> str:
    """Give a name as the API server generates it from `base`."""
    number = int.from_bytes(hashlib.sha256(made_of.encode()).digest()[:8])
    letters = ""
    for _ in range(5):
        number, digit = divmod(number, len(_LETTERS))
        letters += _LETTERS[digit]
    return base[:LONGEST_BASE] + letters


def with_name(pod: Pod, number: int) -> Pod:
    """Give a pod with a name; one that only says with what its name begins gets the rest."""
    if pod.metadata.name:
        return pod
    base = pod.metadata.generate_name or "pod-"
    name = generate_name(base, f"{pod.namespace}/{base}/{number}")
    return replace(pod, metadata=replace(pod.metadata, name=name))


def claim_from_template(pod: Pod, entry: PodClaim, template: Template) -> Claim:
    """Make a pod's own claim of a template."""
    base = f"{pod.metadata.name}-{entry.name}-"
    if len(base) > LONGEST_OF_CONTROLLER:
        # Both parts are cut, each as much as it is long.
        first = len(pod.metadata.name) * LONGEST_OF_CONTROLLER // len(base)
        second = len(entry.name) * LONGEST_OF_CONTROLLER // len(base)
        base = f"{pod.metadata.name[:first]}-{entry.name[:second]}"
    given = template.spec.metadata
    metadata = ClaimMetadata(
        name=generate_name(base, f"{pod.namespace}/{pod.metadata.name}/{entry.name}"),
        namespace=pod.namespace,
        labels=given.labels,
        annotations={**given.annotations, POD_CLAIM: entry.name},
        generate_name=base,
    )
    return Claim(metadata=metadata, spec=template.spec.spec)


def claim_for_extended_resources(pod: Pod, requests: tuple[Request, ...]) -> Claim:
    """Make the claim that the scheduler makes for a pod's extended resources."""
    base = f"{pod.metadata.name}-extended-resources-"
    metadata = ClaimMetadata(
        name=generate_name(base, f"{pod.namespace}/{pod.metadata.name}/{base}"),
        namespace=pod.namespace,
        annotations={EXTENDED: "true"},
        generate_name=base,
    )
    return Claim(metadata=metadata, spec=ClaimSpec(Devices(requests)))


def with_share_ids(allocation: AllocationJSON, claim: str) -> AllocationJSON:
    """Give an allocation with share ids that depend on nothing but what is shared by whom."""
    results = [
        {**each, "shareID": _share_id(claim, number, each)} if "shareID" in each else each
        for number, each in enumerate(allocation["devices"].get("results", ()))
    ]
    if not results:
        return allocation
    return {**allocation, "devices": {**allocation["devices"], "results": results}}


def _share_id(claim: str, number: int, result: AllocationJSON) -> str:
    parts = (claim, f"{number}", *(result[key] for key in ("request", "driver", "pool", "device")))
    return str(uuid.uuid5(_SPACE, "\n".join(parts)))
