"""Evaluates the selectors of DeviceClasses and compatibleOnlyWith on the published devices.

An expression is wrong if the API server rejects it, if it fails on a device, if no device matches,
or if it reads a name that no device publishes. Without devices only the first check applies. A
failing selector aborts every pod that evaluates it.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from drawbridge.cel import EvaluationError, Program
from drawbridge.cel.dra import Reads, Selectors, device_variables, find_reads
from drawbridge.cel.dra.advice import describe_problem
from drawbridge.cel.dra.environment import LENGTH_LIMIT
from drawbridge.cel.frame import COST_LIMIT
from drawbridge.cel.meter import EXCEEDED
from drawbridge.dra.classes import KIND, DeviceClass
from drawbridge.dra.compatibility import Declaration, read_declarations
from drawbridge.dra.counted import count_noun
from drawbridge.dra.similar_names import suggest
from drawbridge.dra.slices import KIND as SLICE
from drawbridge.dra.slices import Slice
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Code, Finding
from drawbridge.judge.slices import codes
from drawbridge.names import COMPATIBILITY_ANNOTATION
from drawbridge.solver.codes import SELECTOR_TOO_EXPENSIVE

_Result = bool | EvaluationError
_DeviceView = Mapping[str, object]


class PublishedDevice(NamedTuple):
    """The name of a device, and its CEL view."""

    name: str
    driver: str
    view: _DeviceView


class _Expression(NamedTuple):
    """An expression, and where it is defined; `is_derived` if a derived attribute has its value."""

    text: str
    about: str
    path: str
    is_derived: bool = False

    def finding(self, code: Code, message: str) -> Finding:
        # `drawbridge cel` evaluates selectors only.
        remedy = "Correct the expression." if self.is_derived else None
        return code.at(self.path, message, object=self.about, remedy=remedy)


def published_devices(slices: Iterable[Slice], selectors: Selectors) -> tuple[PublishedDevice, ...]:
    """Return the CEL views of all devices of slices."""
    return tuple(
        PublishedDevice(
            f"{slice_.driver}/{slice_.pool}/{device.name}",
            slice_.driver,
            device_variables(slice_.driver, device, list_attributes=selectors.lists),
        )
        for slice_ in slices
        for device in slice_.devices
    )


def declares_compatibility(published: Slice) -> bool:
    """Return whether a slice has a compatibility rule for any device."""
    return COMPATIBILITY_ANNOTATION in published.annotations or any(
        device.compatible_only_with is not None for device in published.devices
    )


def check_expression(
    text: str, about: str, path: str, selectors: Selectors, *, is_derived: bool = False
) -> tuple[Finding, ...]:
    """Report an expression that the API server rejects in a new object."""
    return _refuse(_Expression(text, about, path, is_derived), selectors)


def check_class_selectors(
    classes: Iterable[DeviceClass], devices: Sequence[PublishedDevice], selectors: Selectors
) -> Iterator[Finding]:
    """Report wrong selectors of classes, each on the devices that the ones before select."""
    published = _published_names(devices)
    for device_class in classes:
        about, left = format_object_name(KIND, device_class.metadata), devices
        for i, selector in enumerate(device_class.spec.selectors):
            if selector.cel is None:
                continue
            place = f"spec.selectors[{i}].cel.expression"
            expression = _Expression(selector.cel.expression, about, place)
            program, refused = _compile(expression, selectors)
            yield from refused
            if program is None:
                break
            if devices:
                yield from _check_reads(expression, find_reads(program), published)
            tried = _evaluate_all(program, left)
            yield from _check_failures(expression, tried)
            # An expression that we refuse may select any device.
            holding = tuple(
                device for device, answer in tried if answer is True or _is_refused(answer)
            )
            if left and not holding:
                yield expression.finding(
                    codes.SELECTOR_NEVER_TRUE, _no_match_message(device_class, left, i)
                )
            left = holding
        else:
            yield from _check_config_drivers(device_class, about, {each.driver for each in left})


def _check_config_drivers(
    device_class: DeviceClass, about: str, drivers: Collection[str]
) -> Iterator[Finding]:
    """Report configurations for drivers of which a class selects no device."""
    for i, config in enumerate(device_class.spec.config):
        opaque = config.opaque
        if drivers and opaque is not None and opaque.driver not in drivers:
            message = f"class {device_class.metadata.name} selects no device of {opaque.driver}"
            path = f"spec.config[{i}].opaque.driver"
            yield codes.CONFIG_OF_OTHER_DRIVER.at(path, message, object=about)


def select_devices(
    device_class: DeviceClass, devices: Sequence[PublishedDevice], selectors: Selectors
) -> Sequence[PublishedDevice] | None:
    """Return the devices that a class selects; None if it fails on one of them."""
    left = devices
    for selector in device_class.spec.selectors:
        program = None
        if selector.cel is not None:
            text = selector.cel.expression
            program, _ = _compile(_Expression(text, "", ""), selectors)
        tried = _evaluate_all(program, left) if program else []
        if program is None or any(isinstance(answer, EvaluationError) for _, answer in tried):
            return None
        left = [device for device, answer in tried if answer is True]
    return left


def select_drivers(
    device_class: DeviceClass, devices: Sequence[PublishedDevice], selectors: Selectors
) -> frozenset[str] | None:
    """Return the drivers of the devices that a class selects; None if it fails on one of them."""
    selected = select_devices(device_class, devices, selectors)
    return None if selected is None else frozenset(device.driver for device in selected)


def published_capacities(devices: Iterable[PublishedDevice]) -> frozenset[str]:
    """Return the names of the capacities of devices, with their domains."""
    return _list_published(devices, "capacity")


def published_properties(devices: Iterable[PublishedDevice]) -> frozenset[str]:
    """Return the names of the attributes and capacities of devices, with their domains."""
    return _list_published(devices, "attributes", "capacity")


def published_attributes(devices: Iterable[PublishedDevice]) -> frozenset[str]:
    """Return the names of the attributes of devices, with their domains."""
    return _list_published(devices, "attributes")


def _list_published(devices: Iterable[PublishedDevice], *kinds: str) -> frozenset[str]:
    names = _published_names(devices)
    return frozenset(f"{domain}/{name}" for kind, domain, name in names if kind in kinds)


def check_compatible_only_with(
    slices: Iterable[Slice],
    declarations: Sequence[Declaration],
    devices: Sequence[PublishedDevice],
    selectors: Selectors,
) -> Iterator[Finding]:
    """Report wrong expressions of compatibleOnlyWith, each once.

    `drawbridge.judge.slices.exclusions` checks errors and one-sided rules for pairs of devices.
    """
    checked: set[tuple[str, str]] = set()
    published = _published_names(devices)
    for driver, expression in _declared_rules(slices, declarations):
        if (driver, expression.text) in checked:
            continue
        checked.add((driver, expression.text))
        program, refused = _compile(expression, selectors)
        yield from refused
        others = [each for each in devices if driver in ("", each.driver)]
        if program is None or not others:
            continue
        yield from _check_reads(expression, find_reads(program), published)
        answers = [answer for _, answer in _evaluate_all(program, others)]
        # `false` declares that a device is allocated alone.
        if expression.text.strip() != "false" and not any(each is not False for each in answers):
            what = "device" if len(others) == 1 else "devices"
            message = f"matches none of {len(others)} {what} of {driver or 'any driver'}"
            yield expression.finding(codes.COMPATIBILITY_NEVER, message)


def _declared_rules(
    slices: Iterable[Slice], declarations: Sequence[Declaration]
) -> Iterator[tuple[str, _Expression]]:
    for i, declaration in enumerate(declarations):
        if declaration.compatible_only_with:
            place = f"compatibility[{i}].compatibleOnlyWith"
            yield (
                declaration.driver,
                _Expression(declaration.compatible_only_with, "Configuration", place),
            )
    for slice_ in slices:
        about = f"{SLICE}/{slice_.name}"
        for declaration in read_declarations(slice_)[0]:
            if declaration.compatible_only_with:
                place = f"metadata.annotations[{COMPATIBILITY_ANNOTATION}]"
                yield slice_.driver, _Expression(declaration.compatible_only_with, about, place)
        for i, device in enumerate(slice_.devices):
            if device.compatible_only_with is not None:
                place = f"spec.devices[{i}].compatibleOnlyWith.expression"
                text = device.compatible_only_with.expression
                yield slice_.driver, _Expression(text, about, place)


def _compile(
    expression: _Expression, selectors: Selectors
) -> tuple[Program | None, tuple[Finding, ...]]:
    """Compile a selector like the API server; None if it rejects the selector."""
    refused = _refuse(expression, selectors)
    return None if refused else selectors.stored.compile(expression.text), refused


def _refuse(expression: _Expression, selectors: Selectors) -> tuple[Finding, ...]:
    """Return why the API server rejects an expression; nothing if it does not."""
    text, derived = expression.text, expression.is_derived
    admitted, problem = selectors.check_admission(text, derived=derived)
    if admitted:
        return ()
    if problem is not None and problem.kind == EXCEEDED:
        return (expression.finding(SELECTOR_TOO_EXPENSIVE, problem.message),)
    if problem is not None:
        at = f"line {problem.line}, column {problem.column}: " if problem.line > 0 else ""
        message = f"does not compile: {at}{describe_problem(problem, text)}"
    elif (length := len(text.encode("utf-8", "replace"))) > LENGTH_LIMIT:
        message = f"has {length} bytes, but the API server allows at most {LENGTH_LIMIT}"
    else:
        cost = selectors.compile_new(text, derived=derived).max_cost
        message = f"has an estimated cost of {cost}, but the API server allows {COST_LIMIT}"
    return (expression.finding(codes.EXPRESSION_REFUSED, message),)


def _evaluate_all(
    program: Program, devices: Sequence[PublishedDevice]
) -> list[tuple[PublishedDevice, _Result]]:
    """Evaluate a program on every device, once per distinct projection."""
    wanted = find_reads(program)
    results: dict[Hashable, _Result] = {}
    tried: list[tuple[PublishedDevice, _Result]] = []
    for device in devices:
        key = wanted.projection(device.view)
        if key not in results:
            results[key] = _evaluate(program, device.view)
        tried.append((device, results[key]))
    return tried


def _evaluate(program: Program, device: _DeviceView) -> _Result:
    try:
        return program.evaluate(device).value is True
    except EvaluationError as error:
        return error


def _check_failures(
    expression: _Expression, tried: list[tuple[PublishedDevice, _Result]]
) -> Iterator[Finding]:
    failed = [(each, error) for each, error in tried if isinstance(error, EvaluationError)]
    if failed:
        device, error = failed[0]
        more = f" and {count_noun(len(failed) - 1, 'more device')}" if len(failed) > 1 else ""
        message = f"fails on device {device.name}{more}: {error.message}"
        code = SELECTOR_TOO_EXPENSIVE if _is_refused(error) else codes.EXPRESSION_FAILS
        yield expression.finding(code, message)


def _is_refused(answer: _Result) -> bool:
    return isinstance(answer, EvaluationError) and answer.kind == EXCEEDED


def _no_match_message(
    device_class: DeviceClass, left: Sequence[PublishedDevice], index: int
) -> str:
    what = "device" if len(left) == 1 else "devices"
    candidates = f"{len(left)} {what}" + (" that the previous selectors match" if index else "")
    return f"class {device_class.metadata.name} selects no device: it matches none of {candidates}"


_FieldName = tuple[str, str, str]


def _published_names(devices: Iterable[PublishedDevice]) -> frozenset[_FieldName]:
    names: set[_FieldName] = set()
    for published in devices:
        device = published.view["device"]
        if isinstance(device, Mapping):
            for kind in ("attributes", "capacity"):
                for domain, inside in device[kind].items():
                    names.update((kind, domain, identifier) for identifier in inside)
    return frozenset(names)


def _check_reads(
    expression: _Expression, wanted: Reads, published: frozenset[_FieldName]
) -> Iterator[Finding]:
    for access in wanted.accesses:
        if len(access.path) != 3 or access.path in published:
            continue
        kind, domain, identifier = access.path
        hint = suggest(identifier, {name[2] for name in published if name[:2] == (kind, domain)})
        what = "attribute" if kind == "attributes" else "capacity"
        message = f"reads {what} {domain}/{identifier}, which no device publishes{hint}"
        yield expression.finding(codes.READ_NOWHERE, message)
