"""LimitRanges on the legacy names that are taken out of a pod.

The API server's own check of them runs after us and no longer sees those names, so it is made here,
in its sense. It also fills defaults in again where a name is missing, so where a LimitRange speaks
of a name, an amount of none is left. Knows nothing of claims.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from documents.patch import Edit
from documents.paths import show
from documents.values import Value
from dra.finding import Finding
from dra.quantity import Quantity, QuantityError, from_json
from registration.admission_codes import LIMIT_EXCEEDED, LIMIT_UNMEETABLE
from translate.changes.patch import Patch
from webhook.admission.removed_requests import Asked, Holder

Amounts = Mapping[str, str | int | float]
_NONE: Final = "0"
_Amounts = tuple[Mapping[str, int], Mapping[str, int]]
_Look = Callable[[Holder, tuple[str, ...]], _Amounts]


class Named(msgspec.Struct, frozen=True):
    """The metadata that is looked at."""

    name: str = ""
    namespace: str = ""


class Limit(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of a LimitRange, as it is on the wire."""

    type: str = ""
    max: Amounts | None = None
    min: Amounts | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class Limits(msgspec.Struct, frozen=True):
    """The entries."""

    limits: tuple[Limit, ...] | None = ()


class LimitRange(msgspec.Struct, frozen=True):
    """A LimitRange, as it is on the wire."""

    metadata: Named = Named()
    spec: Limits = Limits()


class _Taker(msgspec.Struct, frozen=True):
    """Whoever a limit is about: a container or the whole pod."""

    path: str
    words: str
    limits: Mapping[str, int]
    requests: Mapping[str, int]


def findings(asked: Asked, ranges: Sequence[LimitRange]) -> tuple[Finding, ...]:
    """Tell what the pod's asking breaks, and what makes a translated pod impossible."""
    broken = tuple(_broken(asked, ranges, _before))
    if broken:
        return tuple(
            LIMIT_EXCEEDED.at(taker.path, f"{words}, and {taker.words} {has}")
            for taker, words, has in broken
        )
    return tuple(
        LIMIT_UNMEETABLE.at(taker.path, f"{words}, which {taker.words} asks for by a claim now")
        for taker, words, _ in _broken(asked, ranges, _after)
    )


def early(asked: Asked, ranges: Sequence[LimitRange]) -> tuple[Finding, ...]:
    """Tell the same of a pod template, in which nothing is filled in yet.

    Requests will be what the limits are; what a container does not ask for is not known.
    """
    holders = tuple(map(_filled, (each for each in asked.holders if each.taken)))
    return findings(Asked(asked.names, holders), ranges)


def _filled(holder: Holder) -> Holder:
    parts = (holder.before.get(part) for part in ("limits", "requests"))
    limits, requests = (each if isinstance(each, dict) else {} for each in parts)
    before: dict[str, Value] = {"limits": limits, "requests": {**limits, **requests}}
    return replace(holder, before=before)


def kept(asked: Asked, ranges: Sequence[LimitRange]) -> tuple[Edit, ...]:
    """Leave an amount of none in the translated pod where a LimitRange speaks of a name."""
    spoken = _spoken(ranges)
    edits: list[Edit] = []
    for holder in asked.holders:
        names = [name for name in holder.taken if name in spoken]
        patch = Patch({"resources": {**holder.left}})
        for name in names:
            patch.put(("resources", "limits", name), _NONE)
            patch.put(("resources", "requests", name), _NONE)
        edits += (Edit(one.op, (*holder.path, *one.path), one.value) for one in patch.edits)
    return tuple(edits)


def _spoken(ranges: Sequence[LimitRange]) -> frozenset[str]:
    return frozenset(
        name
        for each in ranges
        for one in each.spec.limits or ()
        for amounts in (one.max, one.min, one.default, one.default_request)
        for name in amounts or ()
    )


def _before(holder: Holder, names: tuple[str, ...]) -> _Amounts:
    return holder.amounts("limits", names), holder.amounts("requests", names)


def _after(holder: Holder, names: tuple[str, ...]) -> _Amounts:
    none = dict.fromkeys(holder.taken, 0)
    limits, requests = _before(holder, names)
    return {**limits, **none}, {**requests, **none}


def _broken(
    asked: Asked, ranges: Sequence[LimitRange], look: _Look
) -> Iterator[tuple[_Taker, str, str]]:
    """Give who breaks what, in words."""
    for each in ranges:
        for one in each.spec.limits or ():
            for taker in _takers(one.type, asked, look):
                for name in asked.names:
                    for words, has in _against(one, name, taker):
                        yield taker, f"LimitRange {each.metadata.name} wants {words}", has


def _takers(kind: str, asked: Asked, look: _Look) -> Iterator[_Taker]:
    if kind == "Container":
        for holder in asked.holders:
            # As the API server does: init containers are looked at with the pod only.
            if holder.path[1] == "containers":
                where = show((*holder.path, "resources"))
                yield _Taker(where, f"container {holder.name}", *look(holder, asked.names))
    elif kind == "Pod":
        looks = [(holder.init, *look(holder, asked.names)) for holder in asked.holders]
        limits = _summed((init, amounts) for init, amounts, _ in looks)
        requests = _summed((init, amounts) for init, _, amounts in looks)
        yield _Taker("spec", "the pod", limits, requests)


def _summed(parts: Iterable[tuple[bool, Mapping[str, int]]]) -> dict[str, int]:
    """Add up what runs at once; an init container that ends counts alone."""
    total: dict[str, int] = {}
    alone: dict[str, int] = {}
    for init, amounts in parts:
        for name, amount in amounts.items():
            if init:
                alone[name] = max(alone.get(name, 0), amount)
            else:
                total[name] = total.get(name, 0) + amount
    return {name: max(total.get(name, 0), alone.get(name, 0)) for name in {**total, **alone}}


def _against(one: Limit, name: str, taker: _Taker) -> Iterator[tuple[str, str]]:
    limit, request = taker.limits.get(name), taker.requests.get(name)
    has = f"has {_says(limit)} as limit and {_says(request)} as request"
    if (least := _read(one.min, name)) is not None and (
        request is None or _of(request) < least or (limit is not None and _of(limit) < least)
    ):
        yield f"at least {least} {name} per {one.type}", has
    if (most := _read(one.max, name)) is not None and (
        limit is None or most < _of(limit) or (request is not None and most < _of(request))
    ):
        yield f"at most {most} {name} per {one.type}", has
    if (ratio := _read(one.max_limit_request_ratio, name)) is not None and (
        not request or not limit or ratio * request < _of(limit)
    ):
        yield f"at most {ratio} times the request of {name} as limit per {one.type}", has


def _says(amount: int | None) -> str:
    return "none" if amount is None else f"{amount}"


def _read(amounts: Amounts | None, name: str) -> Quantity | None:
    if not amounts or name not in amounts:
        return None
    try:
        return from_json(amounts[name])
    except QuantityError:
        return None


_of = Quantity.of
