"""Reads the bodies of requests strictly: whatever they contain, the result is a value or a failure.

The objects of a simulation describe pods that do not exist, so their identity and status are
dropped. Decoding them can take half a second, so only a copy of the process does it. The names are
enough to ask about rights before that.
"""

import re
from collections.abc import Collection, Iterator, Sequence
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
from drawbridge.dra.allocation import ClaimStatus
from drawbridge.dra.claim import Claim, Template, claim_reader, template_reader
from drawbridge.dra.decode import Reader
from drawbridge.foreign_json import UNDECODABLE, ForeignDecoder
from drawbridge.ledger.generated_claims import with_name
from drawbridge.ledger.pods import Pod, PodStatus, pod_reader
from drawbridge.ledger.stages import PodStages

_PODS: Final[Reader[Pod]] = pod_reader()
_CLAIMS: Final[Reader[Claim]] = claim_reader()
_TEMPLATES: Final[Reader[Template]] = template_reader()
# Each is one question about rights.
MAX_NAMESPACES: Final = 10
_NAME: Final = re.compile(NAME)
S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T", Pod, Claim, Template)


class _Names(msgspec.Struct):
    namespace: str | None = None
    name: str | None = None


class _NamedObject(msgspec.Struct):
    metadata: _Names | None = None


def decode_request(body: bytes | msgspec.Raw, kind: type[S], where: str = "") -> S:
    """Decode a body, or the part of it at a path; raises ApiFailureError with the error's path."""
    try:
        return ForeignDecoder[S](kind).decode(body)
    except UNDECODABLE as error:
        message, _, path = f"{error}".partition(" - at `$")
        path = (where + path.removesuffix("`")).removeprefix(".")
        raise ApiFailureError(FailureCode.BAD_REQUEST, message, path) from None


def namespaces_of(request: SimulationRequest) -> Collection[str]:
    """Return the namespaces of all objects, sorted; raises ApiFailureError.

    The names are checked, and nothing else of the objects.
    """
    namespaces = set(_namespaces(request))
    if len(namespaces) > MAX_NAMESPACES:
        text = (
            f"the objects are in {len(namespaces)} namespaces, at most {MAX_NAMESPACES} are allowed"
        )
        raise ApiFailureError(FailureCode.BAD_REQUEST, text)
    return sorted(namespaces)


def _namespaces(request: SimulationRequest) -> Iterator[str]:
    for kind in ("pods", "claims", "templates"):
        for number, raw in enumerate(getattr(request, kind)):
            where = f"{kind}[{number}]"
            names = decode_request(raw, _NamedObject, where).metadata or _Names()
            if names.namespace:
                check_name(names.namespace, f"{where}.metadata.namespace", 63)
            if names.name:
                check_name(names.name, f"{where}.metadata.name", 253)
            yield names.namespace or "default"


def read_simulation(request: SimulationRequest) -> PodsToSimulate:
    """Read the objects of a simulation, whose names are checked; raises ApiFailureError."""
    pods = _decode_each(_PODS, request.pods, "pods")
    claims = _decode_each(_CLAIMS, request.claims, "claims")
    templates = _decode_each(_TEMPLATES, request.templates, "templates")
    return PodsToSimulate(
        pods=tuple(_new_pod(each, number) for number, each in enumerate(pods, 1)),
        claims=tuple(map(_new_claim, claims)),
        templates=templates,
        preempt=request.preempt,
        stages=request.stages,
    )


def _decode_each(reader: Reader[T], raw: Sequence[msgspec.Raw], where: str) -> tuple[T, ...]:
    objects = []
    for number, value in enumerate(raw):
        decoded = reader.read(value)
        if isinstance(decoded, tuple):
            path = f"{where}[{number}]" + (f".{decoded[0].path}" if decoded[0].path else "")
            raise ApiFailureError(FailureCode.BAD_REQUEST, decoded[0].message, path)
        objects.append(decoded)
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


def without_nodes(reasons: Sequence[DeviceReason]) -> tuple[DeviceReason, ...]:
    """Return reasons without the names of nodes."""
    return tuple(replace(reason, example="") for reason in reasons)


def without_names_of_nodes(stages: PodStages) -> PodStages:
    """Return the stages for a caller who may not list nodes."""
    nodes = tuple(replace(each, rejected=()) for each in stages.nodes)
    return replace(stages, nodes=nodes)


def without_victims(pod: SimulatedPod, readable: Collection[str]) -> SimulatedPod:
    """Return a placement whose victims in other namespaces are counted."""
    named = [each for each in pod.preempted if each.partition("/")[0] in readable]
    others = len(pod.preempted) - len(named)
    return replace(pod, preempted=tuple(named), other_preempted=others)
