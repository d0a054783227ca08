"""The requests of a pod's claims, validated as kube-scheduler validates them before its search.

The claims become one list of requests, each with the options that satisfy it. A demand does not
depend on a node, so one demand serves all nodes.
"""

import enum
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from drawbridge.dra.allocation import MAX_RESULTS
from drawbridge.dra.capacity import Amounts
from drawbridge.dra.claim import (
    ALL,
    EXACT_COUNT,
    Choice,
    Claim,
    Constraint,
    ExactRequest,
    Request,
    RequestedDevices,
    request_choices,
)
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.fatal_configs import find_fatal_configs
from drawbridge.dra.gates import Gates
from drawbridge.dra.rules import Rules, find_rules, read_claim_rules
from drawbridge.names import RULES_ANNOTATION
from drawbridge.solver.constraints import AttributeConstraint, DistinctConstraint, MatchConstraint
from drawbridge.solver.deviations import UPSTREAM, Deviations
from drawbridge.solver.eligibility import RequestFilter
from drawbridge.solver.rules import ClaimRules, compile_rules

# What the claims of one pod can have in all in a search with limits, because a demand is built in
# one call and kept in memory: requests and alternatives, and characters of rules.
MOST_CHOICES: Final = 4_096
MOST_RULES: Final = 128 * 1024


class Cause(enum.StrEnum):
    """The kinds of errors."""

    REFUSED = "refused"
    SELECTOR = "selector"
    CAPACITY = "capacity"
    DERIVED = "derived"
    POOL = "pool"
    NODE_SELECTOR = "node selector"
    SIZE = "size"
    WORK = "work"


class Abort(Exception):  # noqa: N818  # not a bug: the result is an error
    """The scheduler reports an error for the pod, on every node."""

    def __init__(self, cause: Cause, message: str, about: str = "") -> None:
        """Create the error; `about` names the device or pool, which the message does not."""
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.about = about


class NodeAbort(Abort):
    """An error about the pools of one node, which others do not have."""


class FilterFactory(Protocol):
    """Creates the filter for the selectors of a class and a request and the requested amounts."""

    def __call__(
        self, selectors: tuple[tuple[str, ...], tuple[str, ...]], requested: Amounts
    ) -> RequestFilter:
        """Return a filter; filters for equal arguments have the same results."""


class Option(msgspec.Struct, frozen=True, eq=False):
    """One way to satisfy a request.

    `constraint_indexes` are the constraints of the claim that apply to it.
    """

    claim: int
    request_index: int
    name: str
    wanted: RequestedDevices
    admin: bool
    all_mode: bool
    device_class: DeviceClass
    request_filter: RequestFilter
    constraint_indexes: tuple[int, ...]
    derived_attributes: Mapping[str, str]

    def equivalence_key(self) -> Hashable:
        """Return a key that is equal for options that treat every device alike."""
        return (
            self.request_filter.key,
            self.wanted.tolerations,
            self.admin,
            self if self.all_mode else None,
            self.constraint_indexes,
            self.claim if self.constraint_indexes else -1,
            tuple(sorted(self.derived_attributes.items())),
        )


class RequestDemand(msgspec.Struct, frozen=True, eq=False):
    """One request of a claim; if `prioritized`, the first option with a solution is used."""

    claim: int
    request: Request
    options: tuple[Option, ...]
    prioritized: bool


class Demand(msgspec.Struct, frozen=True, eq=False, dict=True):  # for the cached properties
    """The requests of all claims in order, the constraints of each claim, and their rules."""

    claims: tuple[Claim, ...]
    requests: tuple[RequestDemand, ...]
    constraints: tuple[tuple[AttributeConstraint, ...], ...]
    rules: ClaimRules = ClaimRules()

    @cached_property
    def size(self) -> int:
        """The bytes of the claims."""
        return sum(claim.spec.size for claim in self.claims)

    @cached_property
    def without_devices(self) -> tuple[tuple[object, ...], ...]:
        """The states of the constraints of each claim before the first device."""
        return tuple(tuple(constraint.empty for constraint in each) for each in self.constraints)

    @cached_property
    def all_mode_options(self) -> Mapping[int, Sequence[Option]]:
        """The options with mode All of each claim that has one, by its number."""
        by_claim: dict[int, list[Option]] = {}
        for option in self.options():
            if option.all_mode:
                by_claim.setdefault(option.claim, []).append(option)
        return by_claim

    def options(self) -> Iterator[Option]:
        """Return all options of all requests."""
        return (option for request in self.requests for option in request.options)


