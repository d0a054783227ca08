"""ResourceClaims and ResourceClaimTemplates: their types, and readers for all API versions.

The structs are the wire format of `resource.k8s.io/v1` with defaults set. The readers convert the
flat requests of v1beta1. Fields that Drawbridge does not use are not decoded.
`drawbridge.dra.validation` checks the limits of the API.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec.structs import force_setattr

from drawbridge.digest import digest
from drawbridge.dra.allocation import ClaimStatus, Opaque, with_default_operators
from drawbridge.dra.decode import Metadata, Object, Reader
from drawbridge.dra.device import CELExpression, Int64
from drawbridge.dra.quantity import Quantity
from drawbridge.dra.shared_values import SharedValues
from drawbridge.dra.taints import Toleration
from drawbridge.finding import Finding

CLAIM = "ResourceClaim"
TEMPLATE = "ResourceClaimTemplate"
EXACT_COUNT = "ExactCount"
ALL = "All"
# Of the claim that kube-scheduler makes for a name that a class serves.
EXTENDED_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


class Selector(msgspec.Struct, frozen=True):
    """A device selector. The API server requires `cel`."""

    cel: CELExpression | None = None


class CapacityRequests(msgspec.Struct, frozen=True):
    """Requested amounts of each device, by the exact name of the capacity."""

    requests: Mapping[str, Quantity] = {}


class DerivedAttribute(msgspec.Struct, frozen=True):
    """An attribute that a claim derives for its constraints."""

    name: str
    expression: str


class RequestedDevices(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The devices of a request or subrequest. `count` is 0 with allocation mode All."""

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
    """The `exactly` part of a request. An unset `admin_access` differs from false."""

    admin_access: bool | None = None


class SubRequest(RequestedDevices, frozen=True, kw_only=True):
    """One alternative of a request, in order of preference."""

    name: str


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """A request. The API server requires exactly one of `exactly` and `first_available`."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[SubRequest, ...] = ()


class Constraint(msgspec.Struct, frozen=True, rename="camel"):
    """A constraint on the devices of some requests, or of all requests if the list is empty.

    If both attributes are set, the scheduler ignores `distinct_attribute`.
    """

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class Config(msgspec.Struct, frozen=True):
    """Configuration for the devices of some requests, or of all if the list is empty."""

    requests: tuple[str, ...] = ()
    opaque: Opaque | None = None


class Devices(msgspec.Struct, frozen=True):
    """The requests, constraints and configuration of a claim."""

    requests: tuple[Request, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Config, ...] = ()


class ClaimSpec(msgspec.Struct, frozen=True, dict=True):  # for the cached property
    """The immutable spec of a claim."""

    devices: Devices = Devices()

    @property
    def digest(self) -> bytes:
        """A short key that is equal for equal specs."""
        return self._digest_and_size[0]

    @property
    def size(self) -> int:
        """The bytes of the spec."""
        return self._digest_and_size[1]

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The classes that the requests name."""
        choices = (each for request in self.devices.requests for each in request_choices(request))
        return tuple(dict.fromkeys(each.requested.device_class_name for each in choices))

    @cached_property
    def _digest_and_size(self) -> tuple[bytes, int]:
        encoded = msgspec.json.encode(self.devices, enc_hook=str)
        return digest(encoded), len(encoded)


