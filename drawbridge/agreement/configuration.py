"""Reads a Configuration as all processes and commands do.

In addition to the checks of `drawbridge.config`, a target may not contradict what the translation
knows: the names of dialects, and the kind and vendor of known drivers.
"""

from collections.abc import Iterator, Mapping

from drawbridge.config.codes import DRIVER_OF_OTHER_KIND, RESOURCE_NAME_TAKEN
from drawbridge.config.load import OBJECT, list_names, load_configuration
from drawbridge.config.model import Configuration
from drawbridge.facts.families import find_family
from drawbridge.finding import Finding
from drawbridge.translate.legacy.read import find_dialects
from drawbridge.translate.targets.available import PRINTERS


def read_configuration(
    value: object, known_codes: Mapping[str, str]
) -> Configuration | tuple[Finding, ...]:
    """Return the Configuration, or all findings."""
    loaded = load_configuration(value, known_codes)
    if not isinstance(loaded, Configuration):
        return loaded
    return (*_check_names(loaded), *_check_drivers(loaded)) or loaded


def _check_names(configuration: Configuration) -> Iterator[Finding]:
    for path, name in list_names(configuration):
        if dialects := find_dialects(name):
            message = f"{name} has a meaning in the dialect {' and '.join(dialects)}"
            yield RESOURCE_NAME_TAKEN.at(path, message, object=OBJECT)


def _check_drivers(configuration: Configuration) -> Iterator[Finding]:
    for i, target in enumerate(configuration.targets):
        family = find_family(target)
        if family is None:
            continue
        field = "family" if target.family else "driver"
        subject = f"family {target.family}" if target.family else f"{target.driver}"
        vendor = PRINTERS[family.driver].vendor
        wrong = (
            (family.kind, target.kind) if family.kind != target.kind else (vendor, target.vendor)
        )
        if wrong[1] and wrong[0] != wrong[1]:
            message = (
                f"{subject} is for {wrong[0] or family.kind} devices, not for {wrong[1]} devices"
            )
            yield DRIVER_OF_OTHER_KIND.at(f"targets[{i}].{field}", message, object=OBJECT)