def build_demand(
    claims: Sequence[Claim],
    classes: Mapping[str, DeviceClass],
    gates: Gates,
    make_filter: FilterFactory,
    deviations: Deviations = UPSTREAM,
) -> Demand:
    """Validate claims in the scheduler's order; raises Abort with the first error.

    Rules in the annotations of the claims, and configurations that end the process of their driver,
    count as the deviations say.
    """
    if deviations.obeys_rules:
        claims = [_with_distinct_rules(claim) for claim in claims]
    by_name = [_ConstraintsByName(claim) for claim in claims]
    context = _CheckContext(claims, classes, gates, make_filter, by_name)
    requests: list[RequestDemand] = []
    constraints = []
    for number, claim in enumerate(claims):
        for request in claim.spec.devices.requests:
            try:
                requests.append(_build_request(number, len(requests), request, context))
            except _RequestError as error:
                where = f"claim {claim_name(claim)}, request {request.name}"
                raise Abort(Cause.REFUSED, f"{where}: {error}") from None
        check_minimum(claim, {}, Abort)  # mode All is counted per node
        if deviations.spares_drivers:
            _check_configs(claim, classes)
        constraints.append(_constraints(claim, gates))
    rules = _rules(claims, requests) if deviations.obeys_rules else ClaimRules()
    return Demand(tuple(claims), tuple(requests), tuple(constraints), rules)


def check_size(claims: Sequence[Claim]) -> None:
    """Raise Abort if the claims are too large for a search with limits."""
    requests = (request for claim in claims for request in claim.spec.devices.requests)
    choices = sum(max(1, len(request.first_available)) for request in requests)
    if choices > MOST_CHOICES:
        text = f"the claims have {choices:,} requests and alternatives; Drawbridge searches for"
        remedy = "use fewer claims for this pod"
        raise Abort(Cause.SIZE, f"{text} at most {MOST_CHOICES:,} at once: {remedy}")
    rules = (claim.metadata.annotations.get(RULES_ANNOTATION, "") for claim in claims)
    length = sum(map(len, rules))
    if length > MOST_RULES:
        text = f"the annotations {RULES_ANNOTATION} of the claims have {length:,} characters"
        remedy = "use fewer rules for this pod"
        raise Abort(Cause.SIZE, f"{text}; Drawbridge reads at most {MOST_RULES:,}: {remedy}")


class _ConstraintsByName:
    """The numbers of the constraints of a claim by the names in them."""

    def __init__(self, claim: Claim) -> None:
        self._by_name: dict[str | None, set[int]] = {}
        for index, constraint in enumerate(claim.spec.devices.constraints):
            for name in constraint.requests or (None,):
                self._by_name.setdefault(name, set()).add(index)

    def covering(self, name: str) -> tuple[int, ...]:
        """Return the constraints that include a request or an alternative, as `refers_to` says."""
        names = (None, name, name.partition("/")[0])
        return tuple(sorted(set[int]().union(*(self._by_name.get(each, ()) for each in names))))


class _CheckContext(NamedTuple):
    """What the claims are validated against."""

    claims: Sequence[Claim]
    classes: Mapping[str, DeviceClass]
    gates: Gates
    make_filter: FilterFactory
    constraints_by_name: Sequence[_ConstraintsByName]


def claim_name(claim: Claim) -> str:
    """Return the name of a claim for messages."""
    metadata = claim.metadata
    name = metadata.name or metadata.generate_name
    return f"{metadata.namespace}/{name}" if metadata.namespace else name


class _RequestError(Exception):
    """An error in a request."""


def _build_request(number: int, at: int, request: Request, context: _CheckContext) -> RequestDemand:
    prioritized = bool(request.first_available)
    if prioritized and not context.gates.prioritized_list:
        raise _RequestError("has subrequests, but the DRAPrioritizedList feature is disabled")
    # The API server rejects a request with both forms; here firstAvailable takes precedence.
    alternatives = request_choices(
        Request(request.name, None, request.first_available) if prioritized else request
    )
    if not context.gates.consumable_capacity and any(
        alternative.requested.capacity for alternative in alternatives
    ):
        text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        raise _RequestError(text)
    if not alternatives:
        raise _RequestError("missing device class name (unsupported request type?)")
    return RequestDemand(
        number,
        request,
        tuple(_build_option(number, at, alternative, context) for alternative in alternatives),
        prioritized,
    )


def _build_option(number: int, at: int, alternative: Choice, context: _CheckContext) -> Option:
    wanted = alternative.requested
    device_class = _check_alternative(alternative, context.classes, context.gates)
    amounts = wanted.capacity.requests if wanted.capacity else {}
    return Option(
        claim=number,
        request_index=at,
        name=alternative.name,
        wanted=wanted,
        admin=alternative.admin_access,
        all_mode=wanted.allocation_mode == ALL,
        device_class=device_class,
        request_filter=context.make_filter(_selectors(device_class, wanted), amounts),
        constraint_indexes=context.constraints_by_name[number].covering(alternative.name),
        derived_attributes={each.name: each.expression for each in wanted.derived_attributes},
    )


