"""What limits of the API have in common: collecting findings, and parts that many kinds have.

A limit that is exceeded hides what is behind it, so that a hostile list costs no more than its
length. Knows the rules of parts, and no object as a whole.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from ipaddress import ip_interface

from dra import codes, formats
from dra.allocation import EQUAL, EXISTS, NetworkData, Opaque
from dra.claim import Selector
from dra.decode_errors import MOST_FINDINGS, describe_value
from dra.device import NodeSelector, Requirement
from dra.finding import Code, Finding
from dra.taints import Toleration

SELECTORS, CONFIGS, EXPRESSION, PARAMETERS, CONDITIONS = 32, 32, 10 * 1024, 10 * 1024, 4
INTERFACE_NAME, ADDRESSES, HARDWARE_ADDRESS = 256, 16, 128
EFFECTS = ("None", "NoSchedule", "NoExecute")
NODE_NAME = "metadata.name"

Form = Callable[[str], str | None]


class FindingCollector:
    """Collects what is wrong with one object, up to a limit, and counts the rest."""

    def __init__(self, about: str) -> None:
        self.about = about
        self.findings: list[Finding] = []
        self.dropped = 0

    def told(self) -> tuple[Finding, ...]:
        """Give what was found."""
        if self.dropped:
            message = f"{self.dropped} more errors in this object are not shown"
            return (*self.findings, codes.MORE_ERRORS.at("", message, object=self.about))
        return tuple(self.findings)

    def tell(self, code: Code, path: str, message: str, remedy: str | None = None) -> None:
        """Add a finding; the message begins with the last part of the path."""
        if len(self.findings) >= MOST_FINDINGS:
            self.dropped += 1
            return
        self.findings.append(
            code.at(path, f"{last_path_element(path)} {message}", object=self.about, remedy=remedy)
        )

    def form(self, path: str, text: str, form: Form) -> None:
        """Check the form of a name or value; an empty one is missing."""
        if not text:
            self.tell(codes.FIELD_MISSING, path, "must not be empty")
        elif problem := form(text):
            self.tell(codes.MALFORMED, path, f"is {describe_value(text)}: {problem}")

    def keys(self, path: str, names: Iterable[str], form: Form) -> None:
        """Check the form of the keys of a map."""
        for name in names:
            if problem := form(name):
                self.tell(codes.MALFORMED, path, f"has the key {describe_value(name)}: {problem}")

    def at_most(
        self, path: str, entries: Sequence[object] | Mapping[str, object], most: int
    ) -> bool:
        """Check a list's or map's length; what is in one that is too long is not looked at."""
        if len(entries) > most:
            self.tell(
                codes.TOO_MANY, path, f"has {len(entries)} entries, at most {most} are allowed"
            )
        return len(entries) <= most

    def fits(self, path: str, text: str, most: int) -> bool:
        """Check a text's length."""
        problem = formats.check_length(text, most)
        if problem:
            self.tell(codes.TOO_LONG, path, problem)
        return not problem

    def distinct(self, path: str, keys: Iterable[Hashable]) -> None:
        """Check that no key of a list's entries is there twice."""
        seen: dict[Hashable, int] = {}
        for i, key in enumerate(keys):
            first = seen.setdefault(key, i)
            if first != i:
                text = "/".join(filter(None, key)) if isinstance(key, tuple) else f"{key}"
                message = f"repeats {describe_value(text)} of entry {first}"
                self.tell(codes.DUPLICATE, f"{path}[{i}]", message)

    def among(self, path: str, value: str, known: Iterable[str]) -> None:
        """Check that a value is one of a few."""
        if not value:
            self.tell(codes.FIELD_MISSING, path, "must not be empty")
        elif value not in known:
            message = f"is {describe_value(value)}, which is not one of {', '.join(known)}"
            self.tell(codes.NOT_ALLOWED, path, message)


def last_path_element(path: str) -> str:
    """Name the place in a sentence: the field, or the entry of a list or map."""
    head, bracket, key = path.rpartition("[") if path.endswith("]") else (path, "", "")
    return head.rpartition(".")[2] + bracket + key or "the object"


def check_selectors(check: FindingCollector, path: str, entries: Sequence[Selector]) -> None:
    """Check selectors, but for what their expressions say."""
    for i, selector in enumerate(entries if check.at_most(path, entries, SELECTORS) else ()):
        if selector.cel is None:
            check.tell(codes.FIELD_MISSING, f"{path}[{i}].cel", "is required and not there")
        else:
            check_expression(check, f"{path}[{i}].cel.expression", selector.cel.expression)


def check_expression(check: FindingCollector, path: str, text: str) -> None:
    """Check an expression's length."""
    if not text:
        check.tell(codes.FIELD_MISSING, path, "must not be empty")
    check.fits(path, text, EXPRESSION)


def check_opaque(check: FindingCollector, path: str, config: Opaque | None) -> None:
    """Check one configuration."""
    if config is None:
        check.tell(codes.FIELD_MISSING, path, "is required and not there")
        return
    check.form(f"{path}.driver", config.driver, formats.check_driver_name)
    check_json_object(check, f"{path}.parameters", config.parameters)


