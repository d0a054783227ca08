"""Resolves the claim references of a pod: existing claims, and claims from templates."""

from collections.abc import Iterator, Mapping

import msgspec

from drawbridge.dra.allocation import MAX_CONSUMERS
from drawbridge.dra.claim import CLAIM, TEMPLATE, Claim, Template, request_names
from drawbridge.finding import Code
from drawbridge.ledger import codes, generated_claims
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.node_fit import make_reason
from drawbridge.ledger.pods import Pod, PodClaim
from drawbridge.solver.reasons import Reason


class PodClaims(msgspec.Struct, frozen=True):
    """The claims of a pod in order, and the errors in its references."""

    claims: tuple[Claim, ...]
    problems: tuple[Reason, ...] = ()


class _ReferenceError(Exception):
    """An error in a claim reference."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def find_pod_claims(
    pod: Pod, claims: Mapping[str, Claim], templates: Mapping[str, Template]
) -> PodClaims:
    """Find a pod's claims by `namespace/name`; generate those that come from templates."""
    by_entry: dict[str, Claim | None] = {}
    problems: list[Reason] = []
    for number, entry in enumerate(pod.spec.resource_claims):
        by_entry[entry.name] = None
        try:
            by_entry[entry.name] = _find_claim(pod, entry, claims, templates)
        except _ReferenceError as error:
            path = f"spec.resourceClaims[{number}]"
            problems.append(make_reason(error.code, "claims", f"{path}: {error}"))
    problems += _find_misused(pod, by_entry)
    # Two references can name one claim, which is allocated once.
    claims_found = {name_of(each): each for each in by_entry.values() if each is not None}
    return PodClaims(tuple(claims_found.values()), tuple(problems))


def _find_claim(
    pod: Pod, entry: PodClaim, claims: Mapping[str, Claim], templates: Mapping[str, Template]
) -> Claim | None:
    claim_name, template = entry.resource_claim_name, entry.resource_claim_template_name
    if bool(claim_name) == bool(template):
        text = "must set exactly one of resourceClaimName and resourceClaimTemplateName"
        raise _ReferenceError(codes.CLAIM_REFERENCE_WRONG, text)
    if template:
        generated = pod.generated
        if entry.name in generated and not generated[entry.name]:
            return None
        claim_name = generated.get(entry.name)
        if not claim_name:
            return _find_generated_claim(pod, entry, claims, templates)
    claim = claims.get(f"{pod.namespace}/{claim_name}")
    if claim is None:
        raise _ReferenceError(
            codes.CLAIM_MISSING, f"{CLAIM} {pod.namespace}/{claim_name} does not exist"
        )
    return _check_usable(claim, pod)


def _find_generated_claim(
    pod: Pod, entry: PodClaim, claims: Mapping[str, Claim], templates: Mapping[str, Template]
) -> Claim:
    name = f"{pod.namespace}/{entry.resource_claim_template_name}"
    template = templates.get(name)
    if template is None:
        raise _ReferenceError(codes.CLAIM_MISSING, f"{TEMPLATE} {name} does not exist")
    claim = generated_claims.claim_from_template(pod, entry, template)
    # A pod that was placed before has its claim already.
    return _check_usable(claims.get(name_of(claim), claim), pod)


def _check_usable(claim: Claim, pod: Pod) -> Claim:
    what = f"{CLAIM} {name_of(claim)}"
    if claim.metadata.deletion_timestamp:
        raise _ReferenceError(codes.CLAIM_UNUSABLE, f"{what} is being deleted")
    consumers = claim.status.reserved_for
    if len(consumers) >= MAX_CONSUMERS and not any(
        _is_consumer(pod, consumer.name, consumer.uid) for consumer in consumers
    ):
        text = f"{what} is reserved for {len(consumers)} pods, which is the maximum"
        raise _ReferenceError(codes.CLAIM_UNUSABLE, text)
    return claim


def _is_consumer(pod: Pod, name: str, uid: str) -> bool:
    return name == pod.metadata.name and (not pod.metadata.uid or uid == pod.metadata.uid)


def _find_misused(pod: Pod, by_entry: Mapping[str, Claim | None]) -> Iterator[Reason]:
    """Yield the claims and requests that containers use but the pod does not have."""
    init = len(pod.spec.init_containers)
    for number, container in enumerate(pod.containers()):
        kind, index = ("initContainers", number) if number < init else ("containers", number - init)
        for i, use in enumerate(container.resources.claims):
            path = f"spec.{kind}[{index}].resources.claims[{i}]"
            text = ""
            if use.name not in by_entry:
                text = f"{path}: the pod has no claim {use.name}"
            elif (claim := by_entry[use.name]) is not None and use.request:
                main = {name.partition("/")[0] for name in request_names(claim.spec.devices)}
                if use.request not in main:
                    text = f"{path}: {CLAIM} {name_of(claim)} has no request {use.request}"
            if text:
                yield make_reason(codes.CLAIM_REFERENCE_WRONG, "claims", text)
