"""The requests and responses of the HTTP API; their JSON Schema is in `manifests/api/`.

Requests are strict: an unknown field is an error.
"""

import enum
from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, field

from drawbridge.ledger.stages import PodStages

MAX_ITEMS: Final = 500
DEFAULT_ITEMS: Final = 100
MAX_PODS: Final = 100
MAX_CLAIMS: Final = 200

# What Kubernetes accepts as a name, and what a request can send for one.
NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
ObjectName = Annotated[str, Meta(min_length=1, max_length=253, pattern=NAME)]
NamespaceName = Annotated[str, Meta(min_length=1, max_length=63, pattern=NAME)]

KubernetesObject = Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]


class FailureCode(enum.StrEnum):
    """Why a request has no result."""

    BAD_REQUEST = "BadRequest"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "NotFound"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    TIMEOUT = "Timeout"
    TOO_LARGE = "TooLarge"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    EXPECTATION_FAILED = "ExpectationFailed"
    TOO_MUCH_WORK = "TooMuchWork"
    TOO_MANY_REQUESTS = "TooManyRequests"
    BUG = "Bug"
    NOT_READY = "NotReady"


HTTP_STATUS: Final[Mapping[FailureCode, int]] = {
    FailureCode.BAD_REQUEST: 400,
    FailureCode.UNAUTHORIZED: 401,
    FailureCode.FORBIDDEN: 403,
    FailureCode.NOT_FOUND: 404,
    FailureCode.METHOD_NOT_ALLOWED: 405,
    FailureCode.TIMEOUT: 408,
    FailureCode.TOO_LARGE: 413,
    FailureCode.UNSUPPORTED_MEDIA_TYPE: 415,
    FailureCode.EXPECTATION_FAILED: 417,
    FailureCode.TOO_MUCH_WORK: 422,
    FailureCode.TOO_MANY_REQUESTS: 429,
    FailureCode.BUG: 500,
    FailureCode.NOT_READY: 503,
}


Leading = Annotated[
    bool, Meta(description="Whether this replica allocates; only this one has reservations.")
]


