"""The calls between the scheduler plugin and the allocator, and the rule for their versions.

HTTP/1.1 and JSON over a unix socket. Every call can be repeated; the UID of the pod identifies what
it is about. Unknown fields are ignored and new fields have defaults, so that the plugin and the
allocator can differ by one minor version.
"""

import enum
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta, field

from allocator.schemas import describe_types
from drawbridge.dra.taints import Toleration
from drawbridge.ledger.pods import NodeAffinity

VERSION: Final = (1, 3)
VERSION_TEXT: Final = ".".join(map(str, VERSION))
HEADER: Final = "Drawbridge-Protocol"
MAX_BODY_BYTES: Final = 4 << 20
MAX_MESSAGE_BYTES: Final = 1024
_VERSION: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
_SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

PodUID = Annotated[str, Meta(min_length=1, max_length=256)]
NodeName = Annotated[str, Meta(min_length=1, max_length=253)]


class ErrorCode(enum.StrEnum):
    """Why a call has no reply."""

    BAD_REQUEST = "BadRequest"
    NOT_LEADING = "NotLeading"
    TOO_LARGE = "TooLarge"
    VERSION = "Version"
    NOT_READY = "NotReady"
    BUG = "Bug"


HTTP_STATUS: Final[Mapping[ErrorCode, int]] = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.NOT_LEADING: 409,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.VERSION: 426,
    ErrorCode.NOT_READY: 503,
    ErrorCode.BUG: 500,
}


