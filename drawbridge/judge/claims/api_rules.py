"""Checks what the API server rejects in claims: limits and formats, expressions, admin access.

The API server rejects such an object before any webhook sees it, so only the checks of files ask
this question.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from drawbridge.cel.frame import COST_LIMIT
from drawbridge.dra.claim import (
    DerivedAttribute,
    Devices,
    ExactRequest,
    Request,
    Selector,
    SubRequest,
    request_choices,
)
from drawbridge.dra.device import CELExpression
from drawbridge.dra.validation import validate_devices
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.slices.codes import EXPRESSION_REFUSED
from drawbridge.judge.slices.expressions import check_expression
from drawbridge.judge.subject import JudgedClaim, Subject
from drawbridge.names import ADMIN_ACCESS_LABEL
from drawbridge.solver.codes import SELECTOR_TOO_EXPENSIVE

REFUSED_EXPRESSIONS: Final = frozenset({EXPRESSION_REFUSED.name, SELECTOR_TOO_EXPENSIVE.name})
_Requested = TypeVar("_Requested", ExactRequest, SubRequest)


def check_api_rules(subject: Subject, context: JudgeContext) -> Iterator[Finding]:
    """Report everything in the spec of claims that the API server rejects."""
    for judged in subject.claims:
        path = f"{judged.path}.devices"
        yield from validate_devices(judged.claim.spec.devices, path, judged.object)
        yield from _check_expressions(judged, context)
        yield from _check_derived_cost(judged, context)
        yield from _check_admin_access(judged, subject.namespace, context)


def _check_expressions(judged: JudgedClaim, context: JudgeContext) -> Iterator[Finding]:
    about, selectors = judged.object, context.selectors
    for at, choice in judged.list_choices():
        for k, selector in enumerate(choice.requested.selectors):
            if selector.cel is not None and selector.cel.expression:
                path = f"{at}.selectors[{k}].cel.expression"
                yield from check_expression(selector.cel.expression, about, path, selectors)
        for k, derived in enumerate(choice.requested.derived_attributes):
            if text := derived.expression:
                path = f"{at}.derivedAttributes[{k}].expression"
                yield from check_expression(text, about, path, selectors, is_derived=True)


def _check_derived_cost(judged: JudgedClaim, context: JudgeContext) -> Iterator[Finding]:
    """Report derived attributes that the API server accepts one by one, but not all of them."""
    devices, selectors = judged.claim.spec.devices, context.selectors
    accepted = [
        derived.expression
        for derived in _derived_attributes(devices)
        if selectors.check_admission(derived.expression, derived=True)[0]
    ]
    cost = sum(selectors.compile_new(text, derived=True).max_cost for text in accepted)
    if cost > COST_LIMIT:
        message = (
            f"derived attributes have an estimated cost of {cost} in all, but the API server "
            f"allows {COST_LIMIT}"
        )
        path = f"{judged.path}.devices"
        remedy = "Derive fewer attributes, or simplify their expressions."
        yield EXPRESSION_REFUSED.at(path, message, object=judged.object, remedy=remedy)


def _derived_attributes(devices: Devices) -> Iterator[DerivedAttribute]:
    for request in devices.requests:
        for choice in request_choices(request):
            yield from choice.requested.derived_attributes


def accept_expressions(subject: Subject, context: JudgeContext) -> Subject:
    """Return a subject in which each selector that the API server rejects is `true`.

    The claims are without the constraints that use a rejected derived attribute.
    """

    def accept(selector: Selector) -> Selector:
        text = selector.cel.expression if selector.cel is not None else ""
        is_admitted, _ = context.selectors.check_admission(text)
        return selector if is_admitted else Selector(CELExpression("true"))

    def accept_all(requested: _Requested) -> _Requested:
        return replace(requested, selectors=tuple(map(accept, requested.selectors)))

    def accept_in(request: Request) -> Request:
        exactly = accept_all(request.exactly) if request.exactly is not None else None
        alternatives = tuple(map(accept_all, request.first_available))
        return replace(request, exactly=exactly, first_available=alternatives)

    def accept_of(judged: JudgedClaim) -> JudgedClaim:
        spec = judged.claim.spec
        rejected = {
            derived.name
            for derived in _derived_attributes(spec.devices)
            if not context.selectors.check_admission(derived.expression, derived=True)[0]
        }
        constraints = tuple(
            each
            for each in spec.devices.constraints
            if (each.match_attribute or each.distinct_attribute) not in rejected
        )
        requests = tuple(map(accept_in, spec.devices.requests))
        devices = replace(spec.devices, requests=requests, constraints=constraints)
        return replace(judged, claim=replace(judged.claim, spec=replace(spec, devices=devices)))

    return replace(subject, claims=tuple(map(accept_of, subject.claims)))


def _check_admin_access(
    judged: JudgedClaim, namespace: str, context: JudgeContext
) -> Iterator[Finding]:
    labels = context.lookups.find_namespace_labels(namespace)
    if labels is None or labels.get(ADMIN_ACCESS_LABEL) == "true" or not context.gates.admin_access:
        return
    for i, request in enumerate(judged.claim.spec.devices.requests):
        if request.exactly is not None and request.exactly.admin_access:
            message = f"namespace {namespace} does not have the label {ADMIN_ACCESS_LABEL}: true"
            path = f"{judged.choice_path(i, None)}.adminAccess"
            yield codes.ADMIN_ACCESS_DENIED.at(path, message, object=judged.object)
