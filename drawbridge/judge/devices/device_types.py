"""Which drivers and device types the selectors of a request leave possible, without devices.

An answer is a proof only where a selector reads nothing but the driver and the type: whatever else
a device publishes does not change its result.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from drawbridge.cel import CompileError, Program
from drawbridge.cel.ast import Literal, walk
from drawbridge.cel.dra import AttributeAccess, find_reads
from drawbridge.dra.attributes import split_name
from drawbridge.dra.device import Attribute, Device
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.driver_configs.model import ConfigDriver

_DRIVER = ("driver",)
_MAX_LITERALS = 16


def possible_types(
    expressions: Sequence[str], driver: ConfigDriver, context: JudgeContext
) -> frozenset[str]:
    """Return the known device types of a driver that the selectors do not exclude.

    The result is empty if they exclude all: then the devices have an unknown type.
    """
    path = ("attributes", *split_name(driver.type_attribute, driver.name))
    proving = [
        program
        for program in _compile(expressions, context)
        if all(_is_determined(each, path) for each in find_reads(program).accesses)
    ]
    return frozenset(
        device_type
        for device_type in driver.device_types()
        if not any(
            _is_false(program, driver.name, context, (path[-1], device_type)) for program in proving
        )
    )


def serves_driver(expressions: Sequence[str], driver: str, context: JudgeContext) -> bool:
    """Tell whether the selectors may select devices of a driver.

    They do not if one of them names another driver and is false for this one: on a device without
    attributes, only the driver makes the difference.
    """
    return not any(
        _is_false(program, driver, context)
        and any(not _is_false(program, name, context) for name in _find_literals(program))
        for program in _compile(expressions, context)
        if any(each.path == _DRIVER for each in find_reads(program).accesses)
    )


def _is_determined(access: AttributeAccess, path: tuple[str, ...]) -> bool:
    """Tell whether the driver and the type of a device determine what an expression reads."""
    if access.presence and path[: len(access.path)] == access.path:
        return True
    return access.path in (_DRIVER, path)


def _compile(expressions: Sequence[str], context: JudgeContext) -> Iterator[Program]:
    for expression in expressions:
        try:
            yield context.selectors.stored.compile(expression)
        except CompileError:
            continue


def _find_literals(program: Program) -> Iterator[str]:
    literals = (
        node.value
        for node in walk(program.checked.node)
        if isinstance(node, Literal) and isinstance(node.value, str)
    )
    return islice(literals, _MAX_LITERALS)


def _is_false(
    program: Program,
    driver: str,
    context: JudgeContext,
    attribute: tuple[str, str] | None = None,
) -> bool:
    """Evaluate a selector on a device that has at most the given attribute."""
    attributes = {attribute[0]: Attribute(string=attribute[1])} if attribute else {}
    device = Device("probe", attributes=attributes)
    expressions = context.caches.proofs.expressions
    return expressions.selects(program.source, driver, device) is False