class _Message(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A message of the protocol: its fields have the names of Go in JSON."""


class ClaimsOfGroup(_Message, frozen=True):
    """A PodGroup of Kubernetes, and the claims of a pod that are reserved for it."""

    name: str
    uid: Annotated[str, Meta(min_length=1, max_length=256)]
    claims: Annotated[tuple[str, ...] | None, Meta(description="Their UIDs.")] = None


class SchedulingPod(_Message, frozen=True):
    """What the allocator reads of a pod that is being scheduled. Go writes null for empty."""

    namespace: str
    name: str
    uid: PodUID
    priority: int = 0
    node_selector: Mapping[str, str] | None = None
    node_affinity: NodeAffinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    node_name: str = ""
    claims_of_group: Annotated[
        ClaimsOfGroup | None,
        Meta(description="The claims that are reserved for the group instead of the pod, if any."),
    ] = None


class GroupReference(_Message, frozen=True):
    """The group of pods that are scheduled together or not at all."""

    key: Annotated[
        str,
        Meta(min_length=1, max_length=1024, description="Its identity, with the namespace."),
    ]
    min_count: Annotated[
        int,
        Meta(ge=0, description="How many members must run; 0 for those that exist."),
    ] = 0
    scheduled: Annotated[
        int, Meta(ge=0, description="How many members have a node, or are held at Permit.")
    ] = 0


class PreFilterRequest(_Message, frozen=True):
    """Asks on which nodes the claims of a pod can be allocated now."""

    pod: SchedulingPod
    claims: Annotated[
        tuple[msgspec.Raw, ...] | None,
        Meta(
            description=(
                "The claims of the pod as objects of resource.k8s.io/v1, as the scheduler has "
                "them, in the order of spec.resourceClaims."
            )
        ),
    ] = None
    max_nodes: Annotated[
        int, Meta(ge=0, description="Limits the nodes in the reply; 0 requests all of them.")
    ] = 0
    group: GroupReference | None = None
    reserve: Annotated[
        bool,
        Meta(
            description=(
                "Whether to reserve devices of the best node for a pod alone, for 5 s, so that "
                "`reserve` is not needed there. `status` renews the reservation."
            )
        ),
    ] = False


class GroupMember(_Message, frozen=True):
    """A member of a group that has no node, and its claims as in `PreFilterRequest`.

    A claim whose kind is PartialObjectMetadata has only its metadata.
    """

    pod: SchedulingPod
    claims: tuple[msgspec.Raw, ...] | None = None


class PreFilterGroupRequest(_Message, frozen=True):
    """Asks for devices for all members of a group together; the reply is about one of them."""

    pod_uid: PodUID = field(name="podUID")
    group: GroupReference
    members: Annotated[
        tuple[GroupMember, ...] | None,
        Meta(description="The members that have no node, the most important one first."),
    ] = None
    max_nodes: Annotated[int, Meta(ge=0)] = 0


class NodeScore(_Message, frozen=True):
    """A node on which the claims fit, and its score; a higher score is better."""

    node: str
    score: Annotated[int, Meta(ge=0, le=100)] = 0


class NodeReason(_Message, frozen=True):
    """Why a number of nodes do not fit; 0 nodes if the reason is about the pod."""

    code: str
    message: str
    nodes: int = 0


class PreFilterReply(_Message, frozen=True):
    """The nodes that fit. Without any, `message` is the text for the pod's condition."""

    fit: tuple[NodeScore, ...] = ()
    complete: Annotated[bool, Meta(description="Whether no other node fits.")] = True
    message: str = ""
    reasons: tuple[NodeReason, ...] = ()
    preemptible: Annotated[
        bool,
        Meta(description="Whether the pod may ask for victims, because it fits nowhere now."),
    ] = False
    group_preemptible: Annotated[
        bool,
        Meta(description="Whether the pod may ask for victims for all members of its group."),
    ] = False
    members_needed: Annotated[
        bool,
        Meta(
            description=(
                "Whether nothing is decided yet: the plugin asks about all members of the group. "
                "After that, whether the allocator has not seen all of their claims."
            )
        ),
    ] = False
    partial_claims: Annotated[
        bool,
        Meta(
            description=(
                "Whether the members may be sent with claims as PartialObjectMetadata, because "
                "the allocator has seen them, if they are too large for one request."
            )
        ),
    ] = False
    reserved_on: Annotated[
        str, Meta(description="The node on which devices are reserved for the pod already, if any.")
    ] = ""


class PotentialVictim(_Message, frozen=True):
    """A pod with a lower priority on a node."""

    uid: PodUID
    priority: int = 0
    start_time: Annotated[
        str, Meta(max_length=64, description="The start time in the status of the pod.")
    ] = ""
    violates: Annotated[
        bool, Meta(description="Whether its eviction violates a PodDisruptionBudget.")
    ] = False
    required: Annotated[
        bool, Meta(description="Whether the pod must be evicted for a reason other than devices.")
    ] = False


class PreemptionNode(_Message, frozen=True):
    """A node that the pod can use without these pods, apart from devices."""

    node: NodeName
    pods: Annotated[
        tuple[PotentialVictim, ...] | None,
        Meta(description="In the order in which pods are kept if possible."),
    ] = None
    running: Annotated[
        tuple[PodUID, ...] | None,
        Meta(description="All pods with claims that the scheduler has there; others are deleted."),
    ] = None


class PreemptRequest(_Message, frozen=True):
    """Asks which pods must be evicted so that the claims of a pod can be allocated."""

    pod_uid: PodUID = field(name="podUID")
    nodes: tuple[PreemptionNode, ...] | None = None


class Eviction(_Message, frozen=True):
    """The pods to evict from a node for the devices of a group, by UID."""

    node: str
    victims: tuple[str, ...] = ()


class PreemptReply(_Message, frozen=True):
    """The best node and the pods to evict there for devices; no node if `message` says why.

    For a member of a group there are `evictions` on several nodes, so that enough members fit.
    The devices that become free are kept for the pod or the members.
    """

    node: str = ""
    victims: Annotated[
        tuple[str, ...], Meta(description="Their UIDs, also of required pods with devices.")
    ] = ()
    evictions: Annotated[
        tuple[Eviction, ...], Meta(description="For a group: the pods to evict from each node.")
    ] = ()
    violations: Annotated[
        int, Meta(description="How many victims and required pods violate a budget.")
    ] = 0
    waiting: Annotated[
        bool,
        Meta(description="Whether devices for the pod are free or being released already."),
    ] = False
    unfinished: Annotated[
        bool, Meta(description="Whether the search took too long; it continues with the next call.")
    ] = False
    message: str = ""


class PodOnNode(_Message, frozen=True):
    """The request of reserve and bind."""

    pod_uid: PodUID = field(name="podUID")
    node: NodeName


class PodReference(_Message, frozen=True):
    """The request of postfilter."""

    pod_uid: PodUID = field(name="podUID")


class UnreserveRequest(_Message, frozen=True):
    """Gives the reservation of a pod back."""

    pod_uid: PodUID = field(name="podUID")
    cycle: Annotated[
        bool,
        Meta(
            description=(
                "Whether this is a cycle for the group of the pod, at whose end the scheduler "
                "gives all members back. What is held for the group stays held."
            )
        ),
    ] = False
    hold: Annotated[
        bool,
        Meta(
            description=(
                "Whether enough members fitted in this cycle, so that the scheduler reserves them "
                "again at once. Their devices are held for this time."
            )
        ),
    ] = False


class ReserveReply(_Message, frozen=True):
    """Whether devices are reserved; without, the pod is unschedulable for now."""

    reserved: bool
    message: str = ""


class UnreserveReply(_Message, frozen=True):
    """Unreserve has no result."""


class BindReply(_Message, frozen=True):
    """Whether the claims are allocated and the pod is bound; without, the pod is tried again."""

    bound: bool
    message: str = ""


class PostFilterReply(_Message, frozen=True):
    """The claims, as `namespace/name`, whose allocation was removed from the unbound pod."""

    released: tuple[str, ...] = ()
    message: str = ""


class StatusRequest(_Message, frozen=True):
    """Names the pods that the scheduler holds; an empty body names none."""

    held_pods: Annotated[
        tuple[PodUID, ...] | None,
        Meta(
            description=(
                "The UIDs of the pods between Reserve and Bind, at Permit or in PreBind. Their "
                "reservations are renewed."
            )
        ),
    ] = None


class StatusReply(_Message, frozen=True):
    """Whether the allocator answers, and the reasons why not."""

    ready: bool
    leading: bool
    reasons: tuple[str, ...] = ()
    protocol: str = VERSION_TEXT
    version: str = ""


class StreamEvent(_Message, frozen=True, omit_defaults=True):
    """One line of the event stream; an empty object shows that the allocator runs."""

    activate: Annotated[
        tuple[str, ...], Meta(description="The UIDs of the pods to schedule now.")
    ] = ()
    activate_all: Annotated[
        bool, Meta(description="The first line: schedule every waiting pod now.")
    ] = False


class ErrorDetail(_Message, frozen=True):
    """An error of one call."""

    code: ErrorCode
    message: str


class ErrorReply(_Message, frozen=True):
    """The body of every response that has not status 200."""

    error: ErrorDetail


class ProtocolError(Exception):
    """A call that is answered with an error."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ProtocolCall(NamedTuple):
    """One call of the protocol."""

    method: str
    path: str
    request: type[msgspec.Struct] | None
    reply: type[msgspec.Struct]


STATUS: Final = ProtocolCall("GET", "/v1/status", StatusRequest, StatusReply)
PRE_FILTER: Final = ProtocolCall("POST", "/v1/prefilter", PreFilterRequest, PreFilterReply)
PRE_FILTER_GROUP: Final = ProtocolCall(
    "POST", "/v1/prefilterGroup", PreFilterGroupRequest, PreFilterReply
)
RESERVE: Final = ProtocolCall("POST", "/v1/reserve", PodOnNode, ReserveReply)
UNRESERVE: Final = ProtocolCall("POST", "/v1/unreserve", UnreserveRequest, UnreserveReply)
BIND: Final = ProtocolCall("POST", "/v1/bind", PodOnNode, BindReply)
POST_FILTER: Final = ProtocolCall("POST", "/v1/postfilter", PodReference, PostFilterReply)
PREEMPT: Final = ProtocolCall("POST", "/v1/preempt", PreemptRequest, PreemptReply)
EVENTS: Final = ProtocolCall("GET", "/v1/events", None, StreamEvent)
CALLS: Final = (
    STATUS,
    PRE_FILTER,
    PRE_FILTER_GROUP,
    RESERVE,
    UNRESERVE,
    BIND,
    POST_FILTER,
    PREEMPT,
    EVENTS,
)


def check_version(header: str | None) -> None:
    """Raise ProtocolError unless the version has our major and a minor that differs by one."""
    match = _VERSION.fullmatch(header or "")
    if match is not None:
        major, minor = int(match[1]), int(match[2])
        if major == VERSION[0] and abs(minor - VERSION[1]) <= 1:
            return
    theirs = repr((header or "")[:32]) if header else "no version"
    raise ProtocolError(
        ErrorCode.VERSION,
        f"the scheduler plugin sends {theirs} in the header {HEADER}, the allocator speaks "
        f"{VERSION_TEXT}; use a plugin and an allocator of the same release",
    )


def shorten_message(text: str) -> str:
    """Return one line of at most MAX_MESSAGE_BYTES bytes."""
    line = " ".join(text.split())
    encoded = line.encode()
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return line
    return encoded[: MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."


def protocol_schema() -> dict[str, Any]:
    """Return the JSON Schema of all messages, and the list of calls."""
    messages = [kind for call in CALLS for kind in (call.request, call.reply) if kind is not None]
    return {
        "$schema": _SCHEMA_DIALECT,
        "title": f"Messages of the Drawbridge protocol {VERSION[0]}",
        "x-version": VERSION_TEXT,
        "x-calls": [
            {
                "method": call.method,
                "path": call.path,
                "request": call.request and {"$ref": f"#/$defs/{call.request.__name__}"},
                "reply": {"$ref": f"#/$defs/{call.reply.__name__}"},
            }
            for call in CALLS
        ],
        "$defs": describe_types([*messages, ErrorReply], "#/$defs/{name}"),
    }


def render_schema() -> str:
    """Return the text of `bridge/protocol/v1.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(protocol_schema(), order="sorted")).decode() + (
        "\n"
    )
