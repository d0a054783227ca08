"""Matches published products with selectors, and converts percentages to absolute amounts.

A product is a row of the facts. If a row lacks a property, the match is unknown, and the CEL
expression decides about the device.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

import msgspec

from drawbridge.dra.quantity import Format, Quantity, parse
from drawbridge.facts.model import Amount, Product, of_several
from drawbridge.translate.legacy.asks import Percent
from drawbridge.translate.legacy.selectors import (
    AllOf,
    AnyOf,
    Architecture,
    AskSelector,
    DeviceLabel,
    LabelOperator,
    Memory,
    Not,
    PartitionProfile,
    ProductContains,
    ProductIs,
)
from drawbridge.translate.targets.vocabulary import WHOLE_DEVICE, NotExpressibleError

_STEP = "1Mi"
_NOT_IN_LABEL = re.compile(r"[^A-Za-z0-9_. -]")


class KnownProperties(msgspec.Struct, frozen=True):
    """What is known of the devices of a product; None if the facts do not tell.

    `attributes` are texts by their full names.
    """

    product: str | None = None
    architecture: str | None = None
    profile: str | None = None
    memory: int | None = None
    attributes: Mapping[str, str] = {}


def fits(selector: AskSelector, properties: KnownProperties) -> bool | None:
    """Whether a selector accepts a product; None if the facts do not tell."""
    match selector:
        case Not(operand=operand):
            inner = fits(operand, properties)
            return None if inner is None else not inner
        case AnyOf(operands=operands):
            return _any_of(fits(each, properties) for each in operands)
        case AllOf(operands=operands):
            return _all_of(fits(each, properties) for each in operands)
        case Memory(at_least=least, below=below) if properties.memory is not None:
            total = properties.memory
            return (least is None or total >= least) and (below is None or total < below)
        case _:
            return _fits_text(selector, properties)


def _fits_text(selector: AskSelector, properties: KnownProperties) -> bool | None:
    match selector:
        case ProductIs(names=names) if properties.product is not None:
            meant = {name.replace(" ", "-") for name in names}
            return not _spellings(properties.product).isdisjoint(meant)
        case ProductContains(parts=parts) if properties.product is not None:
            return any(part.lower() in properties.product.lower() for part in parts)
        case Architecture(names=names) if properties.architecture is not None:
            return properties.architecture.lower().replace(" ", "-") in names
        case PartitionProfile(names=names) if properties.profile is not None:
            return properties.profile in names
        case DeviceLabel(operator=LabelOperator.IN, values=values, attribute=attribute):
            text = properties.attributes.get(attribute)
            return None if text is None else text in values
        case _:
            return None


def add_published_names(selector: AskSelector, products: Sequence[Product]) -> AskSelector:
    """Add the published names of products that a selector names by their node label.

    A label lacks characters of the name, which a CEL expression cannot restore.
    """
    match selector:
        case Not(operand=operand):
            return Not(add_published_names(operand, products))
        case AnyOf(operands=operands):
            return AnyOf(tuple([add_published_names(each, products) for each in operands]))
        case AllOf(operands=operands):
            return AllOf(tuple([add_published_names(each, products) for each in operands]))
        case ProductIs(names=names):
            meant = {name.replace(" ", "-") for name in names}
            named = [each for each in products if _spellings(each.name) & meant]
            added = {name for each in of_several(named) for name in _spellings(each.name) - meant}
            return ProductIs((*names, *sorted(added))) if added else selector
        case _:
            return selector


def _spellings(name: str) -> frozenset[str]:
    """Return the name of a product with dashes, and as GPU Feature Discovery writes its label."""
    return frozenset((name.replace(" ", "-"), "-".join(_NOT_IN_LABEL.sub("", name).split())))


def _any_of(matches: Iterable[bool | None]) -> bool | None:
    results = list(matches)
    return True if True in results else None if None in results else False


def _all_of(matches: Iterable[bool | None]) -> bool | None:
    results = list(matches)
    return False if False in results else None if None in results else True


def filter_products(
    products: Iterable[Product], selectors: Sequence[AskSelector], memory: str
) -> tuple[Product, ...]:
    """Return the products that no selector is known to refuse."""
    if not selectors:
        return tuple(products)
    return tuple(
        product
        for product in products
        if all(fits(each, _read_row(product, memory)) is not False for each in selectors)
    )


def _read_row(product: Product, memory: str) -> KnownProperties:
    """Return what a row tells. Devices without a property do not have it."""
    total = capacity_value(product, memory) if memory in product.capacity else None
    return KnownProperties(product.name, product.architecture, product.profile, total)


def capacity_value(product: Product, capacity: str) -> int:
    """Return how much of a capacity each device of a product has."""
    return parse(product.capacity[capacity].value).value()


def percent_amount(product: Product, capacity: str, percent: Percent) -> str:
    """Return a percentage of a device's capacity as an amount.

    The amount is rounded down to the driver's step, so that two halves fit on one device; the
    driver itself rounds up. It is never below the driver's minimum.
    """
    row: Amount = product.capacity[capacity]
    total = parse(row.value)
    exact = Decimal(total.value()) * percent.value / 100
    step = parse(row.step).value() if row.step else _default_step(total)
    least = parse(row.least).value() if row.least else 0
    steps = (int(exact) - least) // step if step else 0
    rounded = max(least + steps * step, least, 1)
    if rounded > total.value():
        raise NotExpressibleError(
            f"{percent.value} percent is more than a device of {product.name} has", WHOLE_DEVICE
        )
    return Quantity.of(rounded, total.format).canonical()


def _default_step(total: Quantity) -> int:
    """Return the default step: 1Mi for memory, 1 for counts."""
    return parse(_STEP).value() if total.format is Format.BINARY_SI else 1
