"""What the search for stuck objects returns: one struct for all that show it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from drawbridge.dra.counted import count_noun
from drawbridge.finding import Code, Finding
from drawbridge.report.stuck.objects import HeldResult

MOST_NAMES: Final = 4
# As many pods as use a claim at the same time.
MOST_PODS: Final = 256
CLAIM_CONTROLLER: Final = "resourceclaim-controller of kube-controller-manager"
NODE_WRITER: Final = "whoever wrote spec.nodeName"
GARBAGE_COLLECTOR: Final = "garbage-collector-controller of kube-controller-manager"
RESTART_CONTROLLER: Final = (
    "Check that kube-controller-manager runs with this controller, and read its log."
)


class Stuck(msgspec.Struct, frozen=True, rename="camel"):
    """An object that does not go on, and why.

    `since` is when that began; empty if nobody wrote it down. `held_by` is who has to act. `pods`
    are those that it is about, and `devices` the first of those that are held meanwhile;
    `more_devices` counts the others.
    """

    code: str
    object: str
    message: str
    held_by: str
    remedy: str
    since: str = ""
    pods: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    more_devices: int = 0

    @property
    def text(self) -> str:
        """All but the object, in one sentence."""
        since = f" since {format_since(self.since)}" if self.since else ""
        more = f" and {count_noun(self.more_devices, 'more device')}" if self.more_devices else ""
        holds = f"; devices {', '.join(self.devices)}{more}" if self.devices else ""
        return f"{self.message}{since}; held by {self.held_by}{holds}"

    @property
    def about(self) -> frozenset[str]:
        """The objects that it is about, as findings name them."""
        return frozenset((self.object, *(f"Pod/{each}" for each in self.pods)))


def stuck_at(  # noqa: PLR0913  # the parts of what is stuck
    code: Code,
    about: str,
    message: str,
    held_by: str,
    *,
    since: str | None = None,
    remedy: str = "",
    pods: tuple[str, ...] = (),
    devices: Sequence[HeldResult] = (),
) -> Stuck:
    """Return what is stuck; the default remedy is that of the code."""
    named, more = tuple(map(str, devices[:MOST_NAMES])), max(0, len(devices) - MOST_NAMES)
    remedy, since = remedy or code.remedy, since or ""
    return Stuck(code.name, about, message, held_by, remedy, since, pods[:MOST_PODS], named, more)


def name_finalizers(names: Sequence[str], left_out: int) -> str:
    """Name the first finalizers, and count the others."""
    more = max(0, len(names) - MOST_NAMES) + left_out
    others = f" and {count_noun(more, 'more finalizer')}" if more else ""
    return f"finalizer {', '.join(names[:MOST_NAMES])}{others}"


def as_finding(stuck: Stuck, code: Code) -> Finding:
    """Return the finding of what is stuck."""
    return code.at("", stuck.text, object=stuck.object, remedy=stuck.remedy)


def format_since(text: str) -> str:
    """Write a time of the API server as people read it."""
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC)
    except (ValueError, OverflowError):
        return text
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def format_stuck(several: Iterable[Stuck], most: int | None = None) -> Iterator[str]:
    """Format what is stuck for a person, or the first of it: who holds it, then what to do."""
    several = (*several,)
    for stuck in several[:most]:
        yield f"{stuck.object}: {stuck.text} [{stuck.code}]"
        yield f"    {stuck.remedy}"
    if most is not None and len(several) > most:
        yield f"and {len(several) - most:,} more; -o json prints all"
