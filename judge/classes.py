"""Are DeviceClasses in order? Each by itself, and the names that several of them serve.

Whether a class's expressions compile, and whether they select any device, is asked elsewhere.
"""

from collections.abc import Iterable, Iterator, Sequence

from dra.classes import KIND, DeviceClass
from dra.finding import Finding
from dra.limits import class_findings, named
from judge import codes


def judge(classes: Sequence[DeviceClass]) -> tuple[Finding, ...]:
    """Give everything that is wrong with these classes, alone and together."""
    last = {each.metadata.name: each for each in classes}
    return (
        *(finding for each in last.values() for finding in class_findings(each)),
        *_repeated(classes),
        *_shared(last.values()),
    )


def _repeated(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    seen: set[str] = set()
    for each in classes:
        if (name := each.metadata.name) in seen:
            message = f"class {name} is there twice; the last one counts"
            about = named(KIND, each.metadata)
            yield codes.OBJECT_TWICE.at("metadata.name", message, object=about)
        seen.add(name)


def _shared(classes: Iterable[DeviceClass]) -> Iterator[Finding]:
    serving: dict[str, str] = {}
    for each in classes:
        name, served = each.metadata.name, each.spec.extended_resource_name
        if served and (other := serving.setdefault(served, name)) != name:
            message = (
                f"{served} is served by class {other} as well; the scheduler takes one of them"
            )
            path, about = "spec.extendedResourceName", named(KIND, each.metadata)
            yield codes.EXTENDED_NAME_SHARED.at(path, message, object=about)
