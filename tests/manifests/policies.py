"""Evaluates the policies of the base, as the API server does for one request."""

import functools
from collections.abc import Mapping
from typing import Any

from drawbridge.cel import Environment, Program
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.types import DYN
from tests.manifests.rendering import Json, read_base

CONTROLLER = "system:serviceaccount:drawbridge-system:drawbridge-controller"
_INPUTS = ("object", "oldObject", "request", "variables")
POLICIES: Mapping[str, Json] = {
    each["metadata"]["name"]: each["spec"]
    for each in read_base("policies.yaml")
    if each["kind"] == "ValidatingAdmissionPolicy"
}


@functools.cache
def _compiled(text: str) -> Program:
    declared = dict.fromkeys(_INPUTS, DYN)
    return Environment(declared, libraries("1.34", stored=False)).compile(text)


def find_refusal(
    name: str, new: Json, old: Json | None = None, user: str = CONTROLLER
) -> str | None:
    """Return the message with which a policy refuses a write; None if it does not."""
    spec = POLICIES[name]
    variables: dict[str, Any] = {}
    request = {"userInfo": {"username": user}}
    inputs = {"object": new, "oldObject": old, "request": request, "variables": variables}

    def evaluate(text: str) -> Any:  # noqa: ANN401  # any value of CEL
        return _compiled(text).evaluate(inputs).value

    if not all(evaluate(each["expression"]) for each in spec["matchConditions"]):
        return None
    for each in spec.get("variables", ()):
        variables[each["name"]] = evaluate(each["expression"])
    refusals = (each["message"] for each in spec["validations"] if not evaluate(each["expression"]))
    return next(refusals, None)
