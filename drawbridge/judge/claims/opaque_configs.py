"""Compares the opaque configurations of claims and classes with what known drivers decode.

A driver decodes its configurations when it prepares a claim, long after the objects are applied.
Drivers without a table are not checked. What no known version of a driver accepts is an error;
what depends on the settings of the driver, which the cluster does not show, is a warning.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from drawbridge.dra.claim import Choice, Config, Devices, Request, refers_to, request_choices
from drawbridge.dra.classes import KIND, ClassConfig, DeviceClass
from drawbridge.dra.decode import QuantityDecoder
from drawbridge.dra.decode_errors import Schema, convert, describe_value
from drawbridge.dra.fatal_configs import find_fatal_configs
from drawbridge.dra.similar_names import suggest
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Finding
from drawbridge.judge.claims import codes
from drawbridge.judge.context import JudgeContext
from drawbridge.judge.devices.device_types import possible_types, serves_driver
from drawbridge.judge.driver_configs import DRIVERS
from drawbridge.judge.driver_configs.model import ConfigDriver, ConfigFields, ConfigKind
from drawbridge.judge.severity import DeviceFinding
from drawbridge.judge.subject import Subject


class _Decoded(NamedTuple):
    """A configuration of a known kind, and the number and path of its entry in the list."""

    number: int
    path: str
    driver: ConfigDriver
    kind: ConfigKind
    value: Any


def check_class_configs(device_class: DeviceClass) -> Iterator[Finding]:
    """Report configurations of a class that their driver does not decode or refuses."""
    about = format_object_name(KIND, device_class.metadata)
    for found in _check_fatal(device_class.spec.config, "spec"):
        yield replace(found, object=about)
    for i, config in enumerate(device_class.spec.config):
        for found in _decode(config, i, f"spec.config[{i}]")[1]:
            yield replace(found, object=about)


def check_opaque_configs(
    subject: Subject, context: JudgeContext
) -> Iterator[Finding | DeviceFinding]:
    """Report configurations of claims that their driver does not decode, refuses or ignores."""
    for judged in subject.claims:
        for device in _check_devices(judged.claim.spec.devices, f"{judged.path}.devices", context):
            finding = replace(device, object=judged.object)
            # The class decides this one, and a cache may still have an older class.
            wrong = device.code == codes.CONFIG_KIND_WRONG.name
            yield DeviceFinding(finding) if wrong else finding


def _check_devices(devices: Devices, path: str, context: JudgeContext) -> Iterator[Finding]:
    yield from _check_fatal(devices.config, path)
    decoded: list[_Decoded] = []
    choices = [each for request in devices.requests for each in request_choices(request)]
    drivers = _RequestDrivers(choices, context)
    for i, config in enumerate(devices.config):
        decoded_config, problems = _decode(config, i, f"{path}.config[{i}]")
        yield from problems
        if decoded_config is not None:
            decoded.append(decoded_config)
            yield from _check_used(decoded_config, config, choices, drivers)
            yield from _check_main_requests(decoded_config, config, devices.requests)
            yield from _check_admin_access(decoded_config, config, choices)
    for choice in choices:
        yield from _check_kinds(choice, decoded, devices.config, drivers)


def _check_fatal(configs: Sequence[Config | ClassConfig], path: str) -> Iterator[Finding]:
    for fatal in find_fatal_configs(configs):
        at = f"{path}.config[{fatal.number}].{fatal.path}"
        yield codes.CONFIG_ENDS_DRIVER.at(at, fatal.message)


class _RequestDrivers:
    """Tells which drivers and device types the requests of a claim can get."""

    def __init__(self, choices: Sequence[Choice], context: JudgeContext) -> None:
        self._context = context
        names = {each.requested.device_class_name for each in choices}
        self.classes = {name: context.world.classes.get(name) for name in names}

    def serves(self, choice: Choice, driver: ConfigDriver) -> bool:
        """Tell whether a request may get devices of a driver; true if that is not known."""
        name = choice.requested.device_class_name
        device_class = self.classes[name]
        if device_class is None:
            owner = next((each for each in DRIVERS.values() if name in each.classes), driver)
            return owner is driver
        expressions = _expressions(device_class, choice)
        return serves_driver(expressions, driver.name, self._context)

    def types(self, choice: Choice, driver: ConfigDriver) -> frozenset[str]:
        """Return the known device types that a request may get from a driver."""
        device_class = self.classes[choice.requested.device_class_name]
        if device_class is None:
            installed = driver.classes.get(choice.requested.device_class_name)
            return driver.device_types() if installed is None else frozenset(installed)
        expressions = _expressions(device_class, choice)
        return possible_types(expressions, driver, self._context)


def _expressions(device_class: DeviceClass, choice: Choice) -> list[str]:
    both = (*device_class.spec.selectors, *choice.requested.selectors)
    return [each.cel.expression for each in both if each.cel is not None]


def _decode(
    config: Config | ClassConfig, number: int, path: str
) -> tuple[_Decoded | None, tuple[Finding, ...]]:
    """Decode a configuration of a known driver; return it if it can be decoded, and the findings.

    The API server rejects parameters that are not an object.
    """
    driver = DRIVERS.get(config.opaque.driver) if config.opaque is not None else None
    kept = config.opaque.parameters if config.opaque is not None else None
    parameters = kept.decode() if driver is not None and kept is not None else None
    if driver is None or not isinstance(parameters, Mapping):
        return None, ()
    kind = _find_kind(driver, parameters, f"{path}.opaque")
    if isinstance(kind, Finding):
        return None, (kind,)
    at = f"{path}.opaque.parameters"
    value = convert(parameters, _schema(kind.shape), path=at)
    if isinstance(value, tuple):
        return None, tuple(codes.CONFIG_INVALID.at(each.path, each.message) for each in value)
    return _Decoded(number, path, driver, kind, value), tuple(_check_settings(kind, value, at))


@functools.cache  # one entry for each kind of the tables
def _schema(shape: type[ConfigFields]) -> Schema:
    return Schema(shape, QuantityDecoder())


def _check_settings(kind: ConfigKind, value: ConfigFields, path: str) -> Iterator[Finding]:
    for code, problems in (
        (codes.CONFIG_REFUSED, kind.find_refusals(value)),
        (codes.CONFIG_NEEDS_GATE, kind.find_gates(value)),
    ):
        for problem in problems:
            yield code.at(f"{path}.{problem.path}", problem.message)


def _find_kind(
    driver: ConfigDriver, parameters: Mapping[str, object], path: str
) -> ConfigKind | Finding:
    """Find the kind of a configuration, or say why the driver does not decode it."""
    if not driver.api_versions:
        return driver.kinds[0]
    version, name = parameters.get("apiVersion"), parameters.get("kind")
    at = f"{path}.parameters"
    for field, value in (("apiVersion", version), ("kind", name)):
        if not isinstance(value, str) or not value:
            example = f"{driver.kinds[0].name} of {driver.api_versions[0]}"
            what = "is required" if value in (None, "") else f"is {describe_value(value)}"
            message = f"{field} {what}: driver {driver.name} decodes, for example, {example}"
            return codes.CONFIG_INVALID.at(f"{at}.{field}", message)
    kind = next((each for each in driver.kinds if each.name == name), None)
    if version in driver.api_versions and kind is not None:
        return kind
    return _report_kind(driver, f"{version}", f"{name}", path)


def _report_kind(driver: ConfigDriver, version: str, name: str, path: str) -> Finding:
    owner = next(
        (
            other
            for other in DRIVERS.values()
            if version in other.api_versions and any(kind.name == name for kind in other.kinds)
        ),
        None,
    )
    if owner is not None:
        message = (
            f"driver {driver.name} does not decode {name} of {version}, which is for {owner.name}"
        )
        return codes.CONFIG_OTHER_DRIVER.at(f"{path}.driver", message)
    if version not in driver.api_versions:
        message = (
            f"{describe_value(version)} is not a version that Drawbridge knows for {driver.name}: "
            f"{', '.join(driver.api_versions)}"
        )
        return codes.CONFIG_VERSION_UNKNOWN.at(f"{path}.parameters.apiVersion", message)
    kinds = [each.name for each in driver.kinds]
    hint = suggest(name, kinds) or f"; known kinds are {', '.join(kinds)}"
    message = f"driver {driver.name} has no kind {describe_value(name)} in {version}{hint}"
    return codes.CONFIG_INVALID.at(f"{path}.parameters.kind", message)


def _check_used(
    decoded: _Decoded, config: Config, choices: Sequence[Choice], drivers: _RequestDrivers
) -> Iterator[Finding]:
    applied = [each for each in choices if refers_to(config.requests, each.name)]
    if applied and not any(drivers.serves(each, decoded.driver) for each in applied):
        message = (
            f"no class of the requests selects devices of driver {decoded.driver.name}, so the "
            "configuration has no effect"
        )
        yield codes.CONFIG_UNUSED.at(f"{decoded.path}.opaque.driver", message)


def _check_main_requests(
    decoded: _Decoded, config: Config, requests: Sequence[Request]
) -> Iterator[Finding]:
    """Report a request with alternatives that a configuration names without one of them.

    All drivers with a table compare whole names only.
    """
    alternatives = {each.name for each in requests if each.first_available}
    for i, name in enumerate(config.requests):
        if name in alternatives:
            message = (
                f"driver {decoded.driver.name} ignores a configuration for {name}, which has "
                "alternatives"
            )
            yield codes.CONFIG_ON_MAIN_REQUEST.at(f"{decoded.path}.requests[{i}]", message)


def _check_admin_access(
    decoded: _Decoded, config: Config, choices: Sequence[Choice]
) -> Iterator[Finding]:
    release, kind = decoded.driver.plain_admin_access_since, decoded.kind
    for choice in choices:
        if not choice.admin_access:
            continue
        request = f"request {choice.name}, which has admin access"
        # A configuration for all requests may be intended for the others.
        if choice.name in config.requests and kind.shares_device(decoded.value):
            message = f"{kind.name} shares the device of {request}"
        elif release and refers_to(config.requests, choice.name):
            driver = f"{decoded.driver.project} {release}"
            message = f"{kind.name} applies to {request}: {driver} refuses such a claim"
        else:
            continue
        yield codes.CONFIG_ON_ADMIN_ACCESS.at(f"{decoded.path}.requests", message)


def _check_kinds(
    choice: Choice,
    decoded: Sequence[_Decoded],
    configs: Sequence[Config],
    drivers: _RequestDrivers,
) -> Iterator[Finding]:
    """Check the kinds of the configurations that name a request.

    A configuration for all requests is applied only to devices of its type.
    """
    for driver in dict.fromkeys(one.driver.name for one in decoded):
        named = [
            one
            for one in decoded
            if one.driver.name == driver
            and one.kind.device_types
            and choice.name in configs[one.number].requests
        ]
        if not named or not drivers.serves(choice, named[-1].driver):
            continue
        last = named[-1]
        types = drivers.types(choice, last.driver)
        if types and not types & frozenset(last.kind.device_types):
            yield _report_types(last, choice, types)
        yield from _report_ignored(named, choice)


def _report_types(config: _Decoded, choice: Choice, types: frozenset[str]) -> Finding:
    message = (
        f"{config.kind.name} configures devices of type {' or '.join(config.kind.device_types)}, "
        f"but request {choice.name} gets devices of type {' or '.join(sorted(types))}"
    )
    return codes.CONFIG_KIND_WRONG.at(f"{config.path}.opaque.parameters.kind", message)


def _report_ignored(named: Sequence[_Decoded], choice: Choice) -> Iterator[Finding]:
    last = named[-1]
    for decoded in named[:-1]:
        if decoded.kind is not last.kind:
            message = (
                f"request {choice.name} has a {last.kind.name}, too, in config[{last.number}]; the "
                "driver uses only the last one"
            )
            yield codes.CONFIG_KIND_TWICE.at(f"{decoded.path}.opaque.parameters.kind", message)
