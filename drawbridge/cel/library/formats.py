"""Kubernetes' named formats, with the error messages of its API server."""

import base64
import math
import re
from collections.abc import Callable
from typing import Final

from drawbridge.cel import times
from drawbridge.cel.declare import CallEstimate, Function, Library, Operand, Overload
from drawbridge.cel.library import costs
from drawbridge.cel.types import NAMED_FORMAT, STRING, list_of, optional_of
from drawbridge.cel.url import uri_problem
from drawbridge.cel.values import NONE, CelValue, NamedFormat, Optional, actual_size

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"

# These patterns need no backtracking, because every part begins and ends in the same way.
_IS_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_IS_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
)
_IS_LABEL_1035: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_IS_KEY: Final = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_IS_UUID: Final = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)
_IS_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_IS_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"
)
# The length that Kubernetes assumes for the regular expression of each format.
_LONGEST_REGEX: Final = 128


def _too_long(text: str, most: int) -> list[str]:
    return (
        [f"must be no more than {most} bytes"] if len(text.encode(errors="replace")) > most else []
    )


def _mismatch(words: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {shown}regex used for validation is '{pattern}')"


def _label(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if _IS_LABEL.fullmatch(text):
        return problems
    if _IS_SUBDOMAIN.fullmatch(text):
        return [*problems, "must not contain dots"]
    words = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    return [*problems, _mismatch(words, _LABEL, "my-name", "123-abc")]


def _subdomain(text: str) -> list[str]:
    problems = _too_long(text, 253)
    if _IS_SUBDOMAIN.fullmatch(text):
        return problems
    words = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character"
    )
    return [*problems, _mismatch(words, _SUBDOMAIN, "example.com")]


def _label_1035(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if _IS_LABEL_1035.fullmatch(text):
        return problems
    words = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with "
        "an alphabetic character, and end with an alphanumeric character"
    )
    return [*problems, _mismatch(words, _LABEL_1035, "my-name", "abc-123")]


def _qualified_name(text: str) -> list[str]:
    words = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with "
        "an alphanumeric character"
    )
    unlike = _mismatch(words, _KEY, "MyName", "my.name", "123-abc")
    if text.count("/") > 1:
        ending = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {unlike} {ending}"]
    prefix, slash, name = text.rpartition("/")
    problems: list[str] = []
    if slash:
        of_prefix = _subdomain(prefix) if prefix else ["must be non-empty"]
        problems = [f"prefix part {problem}" for problem in of_prefix]
    if not name:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _too_long(name, 63)]
    if not _IS_KEY.fullmatch(name):
        problems.append(f"name part {unlike}")
    return problems


def _label_value(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if not text or _IS_KEY.fullmatch(text):
        return problems
    words = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
        "or '.', and must start and end with an alphanumeric character"
    )
    return [*problems, _mismatch(words, _VALUE, "MyValue", "my_value", "12345")]


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Check a prefix of generated names, which may end with a dash."""

    def checked(text: str) -> list[str]:
        if len(text) > 1 and text.endswith("-"):
            return check(text[:-2] + "a")
        return check(text)

    return checked


def _uri(text: str) -> list[str]:
    problem = uri_problem(text)
    return [problem] if problem else []


def _uuid(text: str) -> list[str]:
    return [] if _IS_UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    # The decoder requires padding and accepts only the standard alphabet.
    try:
        fine = bool(text) and bool(base64.b64decode(text, validate=True))
    except ValueError:
        fine = False
    return [] if fine else ["invalid base64"]


def _is_date(text: str) -> bool:
    matches = _IS_DATE.fullmatch(text) is not None
    return matches and times.is_day(int(text[:4]), int(text[5:7]), int(text[8:]))


def _date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    parts = text.lower().split("t")
    time = _IS_TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    if time and time[1] <= "23" and time[2] <= "59" and time[3] <= "59":
        return []
    return ["invalid datetime"]


FORMATS: Final = {
    "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(_label_1035), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat("uuid", _uuid, 70),
    "byte": NamedFormat("byte", _byte, 84),
    "date": NamedFormat("date", _date, 71),
    "datetime": NamedFormat("datetime", _datetime, 71),
}


def _named(name: str) -> Optional:
    format_ = FORMATS.get(name)
    return Optional(format_) if format_ else NONE


def _validate(form: NamedFormat, text: str) -> Optional:
    problems = form.problems(text)
    return Optional(problems) if problems else NONE


def _cost(args: tuple[CelValue, ...], _: CelValue) -> int:
    form = args[0]
    if not isinstance(form, NamedFormat):
        return 1
    over_text = math.ceil((1.0 + actual_size(args[1])) * costs.TRAVERSAL)
    return over_text * math.ceil(form.regex_size * costs.REGEX)


def _estimate(operands: tuple[Operand, ...]) -> CallEstimate:
    over_text = costs.scale(operands[1].size.max, costs.TRAVERSAL)
    return CallEstimate(costs.scale(over_text, _LONGEST_REGEX * costs.REGEX))


def _constant(name: str, form: NamedFormat) -> Function:
    return Function(f"format.{name}", (Overload(f"format.{name}", (), NAMED_FORMAT, lambda: form),))


NAMED_FORMATS: Final = Library(
    "kubernetes.format",
    (
        Function(
            "validate",
            (
                Overload(
                    "format-validate", (NAMED_FORMAT, STRING), optional_of(list_of(STRING)),
                    _validate, member=True,
                ),
            ),
            cost=_cost,
            estimate=_estimate,
        ),
        Function(
            "format.named",
            (Overload("format-named", (STRING,), optional_of(NAMED_FORMAT), _named),),
        ),
        *(_constant(name, form) for name, form in FORMATS.items()),
    ),
)  # fmt: skip
