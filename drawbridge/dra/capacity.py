"""Consumable capacity of one device: amounts that a request consumes, and whether they fit.

`consumed_amounts` applies the request policies, `find_shortfall` compares with the free capacity,
`check_request_policy` validates a published policy. The caller checks the feature gate
DRAConsumableCapacity.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec

from drawbridge.dra import codes
from drawbridge.dra.device import Capacity, RequestPolicy, ValidRange
from drawbridge.dra.quantity import INT64_MAX, Format, Quantity
from drawbridge.finding import Finding

# By published name. Names are compared exactly: `mem` is not `example.com/mem`.
Amounts: TypeAlias = Mapping[str, Quantity]

_MAX_VALID_VALUES = 10
_WHOLE = 0
_MILLI = -3
_NANO = -9


class CapacityError(Exception):
    """An amount that the scheduler cannot handle. It fails the pod, not only the device."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"capacity {name}: {reason}")
        self.name = name
        self.reason = reason


class MisfitReason(enum.StrEnum):
    """Why a device does not fit."""

    ABSENT = "absent"
    POLICY = "policy"
    FULL = "full"


class Misfit(msgspec.Struct, frozen=True):
    """The first capacity that does not fit.

    `requested` is the amount after rounding by the request policy, `available` the free amount.
    """

    name: str
    why: MisfitReason
    requested: Quantity
    available: Quantity | None = None


def consumed_amounts(
    capacity: Mapping[str, Capacity], requested: Amounts, *, fractional: bool
) -> Amounts | Misfit:
    """Return the amount that a request consumes of every capacity of a device.

    For devices that allow multiple allocations, this is the `consumedCapacity` of the result.
    `fractional` is the feature gate DRAFractionalCapacityRange. Raises CapacityError.
    """
    for name, quantity in requested.items():
        if name not in capacity:
            return Misfit(name, MisfitReason.ABSENT, quantity)
    # Compute all amounts before checking policies, so that errors do not depend on name order.
    taken = {
        name: _amount(name, published, requested.get(name), fractional=fractional)
        for name, published in capacity.items()
    }
    for name, quantity in taken.items():
        policy = capacity[name].request_policy
        if policy is not None and not _allowed(name, quantity, policy, fractional=fractional):
            return Misfit(name, MisfitReason.POLICY, quantity, capacity[name].value)
    return taken


def find_shortfall(
    capacity: Mapping[str, Capacity], taken: Amounts, *used: Amounts
) -> Misfit | None:
    """Return the first capacity that does not fit in addition to `used`; None if all fit.

    Ignores used capacities that the device no longer publishes.
    """
    for name, quantity in taken.items():
        value = capacity[name].value
        left = value.nanos() - sum(each[name].nanos() for each in used if name in each)
        if quantity.nanos() > left:
            return Misfit(
                name, MisfitReason.FULL, quantity, Quantity(left, _NANO, value.format, decimal=True)
            )
    return None


def _amount(
    name: str, capacity: Capacity, requested: Quantity | None, *, fractional: bool
) -> Quantity:
    policy = capacity.request_policy
    if requested is None:
        default = policy.default if policy else None
        amount = capacity.value if default is None else default
    elif policy is None:
        amount = requested
    elif policy.valid_range is not None:
        amount = _in_range(name, requested, policy.valid_range, fractional=fractional)
    else:
        amount = next((value for value in policy.valid_values if requested <= value), requested)
    if amount.sign() < 0:
        raise CapacityError(name, f"the amount {amount} is negative")
    return amount


