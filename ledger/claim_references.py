"""The claims that a pod means: existing ones by name, its own ones made of templates."""

from collections.abc import Iterator, Mapping

import msgspec

from dra.claim import CLAIM, TEMPLATE, Claim, Template, request_names
from dra.finding import Code
from dra.validation import CONSUMERS
from ledger import codes, generated_claims
from ledger.ledger import name_of
from ledger.node_fit import make_reason
from ledger.pods import Pod, PodClaim
from solver.reasons import Reason


class PodClaims(msgspec.Struct, frozen=True):
    """The claims of a pod in its order, and what is wrong with how it names them."""

    claims: tuple[Claim, ...]
    problems: tuple[Reason, ...] = ()


class _WrongError(Exception):
    """What is wrong with a reference."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code


def find_pod_claims(
    pod: Pod, claims: Mapping[str, Claim], templates: Mapping[str, Template]
) -> PodClaims:
    """Find a pod's claims by `namespace/name`, or make those that come from templates."""
    found: dict[str, Claim | None] = {}
    problems: list[Reason] = []
    for number, entry in enumerate(pod.spec.resource_claims):
        found[entry.name] = None
        try:
            found[entry.name] = _claim(pod, entry, claims, templates)
        except _WrongError as wrong:
            path = f"spec.resourceClaims[{number}]"
            problems.append(make_reason(wrong.code, "claims", f"{path}: {wrong}"))
    problems += _misused(pod, found)
    # Two names may mean one claim; it is allocated once.
    claims_found = {name_of(each): each for each in found.values() if each is not None}
    return PodClaims(tuple(claims_found.values()), tuple(problems))


def _claim(
    pod: Pod, entry: PodClaim, claims: Mapping[str, Claim], templates: Mapping[str, Template]
) -> Claim | None:
    own, template = entry.resource_claim_name, entry.resource_claim_template_name
    if bool(own) == bool(template):
        text = "it must name exactly one of resourceClaimName and resourceClaimTemplateName"
        raise _WrongError(codes.CLAIM_REFERENCE_WRONG, text)
    if template:
        made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        if entry.name in made and not made[entry.name]:
            return None
        own = made.get(entry.name)
        if not own:
            return _made(pod, entry, claims, templates)
    claim = claims.get(f"{pod.namespace}/{own}")
    if claim is None:
        raise _WrongError(codes.CLAIM_MISSING, f"there is no {CLAIM} {pod.namespace}/{own}")
    return _usable(claim, pod)


def _made(
    pod: Pod, entry: PodClaim, claims: Mapping[str, Claim], templates: Mapping[str, Template]
) -> Claim:
    name = f"{pod.namespace}/{entry.resource_claim_template_name}"
    template = templates.get(name)
    if template is None:
        raise _WrongError(codes.CLAIM_MISSING, f"there is no {TEMPLATE} {name}")
    claim = generated_claims.claim_from_template(pod, entry, template)
    # A pod that is placed a second time has its claim already.
    return _usable(claims.get(name_of(claim), claim), pod)


def _usable(claim: Claim, pod: Pod) -> Claim:
    what = f"{CLAIM} {name_of(claim)}"
    if claim.metadata.deletion_timestamp:
        raise _WrongError(codes.CLAIM_UNUSABLE, f"{what} is being deleted")
    consumers = claim.status.reserved_for
    if len(consumers) >= CONSUMERS and not any(_is(pod, each.name, each.uid) for each in consumers):
        text = f"{what} is used by {len(consumers)} pods, more cannot be"
        raise _WrongError(codes.CLAIM_UNUSABLE, text)
    return claim


def _is(pod: Pod, name: str, uid: str) -> bool:
    return name == pod.metadata.name and (not pod.metadata.uid or uid == pod.metadata.uid)


def _misused(pod: Pod, found: Mapping[str, Claim | None]) -> Iterator[Reason]:
    """Find what containers use and the pod does not have."""
    init = len(pod.spec.init_containers)
    for number, container in enumerate(pod.containers()):
        kind, index = ("initContainers", number) if number < init else ("containers", number - init)
        for i, use in enumerate(container.resources.claims):
            path = f"spec.{kind}[{index}].resources.claims[{i}]"
            text = ""
            if use.name not in found:
                text = f"{path}: the pod has no claim {use.name}"
            elif (claim := found[use.name]) is not None and use.request:
                main = {name.partition("/")[0] for name in request_names(claim.spec.devices)}
                if use.request not in main:
                    text = f"{path}: {CLAIM} {name_of(claim)} has no request {use.request}"
            if text:
                yield make_reason(codes.CLAIM_REFERENCE_WRONG, "claims", text)
