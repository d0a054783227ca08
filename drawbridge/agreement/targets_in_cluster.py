"""Compares what a Configuration names with the classes and devices known."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from drawbridge.cel.dra import Selectors
from drawbridge.config.codes import (
    QUOTA_NOT_PUBLISHED,
    SHAPE_NOT_PUBLISHED,
    TARGET_CLASS_MISSING,
    TARGET_NOT_PUBLISHED,
    TARGET_OF_OTHER_DRIVER,
    UNIT_WITHOUT_USE,
    WEIGHT_NOT_PUBLISHED,
)
from drawbridge.config.load import OBJECT
from drawbridge.config.model import Configuration
from drawbridge.config.string_formats import shape_properties
from drawbridge.config.target import Target
from drawbridge.dra.attributes import split_name
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.device import Attribute
from drawbridge.dra.device_quotas import DEVICES, find_capacity_name
from drawbridge.dra.nodes import Node
from drawbridge.dra.quantity import valid_quantity
from drawbridge.dra.rules import OTHER_WEIGHTS
from drawbridge.dra.similar_names import suggest
from drawbridge.dra.slices import Slice
from drawbridge.facts.served_names import advertised_resources
from drawbridge.finding import Finding
from drawbridge.judge.slices.expressions import (
    PublishedDevice,
    published_attributes,
    published_capacities,
    published_devices,
    published_properties,
    select_devices,
    select_drivers,
)
from drawbridge.translate.legacy.misspelt_names import find_resource_name
from drawbridge.translate.legacy.read import DEFAULTS, UNITS, find_dialects

# The words of `attributes` that are compared with texts; the others may be versions.
_TEXTS: Final = ("product", "uuid", "architecture", "profile", "kernel-driver", "resource")


class _Cluster(NamedTuple):
    """The classes and devices of a cluster, and what evaluates the selectors of classes."""

    classes: Iterable[DeviceClass]
    slices: Iterable[Slice]
    selectors: Selectors


def report_targets(
    configuration: Configuration,
    classes: Sequence[DeviceClass],
    slices: Sequence[Slice],
    selectors: Selectors,
) -> Iterator[Finding]:
    """Report targets that no class of the cluster serves, and attributes of another type."""
    by_name = {each.metadata.name: each for each in classes}
    # The views of many devices take longer than the other checks of their slices.
    is_compared = any(f"{each.class_}" in by_name for each in configuration.targets)
    devices = published_devices(slices, selectors) if is_compared else ()
    for path, message in find_missing_classes(configuration, by_name) if by_name else ():
        yield TARGET_CLASS_MISSING.at(path, message, object=OBJECT)
    for i, target in enumerate(configuration.targets):
        yield from _report_types(target, i, slices)
        path, device_class = f"targets[{i}].class", by_name.get(f"{target.class_}")
        if device_class is None:
            continue
        drivers = select_drivers(device_class, devices, selectors)
        if drivers and f"{target.driver}" not in drivers:
            listed = ", ".join(sorted(drivers))
            message = f"{target.class_} selects devices of {listed}, none of {target.driver}"
            yield TARGET_OF_OTHER_DRIVER.at(path, message, object=OBJECT)


def find_missing_classes(
    configuration: Configuration, exist: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each class that is named and does not exist."""
    targets, fleet = configuration.targets, configuration.fleet
    named = {f"targets[{i}].class": f"{each.class_}" for i, each in enumerate(targets)}
    named |= {f"fleet[{i}].class": f"{each.class_}" for i, each in enumerate(fleet)}
    named |= {path: name for path, name, _ in _list_limits(configuration)}
    strategy = configuration.strategy
    named |= {f"strategy.classes[{name}]": name for name in strategy.classes}
    named |= {f"strategy.classWeights[{name}]": name for name in strategy.class_weights}
    for path, name in named.items():
        if name not in exist:
            yield path, f"DeviceClass {name} does not exist"


def report_quotas(
    configuration: Configuration,
    classes: Iterable[DeviceClass],
    slices: Iterable[Slice],
    selectors: Selectors,
) -> Iterator[Finding]:
    """Report limits on capacities that no device of their class publishes."""
    limits = [
        (f"{path}[{amount}]", name, amount)
        for path, name, amounts in _list_limits(configuration)
        for amount in amounts
        if amount != DEVICES
    ]
    cluster = _Cluster(classes, slices, selectors)
    for path, name, problem in _find_unpublished(limits, published_capacities, cluster):
        message = f"no device of class {name} publishes the capacity {problem}"
        yield QUOTA_NOT_PUBLISHED.at(path, message, object=OBJECT)


def report_shapes(
    configuration: Configuration,
    classes: Iterable[DeviceClass],
    slices: Iterable[Slice],
    selectors: Selectors,
) -> Iterator[Finding]:
    """Report properties of expected nodes that no device of their class publishes."""
    stated = [
        (f"fleet[{i}].expectedShapes[{j}]", f"{entry.class_}", name, valid_quantity(value))
        for i, entry in enumerate(configuration.fleet)
        for j, shape in enumerate(entry.expected_shapes)
        for name, value in shape_properties(shape)
    ]
    amounts = [(path, name, of) for path, name, of, amount in stated if amount is not None]
    texts = [(path, name, of) for path, name, of, amount in stated if amount is None]
    cluster = _Cluster(classes, slices, selectors)
    for what, named, list_published in (
        ("property", amounts, published_properties),
        ("attribute", texts, published_attributes),  # a capacity is a quantity
    ):
        for path, name, problem in _find_unpublished(named, list_published, cluster):
            message = f"no device of class {name} publishes the {what} {problem}"
            yield SHAPE_NOT_PUBLISHED.at(path, message, object=OBJECT)


