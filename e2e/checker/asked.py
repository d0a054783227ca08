"""Finds the requests of a claim by the names that results use."""

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.checker.pools import listed, section
from e2e.checker.quantities import Json


@dataclass(frozen=True)
class Asked:
    """A request or the alternative of one; `main` is the request's own name."""

    main: str
    name: str
    spec: Json
    position: int

    @property
    def admin(self) -> bool:
        """Return whether it asks for admin access."""
        return bool(self.spec.get("adminAccess"))


def devices_of(claim: Json) -> Json:
    """What a claim asks."""
    return section(section(claim, "spec"), "devices")


def asked(claim: Json) -> Iterator[Asked]:
    """Every request without alternatives and every alternative, in order."""
    for position, request in enumerate(listed(devices_of(claim), "requests")):
        main = str(request["name"])
        if "exactly" in request:
            yield Asked(main, main, section(request, "exactly"), position)
        for option in listed(request, "firstAvailable"):
            yield Asked(main, f"{main}/{option['name']}", option, position)


def names(requests: object, request: Asked) -> bool:
    """Return whether a list of request names, where empty means all, covers this one."""
    assert requests is None or isinstance(requests, list)
    return not requests or request.main in requests or request.name in requests
