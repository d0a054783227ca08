"""How a ResourceQuota on a legacy name counts pods: as they ask, and as they are translated."""

from typing import NamedTuple


class NameQuota(NamedTuple):
    """A quota on the requests of a resource name in a namespace."""

    namespace: str
    name: str
    resource: str
    hard: int


def counts_claims(resource: str, class_: str, extended: str, *, implicit: bool) -> bool:
    """Whether the API server charges claims of a class to a quota on a resource name.

    From 1.36, with extended resource names by classes (`implicit`), claims of the class that has
    the name count as requests of the name.
    """
    return implicit and bool(class_) and resource == extended
