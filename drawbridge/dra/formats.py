"""Name formats in `resource.k8s.io`: labels, subdomains, qualified names, versions.

Each check returns what is wrong with a string, or None if it is valid. Lengths are in bytes, as in
the API server.
"""

import re

LABEL_LENGTH = 63
SUBDOMAIN_LENGTH = 253
DRIVER_LENGTH = 63
IDENTIFIER_LENGTH = 32
VALUE_LENGTH = 64

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_LABEL_FORM = re.compile(_LABEL)
SUBDOMAIN_FORM = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_IDENTIFIER_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEY_FORM = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NUMBER = r"(?:0|[1-9][0-9]*)"
_PRE = rf"(?:{_NUMBER}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_BUILD = r"[0-9a-zA-Z-]+"
_VERSION_FORM = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?"
)

_KUBERNETES = "kubernetes.io/"
_QUOTA = "requests."

_LABEL_RULE = "must be lower-case letters, digits and '-', and begin and end with a letter or digit"
_SUBDOMAIN_RULE = (
    "must be lower-case letters, digits, '-' and '.', each part beginning and ending with a "
    "letter or digit"
)


_MOST_BYTES = 4  # of a character in UTF-8


def byte_length(text: str) -> int:
    """Return the length in bytes. A lone surrogate counts as three bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def check_length(text: str, most: int) -> str | None:
    """Check that a string has at most `most` bytes."""
    if len(text) * _MOST_BYTES <= most or (text.isascii() and len(text) <= most):
        return None
    size = byte_length(text)
    return f"has {size} bytes, at most {most} are allowed" if size > most else None


def check_label(text: str) -> str | None:
    """Check a DNS label: the name of a device, request, counter set, counter or group."""
    if not text:
        return "must not be empty"
    if not _LABEL_FORM.fullmatch(text):
        return _LABEL_RULE
    return check_length(text, LABEL_LENGTH)


def check_subdomain(text: str) -> str | None:
    """Check a DNS subdomain: the name of a class, a slice or a node."""
    if not text:
        return "must not be empty"
    if not SUBDOMAIN_FORM.fullmatch(text):
        return _SUBDOMAIN_RULE
    return check_length(text, SUBDOMAIN_LENGTH)


def check_driver_name(text: str) -> str | None:
    """Check a driver name: a short DNS subdomain. Upper case is allowed and significant."""
    return check_subdomain(text.lower()) or check_length(text, DRIVER_LENGTH)


def check_pool_name(text: str) -> str | None:
    """Check a pool name: DNS subdomains separated by slashes."""
    if not text:
        return "must not be empty"
    if long := check_length(text, SUBDOMAIN_LENGTH):
        return long
    for part in text.split("/"):
        if problem := check_subdomain(part):
            return f"the part {part!r} {problem}"
    return None


def check_identifier(text: str) -> str | None:
    """Check a C identifier: the part of an attribute name after the domain."""
    if not _IDENTIFIER_FORM.fullmatch(text):
        return "must be letters, digits and '_', and not begin with a digit"
    return check_length(text, IDENTIFIER_LENGTH)


def check_qualified_name(text: str) -> str | None:
    """Check the name of an attribute or capacity, with or without a domain.

    Accepts more than one slash, as the API server does.
    """
    parts = text.split("/")
    if len(parts) == 1:
        return check_identifier(text)
    if len(parts) > 2:
        return None
    if problem := check_driver_name(parts[0]):
        return f"the domain {parts[0]!r} {problem}"
    problem = check_identifier(parts[1])
    return f"the name {parts[1]!r} {problem}" if problem else None


def check_fully_qualified_name(text: str) -> str | None:
    """Check the name of an attribute with a required domain."""
    if "/" not in text:
        return "must be a domain and a name, separated by a slash"
    return check_qualified_name(text)


def check_label_key(text: str) -> str | None:
    """Check the key of a label, a taint or a condition."""
    prefix, slash, name = text.rpartition("/")
    if slash and (problem := check_subdomain(prefix)):
        return f"the prefix {prefix!r} {problem}"
    if not KEY_FORM.fullmatch(name):
        return "must be letters, digits, '-', '_' and '.', and begin and end with a letter or digit"
    return check_length(name, LABEL_LENGTH)


def check_label_value(text: str) -> str | None:
    """Check the value of a label or a taint. It can be empty."""
    if not text:
        return None
    return "must not have a slash" if "/" in text else check_label_key(text)


def check_version(text: str) -> str | None:
    """Check a version according to semver.org 2.0.0."""
    if long := check_length(text, VALUE_LENGTH):
        return long
    if not _VERSION_FORM.fullmatch(text):
        return "must be a version such as 1.2.3 (semver.org 2.0.0)"
    return None


def check_extended_resource(text: str) -> str | None:
    """Check the name of an extended resource in a pod."""
    if "/" not in text:
        return "must have a domain, such as example.com/gpu"
    if _KUBERNETES in text:
        return f"must not have the domain {_KUBERNETES.rstrip('/')}"
    if text.startswith(_QUOTA):
        return f"must not begin with {_QUOTA!r}"
    return check_label_key(_QUOTA + text)
