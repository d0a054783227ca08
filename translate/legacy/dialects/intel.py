"""Intel's device plugin: GPUs by their kernel driver, and looking at all of them.

Parts of GPUs, as its older versions knew, no driver serves.
"""

from typing import Final

from config.model import Legacy
from translate.legacy.asks import Ask, Kind, Reading
from translate.legacy.codes import MEANING_CHANGES, NAME_OLD
from translate.legacy.draft import Draft
from translate.legacy.pod_view import PodView, Resource
from translate.legacy.selectors import DriverKind

NAME: Final = "intel"
CALLED_BY: Final = frozenset({"gpu.intel.com", "intel.com"})
# The last one is what the charts of the DRA driver call its class.
_GPUS: Final = {"gpu.intel.com/i915": "i915", "gpu.intel.com/xe": "xe", "intel.com/gpu": ""}
# Older plugins shared GPUs by these; a whole GPU is not what they ask for.
_PARTS: Final = frozenset(
    {"gpu.intel.com/millicores", "gpu.intel.com/memory.max", "gpu.intel.com/tiles"}
)
_MONITORING: Final = {
    "gpu.intel.com/monitoring": "",
    "gpu.intel.com/i915_monitoring": "i915",
    "gpu.intel.com/xe_monitoring": "xe",
}


def read(pod: PodView, legacy: Legacy) -> Reading:  # noqa: ARG001  # every dialect's signature
    """Read what every container asks for."""
    draft = Draft(NAME, pod)
    for container in pod.containers:
        if not _PARTS.isdisjoint(container.resources):
            continue
        for one in container.resources.values():
            if one.name not in _GPUS and one.name not in _MONITORING:
                continue
            watching = one.name in _MONITORING
            driver = _MONITORING[one.name] if watching else _GPUS[one.name]
            ask = Ask(
                kind=Kind.GPU,
                row="monitoring" if watching else "whole",
                vendor="intel",
                count=None if watching else draft.count(one),
                selectors=(DriverKind((driver,)),) if driver else (),
                admin=watching,
                users=(container.user,),
            )
            draft.ask(ask, (one,))
            _remarks(draft, one, watching=watching)
    return draft.reading()


def _remarks(draft: Draft, one: Resource, *, watching: bool) -> None:
    if one.name.endswith("_monitoring"):
        draft.findings.append(
            NAME_OLD.at(one.where, f"{one.written} is called gpu.intel.com/monitoring today")
        )
    elif not watching and one.amount > 1:
        draft.findings.append(
            MEANING_CHANGES.at(
                one.where,
                f"{one.written}: {one.amount} may have been the same GPU several times, where the "
                "plugin shares; now they are different ones",
            )
        )