def _in_range(name: str, requested: Quantity, valid: ValidRange, *, fractional: bool) -> Quantity:
    if requested < valid.min:
        return valid.min
    if valid.step is None:
        return requested
    unit = _unit(valid, fractional=fractional)
    amount = _units(requested, unit)
    if amount is None:
        raise CapacityError(
            name, f"the request {requested} cannot be rounded to steps: out of range"
        )
    low, step = valid.min.scaled_value(unit), _step(name, valid.step, unit)
    rounded = low - (low - amount) // step * step
    # The overflow check of the scheduler also rejects negative steps, and a negative minimum in
    # thousandths.
    if rounded > INT64_MAX or step < 0 or (unit == _MILLI and low < 0):
        raise CapacityError(name, f"the request {requested} is out of range when rounded to steps")
    if unit == _MILLI and rounded % 1000:
        return Quantity(rounded, _MILLI, valid.step.format, decimal=False)
    return Quantity.of(rounded if unit == _WHOLE else rounded // 1000, valid.step.format)


def _allowed(name: str, amount: Quantity, policy: RequestPolicy, *, fractional: bool) -> bool:
    if policy.default is not None and amount.identical(policy.default):
        return True
    if policy.valid_range is None:
        return not policy.valid_values or amount in policy.valid_values
    valid = policy.valid_range
    if valid.max is not None and amount > valid.max:
        return False
    if valid.step is None:
        return True
    unit = _unit(valid, fractional=fractional)
    if unit == _MILLI and _units(amount, unit) is None:
        return False
    distance = amount.scaled_value(unit) - valid.min.scaled_value(unit)
    return distance % _step(name, valid.step, unit) == 0


def _unit(valid: ValidRange, *, fractional: bool) -> int:
    """Return thousandths as the unit if the whole range is exact in them, else integers."""
    limits = (each for each in (valid.min, valid.max, valid.step) if each is not None)
    if not fractional or any(_units(each, _MILLI) is None for each in limits):
        return _WHOLE
    return _MILLI if valid.step is not None and valid.step.sign() > 0 else _WHOLE


def _units(quantity: Quantity, unit: int) -> int | None:
    """Return the int64 that the scheduler uses: exact in thousandths, or rounded up to integers."""
    value = quantity.scaled_value(unit)
    exact = unit == _WHOLE or Quantity(value, unit, Format.DECIMAL_SI, decimal=False) == quantity
    return value if exact and -INT64_MAX <= value <= INT64_MAX else None


def _step(name: str, step: Quantity, unit: int) -> int:
    value = step.scaled_value(unit)
    # The scheduler divides by this step and crashes.
    if value == 0 or value > INT64_MAX:
        raise CapacityError(name, f"the step {step} of its request policy is out of range")
    return value


def check_request_policy(
    name: str,
    capacity: Capacity,
    *,
    shared: bool,
    path: str,
    object: str = "",  # noqa: A002  # a field of Finding
) -> Iterator[Finding]:
    """Report violations of API rules, and values that the API accepts but no pod can use.

    `path` is the path of the capacity, `shared` the allowMultipleAllocations of the device.
    """
    policy = capacity.request_policy
    for where, message in _broken_rules(capacity, policy, shared=shared):
        yield codes.REQUEST_POLICY_REFUSED.at(
            f"{path}.{where}", f"capacity {name}: {message}", object=object
        )
    for where, message in _unusable(capacity, policy):
        yield codes.CAPACITY_UNUSABLE.at(
            f"{path}.{where}", f"capacity {name}: {message}", object=object
        )


_Problem: TypeAlias = tuple[str, str]


def _broken_rules(
    capacity: Capacity, policy: RequestPolicy | None, *, shared: bool
) -> Iterator[_Problem]:
    if policy is None:
        return
    if not shared:
        yield "requestPolicy", "a requestPolicy requires allowMultipleAllocations on the device"
    elif policy.valid_values and policy.valid_range is not None:
        yield "requestPolicy", "validValues and validRange are mutually exclusive"
    elif policy.default is None:
        if policy.valid_values or policy.valid_range is not None:
            yield (
                "requestPolicy.default",
                "a request policy with validValues or validRange requires a default",
            )
    elif policy.valid_values:
        yield from _broken_values(policy.valid_values, policy.default, capacity.value)
    elif policy.valid_range is not None:
        yield from _broken_range(policy.valid_range, policy.default, capacity.value)


def _broken_values(
    values: tuple[Quantity, ...], default: Quantity, value: Quantity
) -> Iterator[_Problem]:
    where = "requestPolicy.validValues"
    if len(values) > _MAX_VALID_VALUES:
        yield where, f"{len(values)} validValues, at most {_MAX_VALID_VALUES}"
    seen: set[int] = set()
    for index, valid in enumerate(values):
        if index and valid < values[index - 1]:
            yield (
                f"{where}[{index}]",
                f"{valid} is below {values[index - 1]}, values must be in ascending order",
            )
        if valid > value:
            yield f"{where}[{index}]", f"{valid} is above the capacity's value {value}"
        if valid.value() in seen:
            yield f"{where}[{index}]", f"{valid} appears twice when rounded up to integers"
        seen.add(valid.value())
    if default not in values:
        yield where, f"the default {default} is not one of the validValues"


def _broken_range(valid: ValidRange, default: Quantity, value: Quantity) -> Iterator[_Problem]:
    where = "requestPolicy.validRange"
    if valid.min > value:
        yield f"{where}.min", f"min {valid.min} is above the capacity's value {value}"
    if default < valid.min:
        yield f"{where}.min", f"min {valid.min} is above the default {default}"
    if valid.max is not None:
        if valid.max < valid.min:
            yield f"{where}.max", f"max {valid.max} is below min {valid.min}"
        if valid.max > value:
            yield f"{where}.max", f"max {valid.max} is above the capacity's value {value}"
        if default > valid.max:
            yield f"{where}.max", f"max {valid.max} is below the default {default}"
    if valid.step is not None:
        yield from _broken_step(
            valid.min, valid.step, {"default": default, "max": valid.max}, value
        )


def _broken_step(
    low: Quantity, step: Quantity, ends: Mapping[str, Quantity | None], value: Quantity
) -> Iterator[_Problem]:
    where = "requestPolicy.validRange.step"
    if low + step > value:
        yield where, f"one step of {step} above min {low} is above the capacity's value {value}"
    size = step.value()
    for name, end in ends.items():
        # In integers, even if the scheduler uses thousandths.
        if end is not None and size and (end.value() - low.value()) % size:
            yield where, f"{name} {end} is not a whole number of steps of {step} above min {low}"


def _unusable(capacity: Capacity, policy: RequestPolicy | None) -> Iterator[_Problem]:
    quantities: dict[str, Quantity | None] = {"value": capacity.value}
    policy = policy or RequestPolicy()
    quantities["requestPolicy.default"] = policy.default
    for index, valid in enumerate(policy.valid_values):
        quantities[f"requestPolicy.validValues[{index}]"] = valid
    if policy.valid_range is not None:
        quantities["requestPolicy.validRange.min"] = policy.valid_range.min
        step = policy.valid_range.step
        if step is not None and not 0 < step.value() <= INT64_MAX:
            yield "requestPolicy.validRange.step", f"the step {step} is out of range"
    for where, quantity in quantities.items():
        if quantity is not None and quantity.sign() < 0:
            yield where, f"the amount {quantity} is negative"
