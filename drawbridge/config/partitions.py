"""The partitions of fabrics, which a driver does not publish, in the Configuration."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from drawbridge.config import codes
from drawbridge.config.part import ConfigurationPart, describe
from drawbridge.config.string_formats import AttributeName, DriverName, ExpressionText
from drawbridge.finding import Finding
from drawbridge.names import PARTITION_ATTRIBUTE

_Number = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Partitions(ConfigurationPart, frozen=True):
    """The partitions of a fabric, such as NVSwitch, that connects the devices of a driver."""

    driver: Annotated[DriverName, describe("The driver of the devices.")]
    attribute: Annotated[
        AttributeName,
        describe(
            "The attribute with the number of a device in the fabric. For NVSwitch, that is the"
            " module ID, which can differ from the index."
        ),
    ]
    partitions: Annotated[
        tuple[tuple[_Number, ...], ...],
        describe("The numbers of the devices of each partition. Those of one size are disjoint."),
    ]
    selector: Annotated[
        ExpressionText | None,
        describe("A CEL expression that selects devices of the driver. If not set, all of them."),
    ] = None
    name: Annotated[
        AttributeName | None,
        describe(
            "The start of the attribute names that rules of claims use; the number of devices of a"
            f" partition follows. If not set, `{PARTITION_ATTRIBUTE}`."
        ),
    ] = None


def check_partitions(entries: Sequence[Partitions], object_name: str) -> Iterator[Finding]:
    """Yield findings about empty entries, and devices in two partitions of one size."""
    for i, entry in enumerate(entries):
        if not entry.partitions:
            message = "must name a partition"
            yield codes.ENTRY_WITHOUT_EFFECT.at(f"partitions[{i}]", message, object=object_name)
        checked: dict[tuple[int, int], int] = {}
        for j, members in enumerate(entry.partitions):
            path = f"partitions[{i}].partitions[{j}]"
            if not members:
                message = "must name a device"
                yield codes.ENTRY_WITHOUT_EFFECT.at(path, message, object=object_name)
            if problem := _find_overlap(j, members, checked):
                yield codes.PARTITIONS_OVERLAP.at(path, problem, object=object_name)


def _find_overlap(
    position: int, members: tuple[int, ...], checked: dict[tuple[int, int], int]
) -> str:
    """Add the devices of a partition to the known ones; return what is wrong with them."""
    if len(set(members)) < len(members):
        return "names a device twice"
    problem = ""
    for number in members:
        other = checked.setdefault((len(members), number), position)
        if other != position:
            problem = f"device {number} is in partitions[{other}] of the same size as well"
    return problem
