"""Selects the libraries of each version of Kubernetes, for new or stored expressions.

A new expression may use only the libraries of the previous version, so that the API server can be
rolled back. A stored expression may use all.
"""

from drawbridge.cel.declare import Library
from drawbridge.cel.library.authz import AUTHORIZATION
from drawbridge.cel.library.comprehensions import COMPREHENSIONS
from drawbridge.cel.library.formats import NAMED_FORMATS
from drawbridge.cel.library.lists import DRA_INCLUDES, INCLUDES, KUBERNETES_LISTS
from drawbridge.cel.library.net import ADDRESSES, NETWORKS
from drawbridge.cel.library.optional import OPTIONALS, OPTIONALS_1_37
from drawbridge.cel.library.quantity import QUANTITIES
from drawbridge.cel.library.regex import REGEX
from drawbridge.cel.library.semver import SEMVERS
from drawbridge.cel.library.sequences import LISTS, LISTS_1_37
from drawbridge.cel.library.sets import SETS
from drawbridge.cel.library.standard import STANDARD, STANDARD_1_37
from drawbridge.cel.library.strings import STRINGS, STRINGS_1_37
from drawbridge.cel.library.url import URLS

_ALWAYS = (
    URLS, REGEX, KUBERNETES_LISTS, AUTHORIZATION, QUANTITIES, SETS, ADDRESSES, NETWORKS,
    NAMED_FORMATS, COMPREHENSIONS, SEMVERS,
)  # fmt: skip


def libraries(version: str, *, stored: bool, list_attributes: bool = False) -> tuple[Library, ...]:
    """Return the libraries of a version such as `1.36` for new or stored expressions.

    `list_attributes` is the gate DRAListTypeAttributes; for stored expressions it counts as
    enabled.
    """
    minor = int(version.partition(".")[2])
    newer = minor >= 37
    chosen = [
        STANDARD_1_37 if newer else STANDARD,
        STRINGS_1_37 if newer else STRINGS,
        OPTIONALS_1_37 if newer else OPTIONALS,
        *_ALWAYS,
    ]
    # New expressions may use these two one version after their introduction.
    if stored or minor >= 35:
        chosen.append(LISTS_1_37 if newer else LISTS)
    if minor >= 36 and (stored or list_attributes):
        chosen.append(INCLUDES if newer else DRA_INCLUDES)
    return tuple(chosen)