class ResponsePart(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A part of a response."""


class ApiFailure(ResponsePart, frozen=True, tag=False, omit_defaults=True):
    """The body of every response without status 200; `path` names the field in question."""

    code: FailureCode
    message: str
    path: str = ""


class HeldDevice(ResponsePart, frozen=True, omit_defaults=True):
    """A device of a claim, or a share of it."""

    request: str
    driver: str
    pool: str
    device: str
    share_id: str = field(default="", name="shareID")
    consumed_capacity: Mapping[str, str] = {}
    admin_access: bool = False


class HoldState(enum.StrEnum):
    """How a claim has its devices."""

    RESERVED = "Reserved"  # promised, and not yet written to the claim
    ALLOCATED = "Allocated"
    RELEASING = "Releasing"  # allocated, and all its pods are ending


class ClaimAllocation(ResponsePart, frozen=True, omit_defaults=True):
    """The devices of a claim, and the pods or the PodGroups for which it is reserved."""

    namespace: str
    claim: str
    uid: str
    state: HoldState
    node: str = ""
    devices: tuple[HeldDevice, ...] = ()
    pods: tuple[str, ...] = ()
    pod_groups: tuple[str, ...] = ()


class AllocationList(ResponsePart, frozen=True):
    """A page of allocations, by namespace and name; `continue` requests the next page."""

    items: tuple[ClaimAllocation, ...]
    leading: Leading
    next: str = field(default="", name="continue")


class DeviceClaim(ResponsePart, frozen=True, omit_defaults=True):
    """A claim that holds a device or a share of it."""

    namespace: str
    claim: str
    state: HoldState
    consumed_capacity: Mapping[str, str] = {}


class PoolDevice(ResponsePart, frozen=True, omit_defaults=True):
    """A device of a pool, and who holds it, as far as the caller may read their claims."""

    name: str
    held: Annotated[
        int,
        Meta(
            description="How many claims hold the device or shares of it, with the pods for which "
            "it is kept after a preemption or for a plan."
        ),
    ] = 0
    reserved: Annotated[int, Meta(description="How many of them are not written yet.")] = 0
    releasing: Annotated[int, Meta(description="How many of them are being released.")] = 0
    consumed_capacity: Mapping[str, str] = {}
    claims: Annotated[
        tuple[DeviceClaim, ...],
        Meta(description="Those in namespaces where the caller may list ResourceClaims."),
    ] = ()


class PoolCounter(ResponsePart, frozen=True):
    """A counter that devices of a pool share, and what the held ones consume of it."""

    counter_set: str
    counter: str
    value: str
    consumed: str


class NodePool(ResponsePart, frozen=True):
    """A pool of the allocator; no devices while its driver is publishing it."""

    driver: str
    pool: str
    complete: bool
    devices: tuple[PoolDevice, ...] = ()
    counters: tuple[PoolCounter, ...] = ()


class DescribedHold(ResponsePart, frozen=True):
    """The annotation of a node that holds devices for a pod, and what this replica keeps."""

    pod: str
    until: str
    active: Annotated[
        bool,
        Meta(description="Whether this replica keeps devices for the pod; only a leading can."),
    ]
    waits_for: Annotated[
        int, Meta(description="How many claims of pods to evict still have devices.")
    ] = 0


class DescribedNode(ResponsePart, frozen=True):
    """The pools of the allocator on a node."""

    node: str
    leading: bool
    pools: tuple[NodePool, ...] = ()
    hold: DescribedHold | None = None


class DeviceReason(ResponsePart, frozen=True, omit_defaults=True):
    """Why a number of nodes do not fit; 0 nodes if the reason is about the pod."""

    code: str
    message: str
    nodes: int = 0
    example: Annotated[
        str, Meta(description="A node and a device, if the caller may list nodes.")
    ] = ""


class ReasonsOfNode(ResponsePart, frozen=True):
    """Why one node does not fit."""

    node: str
    reasons: tuple[DeviceReason, ...]


Stages = Annotated[
    PodStages | None,
    Meta(description="The filters for the pod, if the request asks for them and it waits."),
]
WantsStages = Annotated[
    bool, Meta(description="Filter all nodes and their devices stage by stage, too.")
]


class ClaimState(enum.StrEnum):
    """How far a claim of a pod is."""

    MISSING = "Missing"
    WAITING = "Waiting"
    RESERVED = "Reserved"
    ALLOCATED = "Allocated"
    RELEASING = "Releasing"


class ClaimOfPod(ResponsePart, frozen=True, omit_defaults=True):
    """A claim of a pod: `name` as the pod names it, `claim` the ResourceClaim."""

    name: str
    state: ClaimState
    claim: str = ""
    devices: tuple[HeldDevice, ...] = ()


class PodState(enum.StrEnum):
    """How far a pod is."""

    WAITING = "Waiting"  # its claims fit on no node
    FITS = "Fits"  # its claims fit on a node now, or have their devices
    BOUND = "Bound"
    ENDED = "Ended"
    TERMINATING = "Terminating"


class QuotaState(ResponsePart, frozen=True):
    """What is used of one total of a quota: by a namespace, or without one by all it selects."""

    quota: str
    namespace: str
    device_class: str
    amount: Annotated[str, Meta(description="`devices`, or the name of a capacity.")]
    limit: str
    used: Annotated[str, Meta(description="Reserved and allocated.")]
    left: str


class QuotaList(ResponsePart, frozen=True):
    """A page of quotas, by namespace; `continue` requests the next page."""

    items: tuple[QuotaState, ...]
    leading: Leading
    next: str = field(default="", name="continue")


class Transition(ResponsePart, frozen=True):
    """A change of what the allocator knows of a pod: the pod `event`, and is in a state since."""

    seconds_ago: float
    event: str
    state: str


class PodExplanation(ResponsePart, frozen=True):
    """Where the devices of a pod are, or why it waits for them."""

    namespace: str
    pod: str
    state: PodState
    scheduler: str
    leading: bool
    node: str = ""
    claims: tuple[ClaimOfPod, ...] = ()
    message: str = ""
    fitting: Annotated[int, Meta(description="How many nodes fit now.")] = 0
    reasons: tuple[DeviceReason, ...] = ()
    nodes: Annotated[
        tuple[ReasonsOfNode, ...],
        Meta(description="The first nodes that do not fit, if the caller may list nodes."),
    ] = ()
    stages: Stages = None
    quotas: Annotated[
        tuple[QuotaState, ...], Meta(description="The totals that apply to the namespace.")
    ] = ()
    transitions: Annotated[
        tuple[Transition, ...], Meta(description="The last ones of a pod that waits.")
    ] = ()


class NamedPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names the pod to explain."""

    namespace: NamespaceName
    name: ObjectName
    stages: WantsStages = False


class SimulationRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pods to place in order, and the claims and templates that they name.

    Claims that exist need not be sent.
    """

    pods: Annotated[tuple[KubernetesObject, ...], Meta(min_length=1, max_length=MAX_PODS)]
    claims: Annotated[tuple[KubernetesObject, ...], Meta(max_length=MAX_CLAIMS)] = ()
    templates: Annotated[tuple[KubernetesObject, ...], Meta(max_length=MAX_CLAIMS)] = ()
    preempt: Annotated[
        bool, Meta(description="Let pods preempt pods with a lower priority, in the simulation.")
    ] = False
    stages: WantsStages = False


class SimulatedClaim(ResponsePart, frozen=True):
    """The devices that a claim would get."""

    claim: str
    devices: tuple[HeldDevice, ...] = ()


class SimulatedPod(ResponsePart, frozen=True):
    """Where a pod would go, or why it would wait; without a node it is not placed."""

    namespace: str
    pod: str
    node: str = ""
    claims: tuple[SimulatedClaim, ...] = ()
    reasons: tuple[DeviceReason, ...] = ()
    preempted: Annotated[
        tuple[str, ...],
        Meta(description="The victims in namespaces where the caller may list ResourceClaims."),
    ] = ()
    other_preempted: Annotated[int, Meta(description="How many other victims there are.")] = 0
    stages: Stages = None


class SimulationReply(ResponsePart, frozen=True):
    """The placements, in the order of the request. Nothing is reserved."""

    pods: tuple[SimulatedPod, ...]
    leading: bool


class ApiCall(NamedTuple):
    """A call of the API: its path has at most one `{name}`."""

    method: str
    path: str
    reply: type[msgspec.Struct | msgspec.Raw]
    request: type[msgspec.Struct] | None = None
    query: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Its name in metrics."""
        return self.path.split("/")[2].removesuffix(".json")


LIST_ALLOCATIONS: Final = ApiCall(
    "GET", "/v1/allocations", AllocationList, query=("namespace", "limit", "continue")
)
LIST_QUOTAS: Final = ApiCall(
    "GET", "/v1/quotas", QuotaList, query=("namespace", "limit", "continue")
)
GET_NODE: Final = ApiCall("GET", "/v1/nodes/{name}", DescribedNode)
EXPLAIN: Final = ApiCall("POST", "/v1/explain", PodExplanation, NamedPod)
GET_OPENAPI: Final = ApiCall("GET", "/v1/openapi.json", msgspec.Raw)
SIMULATE: Final = ApiCall("POST", "/v1/simulate", SimulationReply, SimulationRequest)


class ApiFailureError(Exception):
    """A request that gets a failure."""

    def __init__(
        self, code: FailureCode, message: str, path: str = "", *, retry_after: float = 0
    ) -> None:
        super().__init__(message)
        self.failure = ApiFailure(code=code, message=message, path=path)
        self.retry_after = retry_after
