"""What there is to say of the claims that a template makes: in words, and what they are charged.

Remembered by the template's name, which stands for its content. Knows nothing of pods.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from dra.claim import (
    ALL,
    CapacityRequests,
    Choice,
    Devices,
    Request,
    choices,
    read_template,
    template_reader,
)
from dra.claim import Template as Read
from dra.quota import charges
from facts.model import Facts
from translate.changes.template import Template

_MOST: Final = 4096
# The gate that makes the API server charge claims for extended resources.
_EXTENDED: Final = "extended_resource"


class About(msgspec.Struct, frozen=True):
    """What a claim of a template is."""

    words: str = ""
    charges: Mapping[str, int] = {}


class Claims:
    """What was found out of templates, under the facts of late."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, About] = OrderedDict()
        self._facts: Facts | None = None
        self._served: Mapping[str, str] = {}
        self._reader = template_reader()

    def of(self, template: Template, facts: Facts | None) -> About:
        """Say what the claims of a template are."""
        if facts is not self._facts:
            self._kept.clear()
            self._facts, self._served = facts, _served(facts)
        about = self._kept.get(template.name)
        if about is None:
            about = self._kept[template.name] = self._read(template)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return about

    def _read(self, template: Template) -> About:
        read = read_template(template.object, self._reader)
        if not isinstance(read, Read):
            return About(template.name)
        spec = read.spec.spec
        return About(" and ".join(_words(spec.devices)), charges(spec, self._served))


def _served(facts: Facts | None) -> Mapping[str, str]:
    """Give the classes that are charged as extended resources, and as which."""
    if facts is None or _EXTENDED not in facts.cluster.gates:
        return {}
    served = {each.name: "" for each in facts.classes}
    return served | {each.classes[0]: each.name for each in facts.names if each.classes}


def _words(devices: Devices) -> Iterator[str]:
    for request in devices.requests:
        yield _request(request)
    for each in devices.constraints:
        if each.match_attribute:
            yield f"all alike in {each.match_attribute}"


def _request(request: Request) -> str:
    return ", or else ".join(dict.fromkeys(map(_way, choices(request))))


def _way(way: Choice) -> str:
    wanted = way.wanted
    several = "s" * (wanted.count != 1)
    number = "all devices" if wanted.allocation_mode == ALL else f"{wanted.count} device{several}"
    given = f" with {_amounts(wanted.capacity)}" if wanted.capacity else ""
    size = len(wanted.selectors)
    selected = f" matching {size} selector{'s' * (size != 1)}" if size else ""
    return f"{number} of class {wanted.device_class_name}{given}{selected}"


def _amounts(capacity: CapacityRequests) -> str:
    return " and ".join(f"{name} {amount}" for name, amount in capacity.requests.items())
