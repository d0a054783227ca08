"""What is reserved in memory for one pod, as the write path needs it."""

import msgspec

from drawbridge.dra.allocation import Allocation


class ClaimReservation(msgspec.Struct, frozen=True):
    """What to write into one claim.

    Without `allocation` the claim is allocated already, and only the pod is added to its consumers.
    `mark` is the text of the annotation `drawbridge.dev/allocation`.
    """

    namespace: str
    name: str
    uid: str
    allocation: Allocation | None = None
    mark: str = ""


class PodReservation(msgspec.Struct, frozen=True):
    """The node and the devices that are reserved for one pod."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: tuple[ClaimReservation, ...] = ()
