"""ResourceClaims and their templates: what is asked, and how names refer to it.

The structs are the wire form of `resource.k8s.io/v1`, with the defaults that the API server fills
in; the flat requests of v1beta1 are converted on reading. What nobody here reads stays in the raw
object. Whether a claim is within the API's limits is asked in `dra.validation`, whether it can be
satisfied in no module of this room.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import force_setattr

from dra.allocation import ClaimStatus, Opaque, with_default_operators
from dra.decode import Metadata, Object, Reader
from dra.device import CELExpression, Int64
from dra.finding import Finding
from dra.quantity import Quantity
from dra.taints import Toleration

CLAIM = "ResourceClaim"
TEMPLATE = "ResourceClaimTemplate"
EXACT_COUNT = "ExactCount"
ALL = "All"


class Selector(msgspec.Struct, frozen=True):
    """What a device must satisfy; without `cel` the API server refuses it."""

    cel: CELExpression | None = None


class CapacityRequests(msgspec.Struct, frozen=True):
    """Amounts asked of each device, by the exact name of the capacity."""

    requests: Mapping[str, Quantity] = {}


class DerivedAttribute(msgspec.Struct, frozen=True):
    """An attribute that a claim computes for its constraints."""

    name: str
    expression: str


class RequestedDevices(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Which devices a request or sub-request wants, and how many; `count` is 0 with mode All."""

    device_class_name: str
    selectors: tuple[Selector, ...] = ()
    allocation_mode: str = EXACT_COUNT
    count: Int64 = 0
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequests | None = None
    derived_attributes: tuple[DerivedAttribute, ...] = ()

    def __post_init__(self) -> None:
        mode = self.allocation_mode or EXACT_COUNT
        force_setattr(self, "allocation_mode", mode)
        if mode == EXACT_COUNT and not self.count:
            force_setattr(self, "count", 1)
        force_setattr(self, "tolerations", with_default_operators(self.tolerations))


class ExactRequest(RequestedDevices, frozen=True, rename="camel", kw_only=True):
    """The one thing a request wants; that admin access is said, even not to be had, can matter."""

    admin_access: bool | None = None


class SubRequest(RequestedDevices, frozen=True, kw_only=True):
    """One of the things a request would take, the earlier the better."""

    name: str


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """A request by its name: one of the two other fields is set where the API server took it."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] = ()


class Constraint(msgspec.Struct, frozen=True, rename="camel"):
    """What the devices of the requests named, or of all, must have in common or apart.

    With both attributes set the scheduler looks at `match_attribute` alone.
    """

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class Config(msgspec.Struct, frozen=True):
    """Configuration for the devices of the requests named, or of all."""

    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


class Devices(msgspec.Struct, frozen=True):
    """What a claim asks for."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Config, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True):
    """The immutable part of a claim."""

    devices: Devices = Devices()


class ClaimMetadata(Metadata, frozen=True, rename="camel"):
    """The metadata of a claim or template; the name is empty where the API server gives one."""

    name: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


class Claim(Object, frozen=True, rename="camel", kw_only=True):
    """A ResourceClaim."""

    metadata: ClaimMetadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class TemplateMetadata(msgspec.Struct, frozen=True):
    """What a template gives its claims: labels and annotations, nothing else."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """The claims that a template makes."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: ClaimSpec = ClaimSpec()


class Template(Object, frozen=True, rename="camel", kw_only=True):
    """A ResourceClaimTemplate."""

    metadata: ClaimMetadata
    spec: TemplateSpec = TemplateSpec()


class Choice(NamedTuple):
    """One way to satisfy a request: `name` is as results and configuration write it."""

    name: str
    requested: RequestedDevices
    admin_access: bool = False


def request_choices(request: Request) -> tuple[Choice, ...]:
    """Give the ways to satisfy a request, the preferred first."""
    if request.exactly is not None:
        admin = bool(request.exactly.admin_access)
        return (Choice(request.name, request.exactly, admin),)
    return tuple(Choice(f"{request.name}/{sub.name}", sub) for sub in request.first_available)