def _check_alternative(
    alternative: Choice, classes: Mapping[str, DeviceClass], gates: Gates
) -> DeviceClass:
    wanted = alternative.requested
    if wanted.derived_attributes and not gates.derived_attributes:
        raise _RequestError("has derived attributes, but the feature is disabled")
    for index, selector in enumerate(wanted.selectors):
        if selector.cel is None:
            text = f"selector #{index}: CEL expression empty (unsupported selector type?)"
            raise _RequestError(text)
    requests_admin = isinstance(wanted, ExactRequest) and wanted.admin_access is not None
    if requests_admin and not gates.admin_access:
        raise _RequestError("admin access is requested, but the feature is disabled")
    name = wanted.device_class_name
    if not name:
        raise _RequestError("missing device class name (unsupported request type?)")
    if name not in classes:
        raise _RequestError(f"device class {name} does not exist")
    if wanted.allocation_mode not in (ALL, EXACT_COUNT):
        raise _RequestError(f"unsupported count mode {wanted.allocation_mode}")
    for index, selector in enumerate(classes[name].spec.selectors):
        if selector.cel is None:
            raise _RequestError(f"device class {name}: selector #{index} has no CEL expression")
    return classes[name]


def _selectors(
    device_class: DeviceClass, wanted: RequestedDevices
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    of_class, of_request = (
        tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
        for selectors in (device_class.spec.selectors, wanted.selectors)
    )
    return of_class, of_request


def check_minimum(claim: Claim, all_mode_counts: Mapping[str, int], abort: type[Abort]) -> None:
    """Raise an error if the least number of devices of a claim exceeds the limit."""
    minimum = minimum_devices(claim, all_mode_counts)
    if minimum > MAX_RESULTS:
        text = f"needs at least {minimum} devices, but a claim can have at most {MAX_RESULTS}"
        raise abort(Cause.REFUSED, f"claim {claim_name(claim)}: {text}")


def minimum_devices(claim: Claim, all_mode_counts: Mapping[str, int]) -> int:
    """Return the least number of devices a claim needs.

    `all_mode_counts` gives the number for each option with mode All, by name.
    """
    total = 0
    for request in claim.spec.devices.requests:
        total += min(
            all_mode_counts.get(alternative.name, 0)
            if alternative.requested.allocation_mode == ALL
            else alternative.requested.count
            for alternative in request_choices(request)
        )
    return total


def _check_configs(claim: Claim, classes: Mapping[str, DeviceClass]) -> None:
    """Raise Abort if a configuration of the claim or of its classes ends a driver."""
    where = f"claim {claim_name(claim)}, config"
    for fatal in find_fatal_configs(claim.spec.devices.config):
        raise Abort(Cause.REFUSED, f"{where}[{fatal.number}]: {fatal.message}")
    for name in claim.spec.class_names:
        for fatal in find_fatal_configs(classes[name].spec.config):
            where = f"claim {claim_name(claim)}, device class {name}, config"
            raise Abort(Cause.REFUSED, f"{where}[{fatal.number}]: {fatal.message}")


def _constraints(claim: Claim, gates: Gates) -> tuple[AttributeConstraint, ...]:
    # Schedulers before 1.37 do not pass the gate to their allocator, so lists do not match there.
    lists = gates.list_type_attributes and gates.version >= "1.37"
    constraints: list[AttributeConstraint] = []
    for index, constraint in enumerate(claim.spec.devices.constraints):
        if constraint.match_attribute is not None:
            constraints.append(MatchConstraint(constraint.match_attribute, lists=lists))
        elif constraint.distinct_attribute is not None:
            constraints.append(DistinctConstraint(constraint.distinct_attribute, lists=lists))
        else:
            text = f"constraint #{index}: empty constraint (unsupported constraint type?)"
            raise Abort(Cause.REFUSED, f"claim {claim_name(claim)}, {text}")
    return tuple(constraints)


def _with_distinct_rules(claim: Claim) -> Claim:
    """Return the claim with its rules about distinct devices as constraints."""
    rules = find_rules(claim.metadata.annotations)
    if not isinstance(rules, Rules) or not rules.distinct:
        return claim
    added = [
        Constraint(requests=rule.requests, distinct_attribute=rule.attribute)
        for rule in rules.distinct
    ]
    devices = claim.spec.devices
    devices = replace(devices, constraints=(*devices.constraints, *added))
    return replace(claim, spec=replace(claim.spec, devices=devices))


def _rules(claims: Sequence[Claim], requests: Sequence[RequestDemand]) -> ClaimRules:
    """Compile the rules of claims; raises Abort if they are not valid."""
    if not any(RULES_ANNOTATION in claim.metadata.annotations for claim in claims):
        return ClaimRules()
    most = [max(option.wanted.count for option in each.options) for each in requests]
    indexes: list[dict[str, int]] = [{} for _ in claims]
    for at, request in enumerate(requests):
        indexes[request.claim][request.request.name] = at
    read = [_read_rules(claim) for claim in claims]
    return compile_rules(list(zip(read, indexes, strict=True)), most)


def _read_rules(claim: Claim) -> Rules:
    rules = read_claim_rules(claim)
    if isinstance(rules, Rules):
        return rules
    message = f"{rules[0].path}: {rules[0].message}"
    raise Abort(Cause.REFUSED, f"claim {claim_name(claim)}: {message}")
