"""What a claim asks for: devices, amounts of memory, all devices that are selected, and roots."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tests.cluster.fake.kinds import JSON
from tests.world.network import Network
from tests.world.objects import MEMORY, NIC_CLASS, ROOT, Shape, give

_OF_ROOT: Final = '"root" in device.attributes["d.io"] && device.attributes["d.io"].root == '


class Choice(NamedTuple):
    """An alternative of a request: one device, or all that it selects.

    It selects devices with this root, if it names one, of one of two drivers. `memory` is 0 if it
    does not say how much. With admin access it gets also what others have.
    """

    name: str
    memory: int = 0
    is_all: bool = False
    root: str = ""
    of_nics: bool = False
    is_admin: bool = False

    def selects(self, shape: Shape, name: str) -> bool:
        """Whether it selects a device of a node."""
        is_of_root = not self.root or shape.roots.get(name) == self.root
        return is_of_root and (name in shape.nics) == self.of_nics

    def select(self, shape: Shape, left_out: str = "") -> frozenset[str]:
        """Return all devices of a node that can satisfy it while nothing is held of them."""
        return frozenset(
            name
            for name in shape.devices
            if name != left_out
            and self.selects(shape, name)
            and give(shape.shared.get(name), 0, self.memory, shape.whole.get(name, 0))
        )


class Constraint(NamedTuple):
    """The devices of some requests of a claim, or of all, have one root, or different ones."""

    is_distinct: bool
    requests: tuple[str, ...]

    def allows(self, devices: Iterable[tuple[str, str]], roots: Mapping[str, str]) -> bool:
        """Whether it holds for devices of a node with these roots, each with its request."""
        covered = [
            name for request, name in devices if not self.requests or request in self.requests
        ]
        values = [roots[name] for name in covered if name in roots]
        if len(values) < len(covered):
            return False
        different = {*values}
        return len(different) == len(values) if self.is_distinct else len(different) <= 1


class Ask(NamedTuple):
    """One device for a request of a claim, or all, by its alternatives, the best first."""

    claim: str
    request: str
    choices: tuple[Choice, ...]
    constraints: tuple[Constraint, ...] = ()


def select_root(root: str) -> JSON:
    """Return the selector of devices with a root."""
    return {"cel": {"expression": f'{_OF_ROOT}"{root}"'}}


def asks_of(claim: JSON) -> list[Ask]:
    """Return what a claim asks for, each device by itself."""
    constraints = constraints_of(claim)
    return [
        Ask(claim["metadata"]["uid"], request["name"], _read_choices(request), constraints)
        for request in claim["spec"]["devices"]["requests"]
        for _ in range((request.get("exactly") or {}).get("count", 1))
    ]


def constraints_of(claim: JSON) -> tuple[Constraint, ...]:
    """Return the constraints of a claim."""
    return tuple(
        Constraint(each.get("distinctAttribute") == ROOT, tuple(each.get("requests") or ()))
        for each in claim["spec"]["devices"].get("constraints") or ()
    )


def count_asks(network: Network, claim: JSON, what: str) -> None:
    """Count a claim by what is special in it, and what has happened to it."""
    choices = [choice for ask in asks_of(claim) for choice in ask.choices]
    if any(choice.is_all for choice in choices):
        network.count(f"claim for all devices that is {what}")
    if any(choice.of_nics for choice in choices):
        network.count(f"claim for devices of another driver that is {what}")
    if any(choice.is_admin for choice in choices):
        network.count(f"claim with admin access that is {what}")
    if constraints_of(claim):
        network.count(f"claim with a constraint that is {what}")


def _read_choices(request: JSON) -> tuple[Choice, ...]:
    name = request["name"]
    if exactly := request.get("exactly"):
        return (_read_choice(name, exactly),)
    return tuple(_read_choice(f"{name}/{each['name']}", each) for each in request["firstAvailable"])


def _read_choice(name: str, asked: JSON) -> Choice:
    amounts = (asked.get("capacity") or {}).get("requests") or {}
    expressions = [each["cel"]["expression"] for each in asked.get("selectors") or ()]
    root = next((each.removeprefix(_OF_ROOT).strip('"') for each in expressions), "")
    return Choice(
        name,
        int(amounts.get(MEMORY, 0)),
        is_all=asked.get("allocationMode") == "All",
        root=root,
        of_nics=asked["deviceClassName"] == NIC_CLASS,
        is_admin=bool(asked.get("adminAccess")),
    )
