"""The rules annotation of claims, for requirements that a claim spec cannot express.

Only the Drawbridge allocator uses the rules. A template carries the annotation in the metadata for
its claims. The format is versioned, decoded strictly and canonical. Users can write the annotation,
so readers must check it against the claim.
"""

import functools
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec

from drawbridge.dra.claim import ALL, Claim, ClaimSpec, Request, request_choices
from drawbridge.dra.codes import RULE_NAMES_NO_REQUEST, RULE_WITHOUT_NUMBER, RULES_UNREADABLE
from drawbridge.dra.decode_errors import Schema, convert, describe_value
from drawbridge.dra.formats import check_qualified_name
from drawbridge.finding import Code, Finding
from drawbridge.names import API_VERSION, RULES_ANNOTATION

PATH: Final = f"metadata.annotations[{RULES_ANNOTATION}]"
KIND: Final = "Rules"
# Limits on the number of rules, as for constraints of a claim, and on the annotation size.
MAX_RULES: Final = 32
MAX_ATTRIBUTES: Final = 8
MAX_CHARACTERS: Final = 16 * 1024

PackingPolicy = Literal["packed", "spread"]
# The strategies by name, with the names of other projects. `NODES/DEVICES` differs by level.
StrategyName = Literal[
    "first-fit", "packed", "spread", "packed-nodes", "best-fit", "fgd", "usable", "numa",
    "topology-aware", "spread/packed", "spread/numa", "spread/topology-aware",
    "CompactFirst", "LowLoadFirst", "NodeCompactGPULowLoad", "binpack",
]  # fmt: skip
# What a weight is about: a capacity of the devices, or one of `OTHER_WEIGHTS`.
DEVICES_WEIGHT: Final = "devices"
NEAR_WEIGHT: Final = "near"
CPU_WEIGHT: Final = "node.cpu"
MEMORY_WEIGHT: Final = "node.memory"
OTHER_WEIGHTS: Final = (DEVICES_WEIGHT, NEAR_WEIGHT, CPU_WEIGHT, MEMORY_WEIGHT)
MAX_WEIGHT: Final = 1000
MAX_WEIGHTS: Final = 8
MAX_WEIGHTS_CHARACTERS: Final = 1024
Weight = Annotated[int, msgspec.Meta(ge=0, le=MAX_WEIGHT)]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of the annotation. Unknown fields are rejected."""


def _describe(description: str) -> msgspec.Meta:
    return msgspec.Meta(description=description)


_Names = tuple[str, ...]
_Attributes = Annotated[
    tuple[str, ...],
    _describe("Full attribute names. The first one that all devices publish defines the groups."),
]
_Required = Annotated[
    bool,
    _describe("Whether the rule is mandatory. If false, other devices are used as a last resort."),
]


class Joint(_Part, frozen=True):
    """Devices of several requests in the same topology groups, such as PCIe roots."""

    primary: Annotated[_Names, _describe("The requests whose devices define the groups.")]
    others: Annotated[
        _Names, _describe("The requests with devices in exactly these groups, and in each of them.")
    ]
    attributes: _Attributes
    required: _Required = True


class Near(_Part, frozen=True):
    """Devices in one topology group."""

    requests: Annotated[_Names, _describe("The requests whose devices are in one group.")]
    attributes: _Attributes
    required: _Required = True


class Distinct(_Part, frozen=True):
    """Devices without a common value, where the API server drops `distinctAttribute`."""

    requests: Annotated[_Names, _describe("The requests whose devices differ.")]
    attribute: Annotated[str, _describe("The full name of the attribute in which they differ.")]


class RuleStrategy(_Part, frozen=True, omit_defaults=True):
    """How to choose between suitable devices."""

    name: Annotated[
        StrategyName | None,
        _describe("The strategy for nodes and devices, instead of that of the Configuration."),
    ] = None
    nodes: Annotated[
        PackingPolicy | None, _describe("Prefer nodes in use (`packed`) or idle nodes (`spread`).")
    ] = None
    devices: Annotated[
        PackingPolicy | None,
        _describe("On a node, prefer devices in use (`packed`) or idle devices (`spread`)."),
    ] = None
    weights: Annotated[
        Mapping[str, Weight],
        _describe("The weights of the parts of a score, instead of those of the Configuration."),
    ] = {}


class Rules(_Part, frozen=True, omit_defaults=True):
    """The rules of one claim. Request names are those of the claim spec."""

    joint: tuple[Joint, ...] = ()
    near: tuple[Near, ...] = ()
    distinct: tuple[Distinct, ...] = ()
    strategy: RuleStrategy | None = None
    api_version: Literal["drawbridge.dev/v1alpha1"] = API_VERSION
    kind: Literal["Rules"] = KIND


_SCHEMA: Final = Schema(Rules)
_NO_RULES: Final = Rules()


def encode_rules(rules: Rules) -> str:
    """Return the annotation value: canonical JSON, or an empty string without rules."""
    if rules == _NO_RULES:
        return ""
    content = {**msgspec.to_builtins(rules), "apiVersion": API_VERSION, "kind": KIND}
    return msgspec.json.encode(content, order="sorted").decode()


# A decision reads the rules of its claims several times, and each one takes milliseconds.
@functools.lru_cache(maxsize=256)
def read_rules(text: str) -> Rules | tuple[Finding, ...]:
    """Decode the annotation value. Return findings if it is not valid."""
    if len(text) > MAX_CHARACTERS:
        return (_unreadable(f"has {len(text)} characters, at most {MAX_CHARACTERS} are allowed"),)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return (_unreadable(f"invalid JSON: {str(error)[:80]}"),)
    header = value if isinstance(value, dict) else {}
    if (header.get("apiVersion"), header.get("kind")) != (API_VERSION, KIND):
        return (_unreadable(f"must have kind {KIND} and apiVersion {API_VERSION}"),)
    decoded = convert(value, _SCHEMA, object=KIND)
    if isinstance(decoded, tuple):
        return tuple(_unreadable(f"{each.path}: {each.message}") for each in decoded)
    rules: Rules = decoded
    problem = _problem(rules)
    return (_unreadable(problem),) if problem else rules


def _problem(rules: Rules) -> str:
    """Return what is wrong with the rules whatever their claim is."""
    if len(rules.joint) + len(rules.near) + len(rules.distinct) > MAX_RULES:
        return f"there are more than {MAX_RULES} rules"
    if rules.strategy is not None and (problem := weights_problem(rules.strategy.weights)):
        return f"strategy.weights: {problem}"
    attributes = [(f"joint[{i}]", each.attributes) for i, each in enumerate(rules.joint)]
    attributes += [(f"near[{i}]", each.attributes) for i, each in enumerate(rules.near)]
    for rule_path, names in attributes:
        if not 0 < len(names) <= MAX_ATTRIBUTES:
            counts = f"names {len(names)} attributes, must name 1 to {MAX_ATTRIBUTES}"
            return f"{rule_path}.attributes: {counts}"
    return ""


def weights_problem(weights: Collection[str]) -> str:
    """Return what is wrong with the names of weights, or with their number."""
    if len(weights) > MAX_WEIGHTS:
        return f"there are {len(weights)} weights, at most {MAX_WEIGHTS} are allowed"
    wrong = ((name, check_weight_name(name)) for name in weights)
    return next((f"{describe_value(name)} {why}" for name, why in wrong if why), "")


def read_weights(text: str) -> dict[str, int]:
    """Read a list of weights such as `cores=1,memory=3`. Raises ValueError with what is wrong."""
    weights: dict[str, int] = {}
    if len(text) > MAX_WEIGHTS_CHARACTERS:
        raise ValueError(
            f"has {len(text)} characters, at most {MAX_WEIGHTS_CHARACTERS} are allowed"
        )
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, number = (each.strip() for each in part.partition("="))
        if not (number.isascii() and number.isdigit()) or int(number) > MAX_WEIGHT:
            what = f"{describe_value(part)} is not a name and a whole number up to {MAX_WEIGHT}"
            raise ValueError(f"{what}, such as memory=3")
        if name in weights:
            raise ValueError(f"{describe_value(name)} has two weights")
        weights[name] = int(number)
    if problem := weights_problem(weights):
        raise ValueError(problem)
    return weights


def check_weight_name(text: str) -> str | None:
    """Return why a weight cannot have this name, as a predicate; None if it can."""
    if text in OTHER_WEIGHTS or (text.count("/") <= 1 and not check_qualified_name(text)):
        return None
    others = ", ".join(OTHER_WEIGHTS)
    return f"must be the name of a capacity, such as memory, or one of {others}"


def find_rules(annotations: Mapping[str, str]) -> Rules | tuple[Finding, ...]:
    """Decode the rules in annotations; without the annotation there are none."""
    text = annotations.get(RULES_ANNOTATION)
    return _NO_RULES if text is None else read_rules(text)


def read_claim_rules(claim: Claim) -> Rules | tuple[Finding, ...]:
    """Return the rules of a claim. Return findings if they are not valid for it."""
    rules = find_rules(claim.metadata.annotations)
    if rules is _NO_RULES or isinstance(rules, tuple):
        return rules
    return check_rules(rules, claim.spec) or rules


def check_rules(rules: Rules, spec: ClaimSpec) -> tuple[Finding, ...]:
    """Check the rules against the spec of their claim."""
    return tuple(_findings(rules, spec))


def _findings(rules: Rules, spec: ClaimSpec) -> Iterator[Finding]:
    # A rule can name each request, and there are many rules.
    requests = {each.name: _why_not_counted(each) for each in spec.devices.requests}
    parts = [(f"joint[{i}]", (*r.primary, *r.others)) for i, r in enumerate(rules.joint)]
    parts += [(f"near[{i}]", each.requests) for i, each in enumerate(rules.near)]
    several = len(parts)  # rules after these need no number of devices
    parts += [(f"distinct[{i}]", each.requests) for i, each in enumerate(rules.distinct)]
    for number, (rule_path, names) in enumerate(parts):
        for name in names:
            if name not in requests:
                yield _wrong(RULE_NAMES_NO_REQUEST, rule_path, f"the claim has no request {name}")
            elif number < several and (why := requests[name]):
                yield _wrong(RULE_WITHOUT_NUMBER, rule_path, why)
        if len(set(names)) < len(names) or not names:
            why = "must name at least one request, and each request only once"
            yield _wrong(RULE_NAMES_NO_REQUEST, rule_path, why)
    for i, rule in enumerate(rules.joint):
        if not (rule.primary and rule.others):
            why = "must set primary and others"
            yield _wrong(RULE_NAMES_NO_REQUEST, f"joint[{i}]", why)


def _why_not_counted(request: Request) -> str:
    """Return why the number of the devices of a request is not known."""
    alternatives = [each.requested for each in request_choices(request)]
    if any(each.allocation_mode == ALL for each in alternatives):
        return f"request {request.name} has allocationMode All, but a rule needs a count"
    if any(each.count < 1 for each in alternatives):
        return f"request {request.name} has a negative count"
    return ""


def _wrong(code: Code, rule_path: str, why: str) -> Finding:
    """Return a finding for a rule. Its path is the annotation, because that is one string."""
    return code.at(PATH, f"{rule_path}: {why}")


def _unreadable(why: str) -> Finding:
    return RULES_UNREADABLE.at(PATH, why)


def rules_schema() -> dict[str, object]:
    """Return the JSON Schema of the annotation."""
    return msgspec.json.schema(Rules)
