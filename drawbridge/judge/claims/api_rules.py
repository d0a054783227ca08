"""Checks what the API server rejects in claims: limits and formats, expressions, admin access.

The API server rejects such an object before any webhook sees it, so only the checks of files ask
this question.
"""

from collections.abc import Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from drawbridge.dra.claim import ExactRequest, Request, Selector, SubRequest, request_choices
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
        yield from _check_admin_access(judged, subject.namespace, context)


def _check_expressions(judged: JudgedClaim, context: JudgeContext) -> Iterator[Finding]:
    for i, request in enumerate(judged.claim.spec.devices.requests):
        for j, choice in enumerate(request_choices(request)):
            inside = ".exactly" if request.exactly is not None else f".firstAvailable[{j}]"
            at = f"{judged.request_path(i)}{inside}"
            for k, selector in enumerate(choice.requested.selectors):
                if selector.cel is not None and selector.cel.expression:
                    path = f"{at}.selectors[{k}].cel.expression"
                    text = selector.cel.expression
                    yield from check_expression(text, judged.object, path, context.selectors)


def accept_expressions(subject: Subject, context: JudgeContext) -> Subject:
    """Return a subject in which each expression that the API server rejects is `true`."""

    def accept(selector: Selector) -> Selector:
        text = selector.cel.expression if selector.cel is not None else ""
        is_rejected = bool(check_expression(text, "", "", context.selectors))
        return Selector(CELExpression("true")) if is_rejected else selector

    def accept_all(requested: _Requested) -> _Requested:
        return replace(requested, selectors=tuple(map(accept, requested.selectors)))

    def accept_in(request: Request) -> Request:
        exactly = accept_all(request.exactly) if request.exactly is not None else None
        alternatives = tuple(map(accept_all, request.first_available))
        return replace(request, exactly=exactly, first_available=alternatives)

    def accept_of(judged: JudgedClaim) -> JudgedClaim:
        spec = judged.claim.spec
        devices = replace(spec.devices, requests=tuple(map(accept_in, spec.devices.requests)))
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
            path = f"{judged.request_path(i)}.exactly.adminAccess"
            yield codes.ADMIN_ACCESS_DENIED.at(path, message, object=judged.object)
