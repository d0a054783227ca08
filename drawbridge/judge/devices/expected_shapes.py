"""Tells whether a node that the configuration expects may satisfy claims.

A shape such as `8x productName=NVIDIA H200, memory=141Gi` states the number of devices of a class
and some of their properties. All that it does not state is unknown and may suit the claims.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from drawbridge.cel import CompileError
from drawbridge.cel.dra import Reads, Selectors, find_reads
from drawbridge.config.string_formats import shape_properties
from drawbridge.dra.claim import ALL, Claim, RequestedDevices, request_choices
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.quantity import valid_quantity
from drawbridge.judge.claims.selector_terms import split_terms
from drawbridge.solver.expressions import EvaluationFailure, ExpressionEvaluator

# The combinations of the types that stated values can have.
MAX_COMBINATIONS = 64


class _ExpectedDevices(NamedTuple):
    """The devices of an expected node: how many, and the stated properties by name."""

    number: int
    properties: Mapping[str, str]


class ShapeReader(NamedTuple):
    """What compiles and evaluates the selectors of claims."""

    selectors: Selectors
    expressions: ExpressionEvaluator


def may_satisfy(shape: str, name: str, claims: Iterable[Claim], reader: ShapeReader) -> bool:
    """Return whether a node with this shape of class `name` may satisfy all claims.

    Requests of other classes are not compared: the node may have their devices, too.
    """
    expected = _read_shape(shape)
    return all(
        any(
            choice.requested.device_class_name != name
            or _may_satisfy_request(expected, choice.requested, reader)
            for choice in request_choices(request)
        )
        for claim in claims
        for request in claim.spec.devices.requests
    )


def _read_shape(shape: str) -> _ExpectedDevices:
    return _ExpectedDevices(int(shape.partition("x")[0]), dict(shape_properties(shape)))


def _may_satisfy_request(
    expected: _ExpectedDevices, wanted: RequestedDevices, reader: ShapeReader
) -> bool:
    if wanted.allocation_mode != ALL and wanted.count > expected.number:
        return False
    for name, amount in (wanted.capacity.requests if wanted.capacity else {}).items():
        stated = valid_quantity(expected.properties.get(name, ""))
        if stated is not None and amount > stated:
            return False
    return not any(
        _is_certainly_false(term, expected.properties, reader)
        for selector in wanted.selectors
        if selector.cel is not None
        for term in split_terms(selector.cel.expression, reader.selectors.stored)
    )


def _is_certainly_false(term: str, properties: Mapping[str, str], reader: ShapeReader) -> bool:
    """Return whether a term is false whatever the properties are that are not stated."""
    try:
        reads = find_reads(reader.selectors.stored.compile(term))
    except CompileError:
        return False
    read = reads.attributes() | reads.capacities()
    if len(read) < len(reads.accesses) or not all(_stated(*each, properties) for each in read):
        return False  # reads something else, or something that is not stated
    outcomes = [
        reader.expressions.selects(term, "", device)
        for device in _possible_devices(reads, properties)
    ]
    # A value of another type than the expression expects is an error and says nothing.
    verdicts = [each for each in outcomes if not isinstance(each, EvaluationFailure)]
    return bool(verdicts) and not any(verdicts)


def _stated(domain: str, identifier: str, properties: Mapping[str, str]) -> str:
    """Return the stated value of a property that is read with its domain; empty if unknown."""
    return properties.get(f"{domain}/{identifier}", "") or properties.get(identifier, "")


def _possible_devices(reads: Reads, properties: Mapping[str, str]) -> Iterator[Device]:
    """Return devices with the values that are read, in every type that the values can have."""
    capacity: dict[str, Capacity] = {}
    for domain, identifier in reads.capacities():
        amount = valid_quantity(_stated(domain, identifier, properties))
        if amount is not None:
            capacity[f"{domain}/{identifier}"] = Capacity(amount)
    names = sorted(reads.attributes())
    typed = [_attributes(_stated(*each, properties)) for each in names]
    for number, values in enumerate(product(*typed)):
        if number >= MAX_COMBINATIONS:
            return
        attributes = {"/".join(name): each for name, each in zip(names, values, strict=True)}
        yield Device("expected", attributes=attributes, capacity=capacity)


def _attributes(text: str) -> list[Attribute]:
    attributes = [Attribute(string=text), Attribute(version=text)]
    if text.lstrip("-").isdecimal():
        attributes.append(Attribute(integer=int(text)))
    if text in ("true", "false"):
        attributes.append(Attribute(boolean=text == "true"))
    return attributes