def check_json_object(check: FindingCollector, path: str, value: object) -> None:
    """Check a JSON object that only a driver understands; its size is that of its compact form."""
    if value is None:
        check.tell(codes.FIELD_MISSING, path, "is required and not there")
    elif not isinstance(value, Mapping):
        check.tell(codes.WRONG_TYPE, path, f"must be an object, not {describe_value(value)}")
    else:
        try:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except (TypeError, ValueError, RecursionError):
            check.tell(codes.WRONG_VALUE, path, "cannot be written as JSON")
        else:
            check.fits(path, text, PARAMETERS)


def check_tolerations(check: FindingCollector, path: str, entries: Sequence[Toleration]) -> None:
    """Check tolerations; their number is documented as at most 16 and never checked."""
    for i, each in enumerate(entries):
        at = f"{path}[{i}]"
        if each.key:
            check.form(f"{at}.key", each.key, formats.check_label_key)
        check.among(f"{at}.operator", each.operator, (EQUAL, EXISTS))
        if each.operator == EXISTS and each.value:
            check.tell(codes.NOT_ALLOWED, f"{at}.value", "must be empty with operator Exists")
        if each.operator == EQUAL and each.value:
            check.form(f"{at}.value", each.value, formats.check_label_value)
        if each.effect:
            check.among(f"{at}.effect", each.effect, EFFECTS)


def check_binding_conditions(
    check: FindingCollector, path: str, wanted: Sequence[str], failing: Sequence[str]
) -> None:
    """Check the conditions that a device waits for and those that end the wait."""
    for field, entries in (("bindingConditions", wanted), ("bindingFailureConditions", failing)):
        at = f"{path}.{field}"
        if not check.at_most(at, entries, CONDITIONS):
            continue
        check.distinct(at, entries)
        for i, entry in enumerate(entries):
            check.form(f"{at}[{i}]", entry, formats.check_label_key)
    for i, entry in enumerate(failing):
        if entry in wanted:
            at = f"{path}.bindingFailureConditions[{i}]"
            check.tell(
                codes.NOT_ALLOWED, at, f"{describe_value(entry)} is a binding condition as well"
            )
    if bool(wanted) != bool(failing):
        here, other = "bindingConditions", "bindingFailureConditions"
        if wanted:
            here, other = other, here
        message = f"must be there where {other} is: both or none"
        check.tell(codes.EITHER_OR, f"{path}.{here}", message)


def check_node_selector(check: FindingCollector, path: str, selector: NodeSelector) -> None:
    """Check a node selector."""
    at = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        check.tell(codes.FIELD_MISSING, at, "must have a term")
    for i, term in enumerate(selector.node_selector_terms):
        for j, each in enumerate(term.match_expressions):
            _match_expression(check, f"{at}[{i}].matchExpressions[{j}]", each)
        for j, each in enumerate(term.match_fields):
            _match_field(check, f"{at}[{i}].matchFields[{j}]", each)


def _match_expression(check: FindingCollector, path: str, each: Requirement) -> None:
    operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    check.among(f"{path}.operator", each.operator, operators)
    check.form(f"{path}.key", each.key, formats.check_label_key)
    at, number = f"{path}.values", len(each.values)
    if each.operator in ("In", "NotIn") and not number:
        check.tell(codes.FIELD_MISSING, at, f"must not be empty with operator {each.operator}")
    elif each.operator in ("Exists", "DoesNotExist") and number:
        check.tell(codes.NOT_ALLOWED, at, f"must be empty with operator {each.operator}")
    elif each.operator in ("Gt", "Lt") and number != 1:
        check.tell(codes.NOT_ALLOWED, at, f"must be one value with operator {each.operator}")
    for i, value in enumerate(each.values):
        if value:
            check.form(f"{at}[{i}]", value, formats.check_label_value)


def _match_field(check: FindingCollector, path: str, each: Requirement) -> None:
    check.among(f"{path}.operator", each.operator, ("In", "NotIn"))
    check.among(f"{path}.key", each.key, (NODE_NAME,))
    if each.operator in ("In", "NotIn") and len(each.values) != 1:
        check.tell(codes.NOT_ALLOWED, f"{path}.values", "must be one value for a node's field")
    for i, value in enumerate(each.values if each.key == NODE_NAME else ()):
        check.form(f"{path}.values[{i}]", value, formats.check_subdomain)


def check_network_data(check: FindingCollector, path: str, data: NetworkData) -> None:
    """Check what a driver reports of a network device."""
    check.fits(f"{path}.interfaceName", data.interface_name, INTERFACE_NAME)
    check.fits(f"{path}.hardwareAddress", data.hardware_address, HARDWARE_ADDRESS)
    if check.at_most(f"{path}.ips", data.ips, ADDRESSES):
        check.distinct(f"{path}.ips", data.ips)
        for i, address in enumerate(data.ips):
            check.form(f"{path}.ips[{i}]", address, _interface_address)


def _interface_address(text: str) -> str | None:
    try:
        good = "/" in text and "%" not in text and str(ip_interface(text)) == text
    except ValueError:
        good = False
    return None if good else "must be an address with its prefix length, such as 192.0.2.7/24"
