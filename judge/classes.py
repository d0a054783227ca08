"""Are DeviceClasses in order? Each by itself, and the names that several of them serve.

What its expressions mean for the devices that are published is asked in `judge.expressions`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from cel.dra import Selectors
from dra.classes import KIND, DeviceClass
from dra.finding import Finding
from dra.slices import Slice
from dra.validation import validate_class, format_object_name
from judge import codes
from judge.expressions import check_class_selectors, published_devices
from judge.pools import latest_slices, newest_generations


def judge_classes(
    classes: Sequence[DeviceClass],
    slices: Sequence[Slice] = (),
    selectors: Selectors | None = None,
) -> tuple[Finding, ...]:
    """Give everything that is wrong with these classes, alone, together, and on these devices.

    Expressions are looked at only with `selectors`, which compiles and remembers them.
    """
    kept = {each.metadata.name: each for each in classes}
    return (
        *(finding for each in kept.values() for finding in validate_class(each)),
        *_repeated(classes),
        *_shared(kept.values()),
        *(_selecting(kept.values(), slices, selectors) if selectors else ()),
    )


def _selecting(
    classes: Collection[DeviceClass], slices: Sequence[Slice], selectors: Selectors
) -> Iterator[Finding]:
    counting = (
        each for members in newest_generations(latest_slices(slices)).values() for each in members
    )
    return check_class_selectors(
        classes, published_devices(counting, selectors) if classes else (), selectors
    )


def _repeated(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    names: set[str] = set()
    for each in classes:
        if (name := each.metadata.name) in names:
            message = f"class {name} is there twice; the last one counts"
            about = format_object_name(KIND, each.metadata)
            yield codes.OBJECT_TWICE.at("metadata.name", message, object=about)
        names.add(name)


def _shared(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    serving: dict[str, str] = {}
    for each in classes:
        name, served = each.metadata.name, each.spec.extended_resource_name
        if served and (other := serving.setdefault(served, name)) != name:
            message = (
                f"{served} is served by class {other} as well; the scheduler takes one of them"
            )
            path, about = "spec.extendedResourceName", format_object_name(KIND, each.metadata)
            yield codes.EXTENDED_NAME_SHARED.at(path, message, object=about)