def request_names(devices: Devices) -> Iterator[str]:
    """Give every name that a constraint, configuration or result may refer to."""
    for request in devices.requests:
        yield request.name
        yield from (f"{request.name}/{sub.name}" for sub in request.first_available)


def refers_to(entries: Collection[str], name: str) -> bool:
    """Tell whether a list of names means the request or sub-request `name`.

    An empty list means all; the name of a request means all its sub-requests.
    """
    return not entries or name in entries or name.partition("/")[0] in entries


def fewest_devices(devices: Devices, of_all: Callable[[Choice], int] = lambda _: 0) -> int:
    """Count the devices that a claim takes at least; `of_all` says how many mode All takes."""

    def taken(choice: Choice) -> int:
        return of_all(choice) if choice.requested.allocation_mode == ALL else choice.requested.count

    return sum(
        min((taken(choice) for choice in request_choices(request)), default=0)
        for request in devices.requests
    )


class _FlatRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request of v1beta1, whose one wish stands in the request itself."""

    name: str
    device_class_name: str = ""
    selectors: tuple[Selector, ...] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] | None = None
    capacity: CapacityRequests | None = None
    first_available: tuple[SubRequest, ...] = ()

    def request(self) -> Request:
        """Give the request as v1 has it; any field written, even an empty one, makes a wish."""
        wish = {
            field: value
            for field in _FlatRequest.__struct_fields__[1:-1]
            if (value := getattr(self, field)) != getattr(_NO_WISH, field)
        }
        exactly = ExactRequest(**({"device_class_name": ""} | wish)) if wish else None
        return Request(self.name, exactly, self.first_available)


_NO_WISH = _FlatRequest(name="")


class _FlatDevices(msgspec.Struct, frozen=True):
    requests: tuple[_FlatRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Config, ...] = ()


class _FlatSpec(msgspec.Struct, frozen=True):
    devices: _FlatDevices = _FlatDevices()

    def spec(self) -> ClaimSpec:
        requests = tuple(request.request() for request in self.devices.requests)
        return ClaimSpec(Devices(requests, self.devices.constraints, self.devices.config))


class _FlatClaim(Object, frozen=True, rename="camel", kw_only=True):
    metadata: ClaimMetadata
    spec: _FlatSpec = _FlatSpec()
    status: ClaimStatus = ClaimStatus()


class _FlatTemplateSpec(msgspec.Struct, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: _FlatSpec = _FlatSpec()


class _FlatTemplate(Object, frozen=True, rename="camel", kw_only=True):
    metadata: ClaimMetadata
    spec: _FlatTemplateSpec = _FlatTemplateSpec()


def claim_reader() -> Reader[Claim]:
    """Make a reader of claims; keep it for as long as quantities are worth remembering."""
    return Reader(CLAIM, _shapes(Claim, _FlatClaim), _claim)


def template_reader() -> Reader[Template]:
    """Make a reader of claim templates."""
    return Reader(TEMPLATE, _shapes(Template, _FlatTemplate), _template)


def read_claim(raw: object, reader: Reader[Claim] | None = None) -> Claim | tuple[Finding, ...]:
    """Read one claim of any served version from JSON bytes or a plain dict."""
    return (reader or claim_reader()).read(raw)


def read_template(
    raw: object, reader: Reader[Template] | None = None
) -> Template | tuple[Finding, ...]:
    """Read one claim template of any served version from JSON bytes or a plain dict."""
    return (reader or template_reader()).read(raw)


def _shapes(newest: type[Object], flat: type[Object]) -> dict[str, type[Object]]:
    return {
        "resource.k8s.io/v1": newest,
        "resource.k8s.io/v1beta2": newest,
        "resource.k8s.io/v1beta1": flat,
    }


def _claim(wire: Claim | _FlatClaim) -> Claim:
    if isinstance(wire, Claim):
        return wire
    return Claim(metadata=wire.metadata, spec=wire.spec.spec(), status=wire.status)


def _template(wire: Template | _FlatTemplate) -> Template:
    if isinstance(wire, Template):
        return wire
    spec = TemplateSpec(wire.spec.metadata, wire.spec.spec.spec())
    return Template(metadata=wire.metadata, spec=spec)
