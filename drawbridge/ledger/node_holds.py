"""The devices of a node that are held for one pod until a time, as a plan to defragment needs.

The hold is an annotation of the Node, because only administrators can change nodes: a tenant can
hold nothing. It survives every process. The allocator obeys it by keeping the devices as for a pod
that preempts, and a stock scheduler does not know it.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from drawbridge.names import HOLD_ANNOTATION

# A hold that ends later is not obeyed yet.
MAX_HOLD_SECONDS: Final = 86_400.0


class NodeHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The pod for which devices are held, and the UIDs of the pods that are to be evicted for it.

    `pod` is its `namespace/name`. A pod with another UID is another pod.
    """

    pod: str
    uid: Annotated[str, msgspec.Meta(min_length=1)]
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    evicted: tuple[str, ...] = ()

    def lasts(self, now: float) -> bool:
        """Whether devices are held at a Unix time."""
        return 0 < self.until.timestamp() - now <= MAX_HOLD_SECONDS

    @property
    def end(self) -> str:
        """The time of its end, as in messages."""
        return self.until.isoformat(timespec="seconds").replace("+00:00", "Z")


def read_node_hold(text: str) -> NodeHold | str:
    """Read the annotation of a node; return what is wrong with it if it is no hold."""
    try:
        return msgspec.json.decode(text, type=NodeHold)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return f"annotation {HOLD_ANNOTATION} is not a hold: {error}"


def write_node_hold(hold: NodeHold) -> str:
    """Return the annotation."""
    return msgspec.json.encode(hold).decode()


def describe_node_hold(text: str, now: datetime | None = None) -> str:
    """Return in words what the annotation of a node says, and whether its time is over by now."""
    hold = read_node_hold(text)
    if isinstance(hold, str):
        return hold
    were = "were " if now is not None and hold.until <= now else ""
    return f"devices {were}held for {hold.pod} until {hold.end}"
