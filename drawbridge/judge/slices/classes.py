"""Checks DeviceClasses: each one alone, and the resource names that they share.

`drawbridge.judge.slices.expressions` evaluates their selectors on the published devices.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from drawbridge.cel.dra import Selectors
from drawbridge.dra.classes import KIND, DeviceClass
from drawbridge.dra.slices import Slice
from drawbridge.dra.validation import format_object_name, validate_class
from drawbridge.finding import Finding
from drawbridge.judge.claims.opaque_configs import check_class_configs
from drawbridge.judge.slices import codes
from drawbridge.judge.slices.expressions import check_class_selectors, published_devices
from drawbridge.judge.slices.pools import list_current


def judge_classes(
    classes: Sequence[DeviceClass],
    slices: Sequence[Slice] = (),
    selectors: Selectors | None = None,
) -> tuple[Finding, ...]:
    """Return all errors of classes: alone, together, and on the devices of slices.

    Expressions are checked only with `selectors`, which compiles and caches them.
    """
    kept = {each.metadata.name: each for each in classes}
    return (
        *(finding for each in kept.values() for finding in validate_class(each)),
        *(finding for each in kept.values() for finding in check_class_configs(each)),
        *_find_repeated(classes),
        *_find_shared_names(kept.values()),
        *_find_unselective(kept.values()),
        *(_check_selectors(kept.values(), slices, selectors) if selectors and kept else ()),
    )


def _check_selectors(
    classes: Collection[DeviceClass], slices: Sequence[Slice], selectors: Selectors
) -> Iterator[Finding]:
    devices = published_devices(list_current(slices), selectors)
    return check_class_selectors(classes, devices, selectors)


def _find_repeated(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    names: set[str] = set()
    for device_class in classes:
        if (name := device_class.metadata.name) in names:
            message = f"class {name} occurs more than once; the last one applies"
            about = format_object_name(KIND, device_class.metadata)
            yield codes.OBJECT_TWICE.at("metadata.name", message, object=about)
        names.add(name)


def _find_shared_names(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    serving: dict[str, str] = {}
    for device_class in classes:
        name, served = device_class.metadata.name, device_class.spec.extended_resource_name
        if served and (other := serving.setdefault(served, name)) != name:
            message = f"class {other} serves {served} too; the scheduler uses only one of them"
            path, about = (
                "spec.extendedResourceName",
                format_object_name(KIND, device_class.metadata),
            )
            yield codes.EXTENDED_NAME_SHARED.at(path, message, object=about)


def _find_unselective(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    """Report classes that serve a resource name with the devices of every driver."""
    for device_class in classes:
        name, served = device_class.metadata.name, device_class.spec.extended_resource_name
        if served and not device_class.spec.selectors:
            message = f"class {name} serves {served} with the devices of every driver"
            about = format_object_name(KIND, device_class.metadata)
            yield codes.CLASS_TAKES_ALL.at("spec.selectors", message, object=about)
