"""Shared validation of API objects: collecting findings, and types that several kinds contain.

If a list is longer than its limit, its entries are not checked, so that hostile input costs little.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from drawbridge.dra import codes, formats
from drawbridge.dra.allocation import EQUAL, EXISTS, Opaque
from drawbridge.dra.claim import Selector
from drawbridge.dra.counted import join_words
from drawbridge.dra.decode_errors import (
    MAX_FINDINGS,
    describe_choice,
    describe_value,
    last_path_element,
)
from drawbridge.dra.device import NodeSelector, Requirement
from drawbridge.dra.opaque_json import OpaqueJSON
from drawbridge.dra.similar_names import find_similar
from drawbridge.dra.taints import Toleration
from drawbridge.finding import Code, Finding

SELECTORS, CONFIGS, EXPRESSION, PARAMETERS, CONDITIONS = 32, 32, 10 * 1024, 10 * 1024, 4
EFFECTS = ("None", "NoSchedule", "NoExecute")
NODE_NAME = "metadata.name"

FormatCheck = Callable[[str], str | None]


class ObjectValidator:
    """Checks the fields of one object. Collects findings up to a limit, then only counts them."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.findings: list[Finding] = []
        self.dropped = 0
        # Of keys: all devices of a slice have the same attributes.
        self._problems: dict[FormatCheck, dict[str, str | None]] = {}

    def result(self) -> tuple[Finding, ...]:
        """Return the findings."""
        if self.dropped:
            message = f"{self.dropped} more errors in this object are not shown"
            return (*self.findings, codes.MORE_ERRORS.at("", message, object=self.about))
        return tuple(self.findings)

    def add(self, code: Code, path: str, message: str, remedy: str | None = None) -> None:
        """Add a finding. The message starts with the last element of the path."""
        if len(self.findings) >= MAX_FINDINGS:
            self.dropped += 1
            return
        self.findings.append(
            code.at(path, f"{last_path_element(path)} {message}", object=self.about, remedy=remedy)
        )

    def check_form(self, path: str, text: str, check: FormatCheck) -> None:
        """Check the format of a name or value. An empty string is reported as missing."""
        if not text:
            self.add(codes.FIELD_MISSING, path, "must not be empty")
        elif problem := check(text):
            self.add(codes.MALFORMED, path, f"is {describe_value(text)}: {problem}")

    def check_keys(self, path: str, names: Iterable[str], check: FormatCheck) -> None:
        """Check the format of the keys of a map."""
        problems = self._problems.setdefault(check, {})
        for name in names:
            if name not in problems:
                problems[name] = check(name)
            if problem := problems[name]:
                self.add(codes.MALFORMED, path, f"has the key {describe_value(name)}: {problem}")

    def check_count(
        self, path: str, entries: Sequence[object] | Mapping[str, object], most: int
    ) -> bool:
        """Check the number of entries. Callers skip the entries if the result is False."""
        if len(entries) > most:
            self.add(
                codes.TOO_MANY, path, f"has {len(entries)} entries, at most {most} are allowed"
            )
        return len(entries) <= most

    def check_length(self, path: str, text: str, most: int) -> bool:
        """Check the length of a string in bytes."""
        problem = formats.check_length(text, most)
        if problem:
            self.add(codes.TOO_LONG, path, problem)
        return not problem

    def check_unique(self, path: str, keys: Iterable[Hashable]) -> None:
        """Check that the keys of list entries are unique."""
        seen: dict[Hashable, int] = {}
        for i, key in enumerate(keys):
            first = seen.setdefault(key, i)
            if first != i:
                text = "/".join(filter(None, key)) if isinstance(key, tuple) else f"{key}"
                message = f"repeats {describe_value(text)} of entry {first}"
                self.add(codes.DUPLICATE, f"{path}[{i}]", message)

    def check_choice(
        self, path: str, fields: Mapping[str, bool], *, is_exclusive: bool = True
    ) -> None:
        """Check that one of some fields is set, and only one if the choice `is_exclusive`.

        `fields` says of each field whether it is set.
        """
        chosen = [name for name, is_set in fields.items() if is_set]
        if not chosen:
            names = join_words(fields, "or")
            self.add(codes.EITHER_OR, path, f"needs {names}", f"Set {names}.")
        elif len(chosen) > 1 and is_exclusive:
            message = f"has {join_words(chosen, 'and')}, which exclude each other"
            self.add(codes.EITHER_OR, path, message, "Keep one of these fields.")

    def check_enum(self, path: str, value: str, accepted: Sequence[str]) -> None:
        """Check that a value is one of the known values."""
        if not value:
            self.add(codes.FIELD_MISSING, path, "must not be empty")
        elif value not in accepted:
            word = find_similar(value, accepted) or join_words(accepted, "or")
            remedy = f"Set {last_path_element(path)} to {word}."
            self.add(codes.NOT_ALLOWED, path, describe_choice(value, accepted), remedy)


def check_selectors(validator: ObjectValidator, path: str, entries: Sequence[Selector]) -> None:
    """Check selectors, except whether their expressions compile."""
    for i, selector in enumerate(
        entries if validator.check_count(path, entries, SELECTORS) else ()
    ):
        if selector.cel is None:
            validator.add(codes.FIELD_MISSING, f"{path}[{i}].cel", "is required")
        else:
            check_expression(validator, f"{path}[{i}].cel.expression", selector.cel.expression)