class Owner(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ClaimMetadata(Metadata, frozen=True, rename="camel"):
    """The metadata of a claim or template. The name is empty if the API server generates it."""

    name: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()


class Claim(Object, frozen=True, rename="camel", kw_only=True):
    """A ResourceClaim. Of a `reduced` one, only the devices that it holds are known.

    The API has no such field, so nobody can write it.
    """

    metadata: ClaimMetadata
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()
    reduced: bool = msgspec.field(default=False, name="drawbridge.dev/reduced")


class TemplateMetadata(msgspec.Struct, frozen=True):
    """The labels and annotations that a template adds to its claims."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """The metadata and spec of the claims created from a template."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: ClaimSpec = ClaimSpec()


class Template(Object, frozen=True, rename="camel", kw_only=True):
    """A ResourceClaimTemplate."""

    metadata: ClaimMetadata
    spec: TemplateSpec = TemplateSpec()


class Choice(NamedTuple):
    """One alternative of a request. `name` is the name in results and configuration."""

    name: str
    requested: RequestedDevices
    admin_access: bool = False


def request_choices(request: Request) -> tuple[Choice, ...]:
    """Return the alternatives of a request in order of preference."""
    if request.exactly is not None:
        admin = bool(request.exactly.admin_access)
        return (Choice(request.name, request.exactly, admin),)
    return tuple(Choice(f"{request.name}/{sub.name}", sub) for sub in request.first_available)


def request_names(devices: Devices) -> Iterator[str]:
    """Yield every name that a constraint, configuration or result can refer to."""
    for request in devices.requests:
        yield request.name
        yield from (f"{request.name}/{sub.name}" for sub in request.first_available)


def refers_to(entries: Collection[str], name: str) -> bool:
    """Tell whether a list of names includes the request or subrequest `name`.

    An empty list includes all. The name of a request includes all its subrequests.
    """
    return not entries or name in entries or name.partition("/")[0] in entries


class _FlatRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request of v1beta1, which has the fields of `exactly` in the request itself."""

    name: str
    device_class_name: str = ""
    selectors: tuple[Selector, ...] | None = None
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] | None = None
    capacity: CapacityRequests | None = None
    derived_attributes: tuple[DerivedAttribute, ...] | None = None
    first_available: tuple[SubRequest, ...] = ()

    def request(self) -> Request:
        """Convert to v1. Any field that is set, even to an empty value, creates `exactly`."""
        fields = {
            field: value
            for field in _FlatRequest.__struct_fields__[1:-1]
            if (value := getattr(self, field)) != getattr(_EMPTY_REQUEST, field)
        }
        exactly = ExactRequest(**({"device_class_name": ""} | fields)) if fields else None
        return Request(self.name, exactly, self.first_available)


_EMPTY_REQUEST = _FlatRequest(name="")


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

    def claim(self) -> Claim:
        return Claim(metadata=self.metadata, spec=self.spec.spec(), status=self.status)


class _FlatTemplateSpec(msgspec.Struct, frozen=True):
    metadata: TemplateMetadata = TemplateMetadata()
    spec: _FlatSpec = _FlatSpec()


class _FlatTemplate(Object, frozen=True, rename="camel", kw_only=True):
    metadata: ClaimMetadata
    spec: _FlatTemplateSpec = _FlatTemplateSpec()

    def template(self) -> Template:
        spec = TemplateSpec(self.spec.metadata, self.spec.spec.spec())
        return Template(metadata=self.metadata, spec=spec)


def claim_reader() -> Reader[Claim]:
    """Return a reader of claims. It caches parsed quantities, and shares equal parameters."""
    values = SharedValues()

    def convert(wire: Claim | _FlatClaim) -> Claim:
        claim = wire if isinstance(wire, Claim) else wire.claim()
        values.share_parameters(claim.spec.devices.config)
        if claim.status.allocation is not None:
            values.share_parameters(claim.status.allocation.devices.config)
        return claim

    return Reader(CLAIM, _shapes(Claim, _FlatClaim), convert)


def template_reader() -> Reader[Template]:
    """Return a reader of claim templates, which shares equal parameters."""
    values = SharedValues()

    def convert(wire: Template | _FlatTemplate) -> Template:
        template = wire if isinstance(wire, Template) else wire.template()
        values.share_parameters(template.spec.spec.devices.config)
        return template

    return Reader(TEMPLATE, _shapes(Template, _FlatTemplate), convert)


def read_claim(raw: object, reader: Reader[Claim] | None = None) -> Claim | tuple[Finding, ...]:
    """Read one claim of any served version from JSON bytes or a dict."""
    return (reader or claim_reader()).read(raw)


def read_template(
    raw: object, reader: Reader[Template] | None = None
) -> Template | tuple[Finding, ...]:
    """Read one claim template of any served version from JSON bytes or a dict."""
    return (reader or template_reader()).read(raw)


def _shapes(current: type[Object], flat: type[Object]) -> dict[str, type[Object]]:
    return {
        "resource.k8s.io/v1": current,
        "resource.k8s.io/v1beta2": current,
        "resource.k8s.io/v1beta1": flat,
    }