def _find_unpublished(
    named: Sequence[tuple[str, str, str]],
    list_published: Callable[[Iterable[PublishedDevice]], frozenset[str]],
    cluster: _Cluster,
) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the class and the name of what is named and no device of the class has."""
    by_name = {each.metadata.name: each for each in cluster.classes}
    devices = published_devices(cluster.slices, cluster.selectors) if named else ()
    published = {
        name: list_published(select_devices(by_name[name], devices, cluster.selectors) or ())
        for name in {name for _, name, _ in named} & by_name.keys()
    }
    for path, name, wanted in named:
        has = published.get(name)
        if has and find_capacity_name(wanted, has) is None:
            hint = suggest(wanted, {each.rpartition("/")[2] for each in has})
            yield path, name, f"{wanted}{hint}"


def _list_limits(configuration: Configuration) -> Iterator[tuple[str, str, Collection[str]]]:
    """Yield the path, the class and the amounts of each limit of a quota."""
    for i, quota in enumerate(configuration.quotas):
        for field, limits in (("single", quota.single), ("total", quota.total)):
            for name, amounts in limits.items():
                yield f"quotas[{i}].{field}[{name}]", f"{name}", [*map(str, amounts)]


def _report_types(target: Target, number: int, slices: Collection[Slice]) -> Iterator[Finding]:
    """Report attributes that the target compares with texts, and that are no texts anywhere."""
    driver = f"{target.driver}"
    published: dict[tuple[str, str], list[Attribute]] = {}
    for slice_ in slices:
        for device in slice_.devices if slice_.driver == driver else ():
            for name, attribute in device.attributes.items():
                published.setdefault(split_name(name, driver), []).append(attribute)
    for word, name in target.attributes.items():
        values = published.get(split_name(f"{name}", driver), [])
        is_text = any(each.string is not None or each.strings is not None for each in values)
        if word in _TEXTS and values and not is_text:
            message = f"no device of {driver} publishes the attribute {name} as a string"
            path = f"targets[{number}].attributes[{word}]"
            yield TARGET_NOT_PUBLISHED.at(path, message, object=OBJECT)


def report_weights(
    configuration: Configuration, slices: Collection[Slice], selectors: Selectors
) -> Iterator[Finding]:
    """Report weights of capacities that no device publishes."""
    strategy = configuration.strategy
    entries = {"weights": strategy.weights}
    entries |= {f"classWeights[{name}]": each for name, each in strategy.class_weights.items()}
    if not slices or not any(entries.values()):
        return
    published = published_capacities(published_devices(slices, selectors))
    for field, weights in entries.items():
        for name in map(str, weights):
            if name not in OTHER_WEIGHTS and find_capacity_name(name, published) is None:
                hint = suggest(name, {each.rpartition("/")[2] for each in published})
                message = f"no device publishes the capacity {name}{hint}"
                path = f"strategy.{field}[{name}]"
                yield WEIGHT_NOT_PUBLISHED.at(path, message, object=OBJECT)


def report_units(
    configuration: Configuration, classes: Iterable[DeviceClass], nodes: Collection[Node]
) -> Iterator[Finding]:
    """Report entries of `legacy` with names that nothing reads.

    A network gives its resource a meaning, so only the nodes tell whether the name is right.
    """
    legacy = configuration.legacy
    amounts = {f"{name}" for target in configuration.targets for name in target.amounts}
    for field, what, names, read in (
        ("units", "a unit", legacy.units, UNITS | amounts),
        ("defaults", "an amount by default", legacy.defaults, DEFAULTS),
    ):
        for name in names:
            # Of a name that stands for another one, the other one is read.
            meant = legacy.renames.get(name)
            if name not in read or meant:
                hint = f"; did you mean {meant}?" if meant in read else _suggest_name(name)
                message = f"nothing reads {what} of {name}{hint}"
                path = f"legacy.{field}[{name}]"
                yield UNIT_WITHOUT_USE.at(path, message, object=OBJECT)
    served = {each.spec.extended_resource_name or "" for each in classes}
    served.update(configuration.named_devices)
    meaningful = served.union(map(str, legacy.networks.values()))
    for name, meant in legacy.renames.items():
        if f"{meant}" not in meaningful and not find_dialects(f"{meant}", by_form=True):
            message = f"nothing reads {meant}{_suggest_name(meant)}"
            path = f"legacy.renames[{name}]"
            yield UNIT_WITHOUT_USE.at(path, message, object=OBJECT)
    advertised = {name for node in nodes for name in advertised_resources(node)}
    offered = advertised | served
    for network, pool in legacy.networks.items() if advertised else ():
        if f"{pool}" not in offered:
            path = f"legacy.networks[{network}]"
            yield UNIT_WITHOUT_USE.at(path, f"no node offers {pool}", object=OBJECT)


def _suggest_name(name: str) -> str:
    """Return the end of a message: the known resource name that was probably meant."""
    similar = find_resource_name(name)
    return f"; did you mean {similar}?" if similar else ""
