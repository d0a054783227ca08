"""The requests and responses of the calls that plan: moves for a pod, and more for a claim."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allocator.api.messages import (
    ApiCall,
    DeviceReason,
    HeldDevice,
    NamespaceName,
    ObjectName,
    ResponsePart,
    SimulatedClaim,
)
from drawbridge.ledger.node_holds import MAX_HOLD_SECONDS


class DefragRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Names the pod that waits, and for how long what the plan frees is to be held for it."""

    namespace: NamespaceName
    name: ObjectName
    hold_seconds: Annotated[
        int,
        Meta(
            ge=0,
            le=int(MAX_HOLD_SECONDS),
            description="Add the commands that hold it; 0 for no hold. The call holds nothing.",
        ),
    ] = 0


class PlannedMove(ResponsePart, frozen=True):
    """A pod that leaves the node, and where it fits then."""

    namespace: str
    pod: str
    owner: Annotated[str, Meta(description="The kind of the owner that creates it again.")]
    to_node: str
    claims: tuple[SimulatedClaim, ...]


class DefragReply(ResponsePart, frozen=True):
    """The fewest moves after which a pod fits, as commands. Nothing is changed."""

    namespace: str
    pod: str
    leading: bool
    node: Annotated[str, Meta(description="Where the pod fits; empty without a plan.")] = ""
    claims: tuple[SimulatedClaim, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    proven: Annotated[bool, Meta(description="Whether every smaller set of pods was tried.")] = (
        False
    )
    commands: tuple[str, ...] = ()
    reasons: Annotated[tuple[str, ...], Meta(description="Why there is no plan.")] = ()


class AdjustRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names an allocated claim, and what a request of it should have: a count or a capacity."""

    namespace: NamespaceName
    name: ObjectName
    request: Annotated[
        str, Meta(max_length=253, description="The request; by default the only one of the claim.")
    ] = ""
    count: Annotated[int, Meta(ge=0, le=1024, description="As many devices in total.")] = 0
    capacity: Annotated[
        str, Meta(max_length=256, description="The name of a capacity, such as `memory`.")
    ] = ""
    amount: Annotated[
        str, Meta(max_length=64, description="As much of it of each device, such as `40Gi`.")
    ] = ""


class AdjustReply(ResponsePart, frozen=True):
    """Whether the claim could have so much if a new claim took its place. Nothing is changed."""

    namespace: str
    claim: str
    leading: bool
    fits: Annotated[bool, Meta(description="Whether it could on the node of the claim.")]
    node: Annotated[str, Meta(description="Its node, if the caller may list nodes.")] = ""
    keeps_devices: bool = False
    devices: tuple[HeldDevice, ...] = ()
    most: Annotated[
        str, Meta(description="How far it could grow; empty if not even its own size fits.")
    ] = ""
    helps: Annotated[
        bool, Meta(description="Whether it would fit without the fewest pods that are told.")
    ] = False
    without: Annotated[
        tuple[str, ...],
        Meta(description="Those in namespaces where the caller may list ResourceClaims."),
    ] = ()
    other_without: Annotated[int, Meta(description="How many others of them there are.")] = 0
    elsewhere: Annotated[int, Meta(description="On how many other nodes it would fit now.")] = 0
    elsewhere_nodes: Annotated[
        tuple[str, ...], Meta(description="The first of them, if the caller may list nodes.")
    ] = ()
    cut: Annotated[
        bool,
        Meta(
            description="Whether the search ended early: fewer pods may be enough, and more nodes."
        ),
    ] = False
    reasons: tuple[DeviceReason, ...] = ()


DEFRAG: Final = ApiCall("POST", "/v1/defrag", DefragReply, DefragRequest)
ADJUST: Final = ApiCall("POST", "/v1/adjust", AdjustReply, AdjustRequest)
