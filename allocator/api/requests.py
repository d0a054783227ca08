"""Reads the bodies of requests strictly: whatever they contain, the result is a value or a failure.

What a simulation is sent describes pods that do not exist: their identity and status are dropped.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from allocator.api.messages import (
    NAME,
    ApiFailureError,
    DeviceReason,
    FailureCode,
    SimulatedPod,
    SimulationRequest,
)
from allocator.api.searching import PodsToSimulate
from dra.allocation import ClaimStatus
from dra.claim import Claim, Template, claim_reader, template_reader
from dra.decode import Reader
from ledger.generated_claims import with_name
from ledger.pods import Pod, PodStatus, pod_reader

_UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
_PODS: Final[Reader[Pod]] = pod_reader()
_CLAIMS: Final[Reader[Claim]] = claim_reader()
_TEMPLATES: Final[Reader[Template]] = template_reader()
# Each is one question about rights.
MAX_NAMESPACES: Final = 10
_NAME: Final = re.compile(NAME)
S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T", Pod, Claim, Template)


def decode_request(body: bytes, kind: type[S]) -> S:
    """Decode a body; raises ApiFailureError with the path of the error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except _UNDECODABLE as error:
        message, _, path = f"{error}".partition(" - at `$")
        path = path.removesuffix("`").removeprefix(".")
        raise ApiFailureError(FailureCode.BAD_REQUEST, message, path) from None


def read_simulation(request: SimulationRequest) -> PodsToSimulate:
    """Read the objects of a simulation; raises ApiFailureError."""
    pods = _read(_PODS, request.pods, "pods")
    claims = _read(_CLAIMS, request.claims, "claims")
    templates = _read(_TEMPLATES, request.templates, "templates")
    return PodsToSimulate(
        pods=tuple(_new_pod(each, number) for number, each in enumerate(pods, 1)),
        claims=tuple(map(_new_claim, claims)),
        templates=templates,
        preempt=request.preempt,
    )


def _read(reader: Reader[T], raw: Sequence[msgspec.Raw], where: str) -> tuple[T, ...]:
    objects = []
    for number, each in enumerate(raw):
        found = reader.read(each)
        if isinstance(found, tuple):
            path = f"{where}[{number}]" + (f".{found[0].path}" if found[0].path else "")
            raise ApiFailureError(FailureCode.BAD_REQUEST, found[0].message, path)
        metadata = found.metadata
        for name, text, most in (
            ("namespace", metadata.namespace, 63),
            ("name", metadata.name, 253),
        ):
            if text:
                check_name(text, f"{where}[{number}].metadata.{name}", most)
        objects.append(found)
    return tuple(objects)


def check_name(name: str, path: str, most: int) -> None:
    """Raise ApiFailureError unless a text can be the name of an object."""
    if len(name) > most or not _NAME.fullmatch(name):
        text = f"{name[:most]!r} is not a valid name"
        raise ApiFailureError(FailureCode.BAD_REQUEST, text, path)


def _new_pod(pod: Pod, number: int) -> Pod:
    named = with_name(pod, number)
    metadata = replace(named.metadata, uid="", resource_version="", deletion_timestamp=None)
    return replace(named, metadata=metadata, status=PodStatus())


def _new_claim(claim: Claim) -> Claim:
    metadata = replace(claim.metadata, uid="", resource_version="", deletion_timestamp=None)
    return replace(claim, metadata=metadata, status=ClaimStatus())


def namespaces_of(given: PodsToSimulate) -> Collection[str]:
    """Return the namespaces of all objects, sorted; raises ApiFailureError if there are many."""
    found = {each.namespace for each in given.pods}
    others = (*given.claims, *given.templates)
    found |= {each.metadata.namespace or "default" for each in others}
    if len(found) > MAX_NAMESPACES:
        text = f"the objects are in {len(found)} namespaces, at most {MAX_NAMESPACES} are allowed"
        raise ApiFailureError(FailureCode.BAD_REQUEST, text)
    return sorted(found)


def without_nodes(reasons: Sequence[DeviceReason]) -> tuple[DeviceReason, ...]:
    """Return reasons without the names of nodes."""
    return tuple(replace(each, example="") for each in reasons)


def without_victims(pod: SimulatedPod, readable: Collection[str]) -> SimulatedPod:
    """Return a placement whose victims in other namespaces are counted."""
    named = [each for each in pod.preempted if each.partition("/")[0] in readable]
    others = len(pod.preempted) - len(named)
    return replace(pod, preempted=tuple(named), other_preempted=others)
