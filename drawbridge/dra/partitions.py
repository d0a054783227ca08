"""Partitions of a fabric, such as NVSwitch, that the Configuration declares for a driver.

A partition is a set of devices of a node, by a number that the driver publishes. Each device gets
one attribute for each size of its partitions: `drawbridge.dev/partition2` for partitions of two.
Only the rules of claims read these attributes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from drawbridge.dra.attributes import find_attribute
from drawbridge.dra.compatibility import ExpressionEvaluationError, Peer
from drawbridge.dra.device import Attribute


class PartitionTable(msgspec.Struct, frozen=True):
    """The partitions of the devices of a driver that `selector` selects, all if it is empty.

    `number` is the attribute with the number of a device. Partitions of one size are disjoint.
    """

    driver: str
    number: str
    name: str
    partitions: tuple[tuple[int, ...], ...]
    selector: str = ""


def partition_attributes(
    peer: Peer, tables: Iterable[PartitionTable], evaluate: Callable[[str, Peer], bool]
) -> Mapping[str, Attribute]:
    """Return the attributes of a device by full name; of several tables the first one counts.

    A device on which the selector of a table fails is not in its partitions.
    """
    attributes: dict[str, Attribute] = {}
    for table in tables:
        if table.driver == peer.pool.driver and _selects(table.selector, peer, evaluate):
            for name, attribute in _attributes_of_table(peer, table):
                attributes.setdefault(name, attribute)
    return attributes


def _selects(selector: str, peer: Peer, evaluate: Callable[[str, Peer], bool]) -> bool:
    try:
        return not selector or evaluate(selector, peer)
    except ExpressionEvaluationError:
        return False


def _attributes_of_table(peer: Peer, table: PartitionTable) -> Iterator[tuple[str, Attribute]]:
    attribute = find_attribute(peer.device, peer.pool.driver, table.number)
    number = attribute.integer if attribute is not None else None
    for members in table.partitions:
        if number in members:
            # Devices of two drivers are never in one partition.
            text = f"{table.driver}/{','.join(map(str, sorted(members)))}"
            yield f"{table.name}{len(members)}", Attribute(string=text)
