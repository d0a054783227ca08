"""What a claim spec cannot say, as an annotation of the claims: for our own allocator.

Written into the metadata of a template, it reaches every claim that is made of it. Versioned, read
strictly, one text for one meaning. A tenant can write it as well, so whoever reads it checks it
against the claim. Knows nothing of pods and of who asked.
"""

import json
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec

from dra.claim import ALL, ClaimSpec, request_choices
from dra.codes import RULE_NAMES_NO_REQUEST, RULE_WITHOUT_NUMBER, RULES_UNREADABLE
from dra.decode_errors import Schema, convert
from dra.finding import Code, Finding
from dra.names import API_VERSION, RULES_ANNOTATION

PATH: Final = f"metadata.annotations[{RULES_ANNOTATION}]"
KIND: Final = "Rules"
# As many constraints as a claim may have, and what their text may take of its annotations.
MAX_RULES: Final = 32
MAX_CHARACTERS: Final = 16 * 1024

PackingPolicy = Literal["packed", "spread"]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of the annotation."""


def _says(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


_Names = tuple[str, ...]
_Attributes = Annotated[
    tuple[str, ...],
    _says("Full names; the first that all devices concerned publish tells their places."),
]
_Required = Annotated[
    bool, _says("Whether devices that break it are refused, or only chosen last.")
]


class Joint(_Part, frozen=True):
    """Devices of several requests side by side: each place of the primary's has one of each."""

    primary: Annotated[_Names, _says("The requests whose devices tell the places.")]
    others: Annotated[
        _Names, _says("The requests whose devices stand at exactly those places, at each of them.")
    ]
    attributes: _Attributes
    required: _Required = True


class Near(_Part, frozen=True):
    """Devices in one place."""

    requests: Annotated[_Names, _says("The requests whose devices stand in one place.")]
    attributes: _Attributes
    required: _Required = True


class RuleStrategy(_Part, frozen=True, omit_defaults=True):
    """How to choose among what all fits."""

    nodes: Annotated[
        PackingPolicy | None, _says("Fill up nodes in use first, or take idle ones.")
    ] = None
    devices: Annotated[
        PackingPolicy | None, _says("On a node, fill up devices in use first, or take idle ones.")
    ] = None


class Rules(_Part, frozen=True, omit_defaults=True):
    """The rules of one claim; requests are named as in its spec."""

    joint: tuple[Joint, ...] = ()
    near: tuple[Near, ...] = ()
    strategy: RuleStrategy | None = None
    api_version: Literal["drawbridge.dev/v1alpha1"] = API_VERSION
    kind: Literal["Rules"] = KIND


_SCHEMA: Final = Schema(Rules)


def encode_rules(rules: Rules) -> str:
    """Write rules as the annotation's text: canonical JSON; empty where there are none."""
    if rules == Rules():
        return ""
    content = {**msgspec.to_builtins(rules), "apiVersion": API_VERSION, "kind": KIND}
    return msgspec.json.encode(content, order="sorted").decode()


def read_rules(text: str) -> Rules | tuple[Finding, ...]:
    """Read the annotation's text, or say what is wrong with it."""
    if len(text) > MAX_CHARACTERS:
        return (_unreadable(f"has {len(text)} characters, at most {MAX_CHARACTERS} are allowed"),)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return (_unreadable(f"invalid JSON: {str(error)[:80]}"),)
    said = value if isinstance(value, dict) else {}
    if (said.get("apiVersion"), said.get("kind")) != (API_VERSION, KIND):
        return (_unreadable(f"must have kind {KIND} and apiVersion {API_VERSION}"),)
    found = convert(value, _SCHEMA, object=KIND)
    if isinstance(found, tuple):
        return tuple(_unreadable(f"{each.path}: {each.message}") for each in found)
    rules: Rules = found
    if len(rules.joint) + len(rules.near) > MAX_RULES:
        return (_unreadable(f"there are more than {MAX_RULES} rules"),)
    return rules


def check_rules(rules: Rules, spec: ClaimSpec) -> tuple[Finding, ...]:
    """Check rules against the claim that they are about."""
    return tuple(_checked(rules, spec))


def _checked(rules: Rules, spec: ClaimSpec) -> Iterator[Finding]:
    requests = {each.name: each for each in spec.devices.requests}
    parts = [(f"joint[{i}]", (*r.primary, *r.others)) for i, r in enumerate(rules.joint)]
    parts += [(f"near[{i}]", each.requests) for i, each in enumerate(rules.near)]
    for place, names in parts:
        for name in names:
            if name not in requests:
                yield _wrong(RULE_NAMES_NO_REQUEST, place, f"the claim has no request {name}")
            elif any(
                way.requested.allocation_mode == ALL for way in request_choices(requests[name])
            ):
                why = f"request {name} has allocationMode All, but a rule needs a request with a count"
                yield _wrong(RULE_WITHOUT_NUMBER, place, why)
        if len(set(names)) < len(names) or not names:
            why = "must name at least one request, and each request only once"
            yield _wrong(RULE_NAMES_NO_REQUEST, place, why)
    for i, rule in enumerate(rules.joint):
        if not (rule.primary and rule.others):
            why = "must set primary and others"
            yield _wrong(RULE_NAMES_NO_REQUEST, f"joint[{i}]", why)


def _wrong(code: Code, place: str, why: str) -> Finding:
    """Tell of a place within the annotation, which is one text for whoever locates findings."""
    return code.at(PATH, f"{place}: {why}")


def _unreadable(why: str) -> Finding:
    return RULES_UNREADABLE.at(PATH, why)


def rules_schema() -> dict[str, object]:
    """The JSON Schema of the annotation."""
    return msgspec.json.schema(Rules)


def render_page() -> str:
    """Render the reference page of the annotation, `docs/rules.md`."""
    lines = [
        "# Rules of a claim",
        "",
        f"In bridge placement the annotation `{RULES_ANNOTATION}` says",
        "what a claim spec cannot. It stands in",
        "`spec.metadata.annotations` of the ResourceClaimTemplate, is part of its name's hash, and",
        "so reaches every claim. It is JSON; unknown fields are refused. `drawbridge lint` judges",
        "it; this version has no allocator that acts on it. This page is generated from the code",
        "(`make docs`).",
        "",
        "```json",
        json.dumps(json.loads(encode_rules(_EXAMPLE)), indent=2),
        "```",
    ]
    for part, title in ((Joint, "joint[]"), (Near, "near[]"), (RuleStrategy, "strategy")):
        fields = rules_schema()["$defs"][part.__name__]["properties"]  # type: ignore[index]
        lines += ["", f"## {title}", "", f"{part.__doc__}", "", "| field | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {each['description']} |" for name, each in fields.items()]
    lines += ["", "## JSON Schema", "", "```json", json.dumps(rules_schema(), indent=2), "```"]
    return "\n".join(lines) + "\n"


_EXAMPLE: Final = Rules(
    joint=(Joint(("gpu",), ("nic",), ("resource.kubernetes.io/pcieRoot",)),),
    strategy=RuleStrategy(devices="packed"),
)
