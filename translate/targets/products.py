"""Which published products a selector accepts, and percentages of them in absolute amounts.

Knows nothing of drivers: a product is a row of the facts. What a row cannot tell is unknown, and
the device is left to the expression.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from dra.quantity import Format, Quantity, parse
from facts.model import Amount, Product
from translate.legacy.asks import Percent
from translate.legacy.selectors import (
    AllOf,
    AnyOf,
    Architecture,
    AskSelector,
    Memory,
    Not,
    PartitionProfile,
    ProductContains,
    ProductIs,
)
from translate.targets.vocabulary import NotExpressibleError

_STEP = "1Mi"


def fits(selector: AskSelector, product: Product, memory: str) -> bool | None:  # noqa: PLR0911  # one for each kind
    """Whether a product is accepted; None where the row does not tell."""
    match selector:
        case Not(operand=operand):
            inner = fits(operand, product, memory)
            return None if inner is None else not inner
        case AnyOf(operands=operands):
            return _any(fits(each, product, memory) for each in these)
        case AllOf(operands=operands):
            return _all(fits(each, product, memory) for each in operands)
        case ProductIs(names=names):
            return product.name.replace(" ", "-") in {name.replace(" ", "-") for name in names}
        case ProductContains(parts=parts):
            return any(part.lower() in product.name.lower() for part in parts)
        case Architecture(names=names):
            return product.architecture.lower().replace(" ", "-") in names
        case PartitionProfile(names=names):
            return product.profile in names
        case Memory(at_least=least, below=below) if memory in product.capacity:
            whole = capacity_value(product, memory)
            return (least is None or whole >= least) and (below is None or whole < below)
        case _:
            return None


def _any(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return True if True in known else None if None in known else False


def _all(answers: Iterable[bool | None]) -> bool | None:
    known = list(answers)
    return False if False in known else None if None in known else True


def filter_products(
    products: Iterable[Product], selectors: Sequence[AskSelector], memory: str
) -> tuple[Product, ...]:
    """The products that no selector is known to refuse."""
    if not selectors:
        return tuple(products)
    return tuple(
        each
        for each in products
        if all(fits(selector, each, memory) is not False for selector in selectors)
    )


def capacity_value(product: Product, capacity: str) -> int:
    """How much of a capacity each device of a product has."""
    return parse(product.capacity[capacity].value).value()


def percent_amount(product: Product, capacity: str, percent: Percent) -> str:
    """The amount that is so many percent of operand a device of the product has.

    Rounded down to operand the driver hands out, so that two halves fit on one device; the driver
    would round up. Never less than the driver gives at least.
    """
    row: Amount = product.capacity[capacity]
    whole = parse(row.value)
    exact = Decimal(whole.value()) * percent.value / 100
    step = parse(row.step).value() if row.step else _step(whole)
    least = parse(row.least).value() if row.least else 0
    steps = (int(exact) - least) // step if step else 0
    rounded = max(least + steps * step, least, 1)
    if rounded > whole.value():
        raise NotExpressibleError(
            f"{percent.value} percent is more than a device of {product.name} has"
        )
    return Quantity.of(rounded, whole.format).canonical()


def _step(whole: Quantity) -> int:
    """Memory goes in whole mebibytes, operand is counted in ones."""
    return parse(_STEP).value() if whole.format is Format.BINARY_SI else 1
