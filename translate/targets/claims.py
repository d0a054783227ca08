"""Parts to claim specs: names for requests, and as few claims as the API's limits allow.

Knows nothing of drivers or asks; the same parts give the same specs, whatever the containers are
called.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from documents.values import Value
from dra.rules import Joint, Near, Rules, Strategy
from translate.legacy.asks import DeviceUser, PackingPreference
from translate.targets.plan import (
    ClaimPart,
    ProximityRule,
    RequestConfig,
    RequestConstraint,
    TargetResult,
    UnnamedRequest,
)

# Requests, constraints, configuration entries and results: the API has one limit for all of them.
MAX_ENTRIES = 32


class ContainerRequests(msgspec.Struct, frozen=True):
    """The requests of a claim that one container gets."""

    user: DeviceUser
    requests: tuple[str, ...]


class ComposedClaim(msgspec.Struct, frozen=True):
    """A claim of a pod: its spec as `v1` has it, who uses what of it, and which ask became what."""

    spec: dict[str, Value]
    uses: tuple[ContainerRequests, ...]
    asks: dict[str, tuple[str, ...]]
    rules: Rules = Rules()


class _Filling:
    """A claim while parts are put in."""

    def __init__(self) -> None:
        self.requests: list[UnnamedRequest] = []
        self.devices = 0
        self.rules: list[RequestConstraint] = []
        self.settings: list[RequestConfig] = []
        self.apart: set[str] = set()
        self.links: list[ProximityRule] = []
        self.wishes: dict[PackingPreference, None] = {}

    @property
    def full(self) -> bool:
        """Whether no part finds room any more: each has a request."""
        return len(self.requests) >= MAX_ENTRIES or self.devices >= MAX_ENTRIES

    def takes(self, part: ClaimPart) -> bool:
        devices = sum(each.devices for each in part.requests)
        return (
            self.devices + devices <= MAX_ENTRIES
            and len(self.requests) + len(part.requests) <= MAX_ENTRIES
            and len(self.rules) + len(part.rules) <= MAX_ENTRIES
            and len(self.settings) + len(part.settings) <= MAX_ENTRIES
            and len(self.links) + len(part.links) <= MAX_ENTRIES
            and part.apart not in self.apart
        )

    def put(self, part: ClaimPart) -> None:
        offset = len(self.requests)
        self.requests += part.requests
        self.devices += sum(each.devices for each in part.requests)
        self.rules += [
            msgspec.structs.replace(each, requests=tuple(n + offset for n in each.requests))
            for each in part.rules
        ]
        self.settings += [
            msgspec.structs.replace(each, request=each.request + offset) for each in part.settings
        ]
        self.links += [_moved(each, offset) for each in part.links]
        self.wishes |= dict.fromkeys(part.wishes)
        if part.apart:
            self.apart.add(part.apart)


def _moved(link: ProximityRule, offset: int) -> ProximityRule:
    return msgspec.structs.replace(
        link,
        requests=tuple(n + offset for n in link.requests),
        others=tuple(n + offset for n in link.others),
    )


def assemble_claims(said: Iterable[TargetResult]) -> tuple[ComposedClaim, ...]:
    """Put the parts of what was said into claims, each into the first that takes it."""
    claims: list[_Filling] = []
    open_: list[_Filling] = []
    for each in said:
        for part in _pieces(each.part):
            claim = next((claim for claim in open_ if claim.takes(part)), None)
            if claim is None:
                claim = _Filling()
                claims.append(claim)
                open_.append(claim)
            claim.put(part)
            if claim.full:
                open_.remove(claim)
    return tuple(_printed(each) for each in claims)


def _pieces(part: ClaimPart) -> Iterable[ClaimPart]:
    """Take a part apart where nothing binds its requests together."""
    if part.rules or part.apart or part.links or len(part.requests) < 2:
        return [part] if part.requests else []
    return [
        ClaimPart(
            (each,),
            wishes=part.wishes,
            settings=tuple(
                msgspec.structs.replace(setting, request=0)
                for setting in part.settings
                if setting.request == number
            ),
        )
        for number, each in enumerate(part.requests)
    ]


def _printed(claim: _Filling) -> ComposedClaim:
    names = _names(claim.requests)
    devices: dict[str, Value] = {
        "requests": [
            {"name": name, **each.body} for name, each in zip(names, claim.requests, strict=True)
        ]
    }
    if claim.rules:
        devices["constraints"] = [
            {"requests": [names[number] for number in each.requests], each.word: each.attribute}
            for each in claim.rules
        ]
    if claim.settings:
        devices["config"] = [
            {
                "requests": [names[each.request]],
                "opaque": {"driver": each.driver, "parameters": each.parameters},
            }
            for each in claim.settings
        ]
    asks: dict[str, tuple[str, ...]] = {}
    for name, each in zip(names, claim.requests, strict=True):
        asks[each.ask] = (*asks.get(each.ask, ()), name)
    uses = _uses(names, claim.requests)
    return ComposedClaim({"devices": devices}, uses, asks, _rules(names, claim))


def _rules(names: Sequence[str], claim: _Filling) -> Rules:
    """Say what the spec cannot, about requests by their names."""
    if not claim.links and not claim.wishes:
        return Rules()
    links = [
        (tuple(names[n] for n in each.requests), tuple(names[n] for n in each.others), each)
        for each in claim.links
    ]
    wished = {wish.among: wish.policy for wish in claim.wishes}
    return Rules(
        joint=tuple(Joint(p, o, each.attributes, each.required) for p, o, each in links if o),
        near=tuple(Near(p, each.attributes, each.required) for p, o, each in links if not o),
        strategy=Strategy(wished.get("nodes"), wished.get("devices")) if wished else None,
    )


def _names(requests: Sequence[UnnamedRequest]) -> list[str]:
    """Name requests after their kind, with a number where there are several."""
    if len(requests) == 1:
        return [requests[0].kind]
    totals = Counter(each.kind for each in requests)
    seen: Counter[str] = Counter()
    names = []
    for each in requests:
        several = totals[each.kind] > 1
        names.append(f"{each.kind}-{seen[each.kind]}" if several else each.kind)
        seen[each.kind] += 1
    return names


def _uses(
    names: Sequence[str], requests: Sequence[UnnamedRequest]
) -> tuple[ContainerRequests, ...]:
    """Gather by container which requests it gets, in the order of the claim."""
    uses: dict[DeviceUser, list[str]] = {}
    for name, each in zip(names, requests, strict=True):
        for user in each.users:
            uses.setdefault(user, []).append(name)
    return tuple(ContainerRequests(user, tuple(given)) for user, given in uses.items())
