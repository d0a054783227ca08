"""Assembles claim specs from parts: names the requests, and fills as few claims as possible.

The same parts give the same specs, whatever the names of the containers. A container refers to a
claim with one entry wherever that is possible: it uses one request of the claim, or all of them.
Kubernetes declares the entries of a container as a map by the name of the claim. It creates a pod
with two entries for one claim, but server-side apply and the CRDs that declare the same refuse it.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from drawbridge.documents.values import Value
from drawbridge.dra.rules import Distinct, Joint, Near, Rules, RuleStrategy, read_weights
from drawbridge.translate.legacy.asks import DeviceUser, StrategyPreference
from drawbridge.translate.targets.plan import (
    ClaimPart,
    ProximityRule,
    RequestConfig,
    RequestConstraint,
    TargetResult,
    UnnamedRequest,
    is_bound,
)
from drawbridge.translate.targets.vocabulary import Expression

# The API's limit for each of: requests, constraints, configuration entries, results.
MAX_ENTRIES = 32
# Requests for 2,048 devices. The cluster creates one ResourceClaim after the other, and the undo
# patch of one container and its claim takes about a kilobyte of the pod's annotations.
MAX_CLAIMS = 64


class ClaimLimitError(Exception):
    """Raised if a pod needs too many claims; the message is for the user."""


class ClaimUse(msgspec.Struct, frozen=True):
    """The requests of a claim that one container uses, and whether these are all that it has."""

    user: DeviceUser
    requests: tuple[str, ...]
    is_whole: bool

    @property
    def entries(self) -> tuple[str, ...]:
        """The request of each entry for the claim in the container; "" stands for the claim."""
        return ("",) if self.is_whole and len(self.requests) > 1 else self.requests


class ComposedClaim(msgspec.Struct, frozen=True):
    """A claim of a pod: its `v1` spec, the requests of each container, and of each ask."""

    spec: dict[str, Value]
    uses: tuple[ClaimUse, ...]
    asks: dict[str, tuple[str, ...]]
    rules: Rules = Rules()
    expressions: Mapping[str, Expression] = {}  # of its selectors, by their text


class _ClaimBuilder:
    """Collects the parts of one claim."""

    def __init__(self) -> None:
        self.requests: list[UnnamedRequest] = []
        self.devices = 0
        self.constraints: list[RequestConstraint] = []
        self.configs: list[RequestConfig] = []
        self.separation_keys: set[str] = set()
        self.proximity_rules: list[ProximityRule] = []
        self.distinct_rules: list[RequestConstraint] = []
        self.preferences: dict[StrategyPreference, None] = {}

    @property
    def is_full(self) -> bool:
        """Whether no further part can fit, because every part has a request."""
        return len(self.requests) >= MAX_ENTRIES or self.devices >= MAX_ENTRIES

    def accepts(self, part: ClaimPart) -> bool:
        devices = sum(each.devices for each in part.requests)
        return (
            self.devices + devices <= MAX_ENTRIES
            and len(self.requests) + len(part.requests) <= MAX_ENTRIES
            and len(self.constraints) + len(part.constraints) <= MAX_ENTRIES
            and len(self.configs) + len(part.configs) <= MAX_ENTRIES
            and self._count_rules(part) <= MAX_ENTRIES
            and part.separation_key not in self.separation_keys
        )

    def _count_rules(self, part: ClaimPart) -> int:
        proximity = len(self.proximity_rules) + len(part.proximity_rules)
        return proximity + len(self.distinct_rules) + len(part.distinct_rules)

    def add(self, part: ClaimPart) -> None:
        offset = len(self.requests)
        part = _renumber(part, {number: number + offset for number in range(len(part.requests))})
        self.requests += part.requests
        self.devices += sum(each.devices for each in part.requests)
        self.constraints += part.constraints
        self.distinct_rules += part.distinct_rules
        self.configs += part.configs
        self.proximity_rules += part.proximity_rules
        self.preferences |= dict.fromkeys(part.preferences)
        if part.separation_key:
            self.separation_keys.add(part.separation_key)


def assemble_claims(results: Sequence[TargetResult]) -> tuple[ComposedClaim, ...]:
    """Put the parts of the results into claims, each into the first claim that has room.

    If a container would have several entries for one claim, the parts of containers with several
    requests go into claims of their own. Raises ClaimLimitError for more than MAX_CLAIMS claims.
    """
    claims = _fill_claims([_list_parts(results)])
    if any(len(use.entries) > 1 for claim in claims for use in claim.uses):
        with suppress(ClaimLimitError):
            claims = _fill_claims(_group_by_users(_list_parts(results, apart=True)))
    return claims


def _fill_claims(groups: Iterable[Iterable[ClaimPart]]) -> tuple[ComposedClaim, ...]:
    """Fill claims with the parts of each group; no claim has parts of two groups."""
    claims: list[_ClaimBuilder] = []
    for parts in groups:
        open_: list[_ClaimBuilder] = []
        for part in parts:
            claim = next((claim for claim in open_ if claim.accepts(part)), None)
            if claim is None:
                if len(claims) == MAX_CLAIMS:
                    raise ClaimLimitError(f"the pod needs more than {MAX_CLAIMS} ResourceClaims")
                claim = _ClaimBuilder()
                claims.append(claim)
                open_.append(claim)
            claim.add(part)
            if claim.is_full:
                open_.remove(claim)
    return tuple(_compose_claim(each) for each in claims)


def _group_by_users(parts: Iterable[ClaimPart]) -> Iterable[Sequence[ClaimPart]]:
    """Group the parts such that containers use one request of a group, or all of them.

    One group has the parts whose users use no other request: each of them has one entry wherever
    its request is. Of all others, those whose requests have the same users share a group.
    """
    listed = list(parts)
    used = Counter(user for part in listed for each in part.requests for user in each.users)
    groups: dict[Hashable, list[ClaimPart]] = {}
    for number, part in enumerate(listed):
        users, *others = {frozenset(each.users) for each in part.requests}
        key: Hashable = number if others else users
        if all(used[user] == 1 for each in part.requests for user in each.users):
            key = "users of one request"
        groups.setdefault(key, []).append(part)
    return groups.values()


def _list_parts(results: Iterable[TargetResult], *, apart: bool = False) -> Iterator[ClaimPart]:
    """Yield the parts of the results; with `apart`, without what no rule binds to them."""
    return (part for result in results for part in _split_part(result.part, apart=apart))


def _split_part(part: ClaimPart, *, apart: bool) -> Iterable[ClaimPart]:
    """Split a part into what is bound together; without `apart`, only if nothing is."""
    if part.separation_key or len(part.requests) < 2 or (is_bound(part) and not apart):
        return [part] if part.requests else []
    return [_take_requests(part, numbers) for numbers in _find_bound(part)]


def _find_bound(part: ClaimPart) -> Iterable[Sequence[int]]:
    """Return the requests that constraints and rules bind together, by their indices."""
    everything = range(len(part.requests))
    rules = [each.requests or everything for each in (*part.constraints, *part.distinct_rules)]
    rules += [(*each.requests, *each.others) for each in part.proximity_rules]
    bound = [{number} for number in everything]
    for rule in rules:
        joined = set(rule).union(*(each for each in bound if not each.isdisjoint(rule)))
        bound = [joined, *(each for each in bound if each.isdisjoint(joined))]
    return sorted(map(sorted, bound))


def _take_requests(part: ClaimPart, numbers: Sequence[int]) -> ClaimPart:
    """Return some requests of a part with all that is about them."""
    taken = _renumber(part, {number: index for index, number in enumerate(numbers)})
    return replace(taken, requests=tuple(part.requests[number] for number in numbers))


def _renumber(part: ClaimPart, places: Mapping[int, int]) -> ClaimPart:
    """Return a part with other indices of its requests, and without what is about others."""

    def renumber(constraints: Iterable[RequestConstraint]) -> tuple[RequestConstraint, ...]:
        return tuple(
            replace(each, requests=tuple(places[n] for n in each.requests))
            for each in constraints
            if places.keys() >= set(each.requests)
        )

    return replace(
        part,
        constraints=renumber(part.constraints),
        distinct_rules=renumber(part.distinct_rules),
        configs=tuple(
            replace(each, request=places[each.request])
            for each in part.configs
            if each.request in places
        ),
        proximity_rules=tuple(
            replace(
                each,
                requests=tuple(places[n] for n in each.requests),
                others=tuple(places[n] for n in each.others),
            )
            for each in part.proximity_rules
            if places.keys() >= {*each.requests, *each.others}
        ),
    )


def _compose_claim(claim: _ClaimBuilder) -> ComposedClaim:
    names = _name_requests(claim.requests)
    devices: dict[str, Value] = {
        "requests": [
            {"name": name, **request.body}
            for name, request in zip(names, claim.requests, strict=True)
        ]
    }
    if claim.constraints:
        devices["constraints"] = [
            {
                "requests": [names[number] for number in constraint.requests],
                constraint.kind: constraint.attribute,
            }
            for constraint in claim.constraints
        ]
    if claim.configs:
        devices["config"] = [
            {
                "requests": [names[config.request]],
                "opaque": {"driver": config.driver, "parameters": config.parameters},
            }
            for config in claim.configs
        ]
    asks: dict[str, tuple[str, ...]] = {}
    for name, request in zip(names, claim.requests, strict=True):
        asks[request.ask] = (*asks.get(request.ask, ()), name)
    uses = _group_by_user(names, claim.requests)
    expressions: dict[str, Expression] = {}
    for request in claim.requests:
        expressions |= request.expressions
    rules = _compose_rules(names, claim)
    return ComposedClaim({"devices": devices}, uses, asks, rules, expressions)


def _compose_rules(names: Sequence[str], claim: _ClaimBuilder) -> Rules:
    """Compose the rules that the spec cannot express, with the names of the requests."""
    if not (claim.proximity_rules or claim.distinct_rules or claim.preferences):
        return Rules()
    proximity = [
        (
            tuple(names[n] for n in proximity_rule.requests),
            tuple(names[n] for n in proximity_rule.others),
            proximity_rule,
        )
        for proximity_rule in claim.proximity_rules
    ]
    return Rules(
        joint=tuple(Joint(p, o, each.attributes, each.required) for p, o, each in proximity if o),
        near=tuple(Near(p, each.attributes, each.required) for p, o, each in proximity if not o),
        distinct=tuple(
            Distinct(tuple(names[n] for n in distinct_rule.requests), distinct_rule.attribute)
            for distinct_rule in claim.distinct_rules
        ),
        strategy=_compose_strategy(claim.preferences) if claim.preferences else None,
    )


def _compose_strategy(preferences: Iterable[StrategyPreference]) -> RuleStrategy:
    """Compose the strategy of a claim; the last preference about something counts."""
    values = {each.about: each.value for each in preferences}
    fields = {
        "name": values.get("strategy"),
        "nodes": values.get("nodes"),
        "devices": values.get("devices"),
        "weights": read_weights(values.get("weights", "")),
    }
    return msgspec.convert(fields, RuleStrategy)


def _name_requests(requests: Sequence[UnnamedRequest]) -> list[str]:
    """Name requests after their kind, with a number if several have the same kind.

    The kind of a configured resource name can look like a number of another kind.
    """
    totals = Counter(each.kind for each in requests)
    numbers = {kind: itertools.count() for kind, total in totals.items() if total > 1}

    def name(kind: str) -> str:
        candidates = (f"{kind}-{number}" for number in numbers.get(kind, ()))
        return next((each for each in candidates if each not in totals), kind)

    return [name(each.kind) for each in requests]


def _group_by_user(
    names: Sequence[str], requests: Sequence[UnnamedRequest]
) -> tuple[ClaimUse, ...]:
    """Group the request names by container, in the order of the claim."""
    uses: dict[DeviceUser, list[str]] = {}
    for name, request in zip(names, requests, strict=True):
        for user in request.users:
            uses.setdefault(user, []).append(name)
    return tuple(
        ClaimUse(user, tuple(used), is_whole=len(used) == len(names)) for user, used in uses.items()
    )