def check_expression(validator: ObjectValidator, path: str, text: str) -> None:
    """Check the length of an expression."""
    if not text:
        validator.add(codes.FIELD_MISSING, path, "must not be empty")
    validator.check_length(path, text, EXPRESSION)


def check_opaque(validator: ObjectValidator, path: str, config: Opaque | None) -> None:
    """Check an opaque configuration."""
    if config is None:
        validator.add(codes.FIELD_MISSING, path, "is required")
        return
    validator.check_form(f"{path}.driver", config.driver, formats.check_driver_name)
    _check_json_object(validator, f"{path}.parameters", config.parameters)


def _check_json_object(validator: ObjectValidator, path: str, value: OpaqueJSON | None) -> None:
    """Check a JSON object for a driver. Its size is that of the compact encoding."""
    if value is None:
        validator.add(codes.FIELD_MISSING, path, "is required")
    elif not value.text.startswith("{"):
        described = describe_value(value.decode())
        validator.add(codes.WRONG_TYPE, path, f"must be an object, not {described}")
    else:
        validator.check_length(path, value.text, PARAMETERS)


def check_tolerations(validator: ObjectValidator, path: str, entries: Sequence[Toleration]) -> None:
    """Check tolerations. The API documents a limit of 16, but does not check it."""
    for i, toleration in enumerate(entries):
        at = f"{path}[{i}]"
        if toleration.key:
            validator.check_form(f"{at}.key", toleration.key, formats.check_label_key)
        validator.check_enum(f"{at}.operator", toleration.operator, (EQUAL, EXISTS))
        if toleration.operator == EXISTS and toleration.value:
            validator.add(codes.NOT_ALLOWED, f"{at}.value", "must be empty with operator Exists")
        if toleration.operator == EQUAL and toleration.value:
            validator.check_form(f"{at}.value", toleration.value, formats.check_label_value)
        if toleration.effect:
            validator.check_enum(f"{at}.effect", toleration.effect, EFFECTS)


def check_binding_conditions(
    validator: ObjectValidator,
    path: str,
    conditions: Sequence[str],
    failure_conditions: Sequence[str],
) -> None:
    """Check binding conditions and binding failure conditions."""
    for field, entries in (
        ("bindingConditions", conditions),
        ("bindingFailureConditions", failure_conditions),
    ):
        at = f"{path}.{field}"
        if not validator.check_count(at, entries, CONDITIONS):
            continue
        validator.check_unique(at, entries)
        for i, entry in enumerate(entries):
            validator.check_form(f"{at}[{i}]", entry, formats.check_label_key)
    for i, entry in enumerate(failure_conditions):
        if entry in conditions:
            at = f"{path}.bindingFailureConditions[{i}]"
            validator.add(
                codes.NOT_ALLOWED, at, f"{describe_value(entry)} is also a binding condition"
            )
    if bool(conditions) != bool(failure_conditions):
        here, other = "bindingConditions", "bindingFailureConditions"
        if conditions:
            here, other = other, here
        message = f"must be set because {other} is set"
        validator.add(codes.EITHER_OR, f"{path}.{here}", message)


def check_node_selector(validator: ObjectValidator, path: str, selector: NodeSelector) -> None:
    """Check a node selector."""
    at = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        validator.add(codes.FIELD_MISSING, at, "must have at least one term")
    for i, term in enumerate(selector.node_selector_terms):
        for j, expression in enumerate(term.match_expressions):
            _match_expression(validator, f"{at}[{i}].matchExpressions[{j}]", expression)
        for j, field in enumerate(term.match_fields):
            _match_field(validator, f"{at}[{i}].matchFields[{j}]", field)


def _match_expression(validator: ObjectValidator, path: str, requirement: Requirement) -> None:
    operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    operator = requirement.operator
    validator.check_enum(f"{path}.operator", operator, operators)
    validator.check_form(f"{path}.key", requirement.key, formats.check_label_key)
    at, number = f"{path}.values", len(requirement.values)
    if operator in ("In", "NotIn") and not number:
        validator.add(codes.FIELD_MISSING, at, f"must not be empty with operator {operator}")
    elif operator in ("Exists", "DoesNotExist") and number:
        validator.add(codes.NOT_ALLOWED, at, f"must be empty with operator {operator}")
    elif operator in ("Gt", "Lt") and number != 1:
        validator.add(
            codes.NOT_ALLOWED,
            at,
            f"must have exactly one value with operator {operator}",
        )
    for i, value in enumerate(requirement.values):
        if value:
            validator.check_form(f"{at}[{i}]", value, formats.check_label_value)


def _match_field(validator: ObjectValidator, path: str, requirement: Requirement) -> None:
    validator.check_enum(f"{path}.operator", requirement.operator, ("In", "NotIn"))
    validator.check_enum(f"{path}.key", requirement.key, (NODE_NAME,))
    if requirement.operator in ("In", "NotIn") and len(requirement.values) != 1:
        validator.add(codes.NOT_ALLOWED, f"{path}.values", "must have exactly one value")
    for i, value in enumerate(requirement.values if requirement.key == NODE_NAME else ()):
        validator.check_form(f"{path}.values[{i}]", value, formats.check_subdomain)
