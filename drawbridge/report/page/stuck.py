"""What is stuck, of the objects that the page has read."""

from typing import Final

from drawbridge.report.page.model import Extent, PageObjects
from drawbridge.report.stuck.find import find_stuck
from drawbridge.report.stuck.found import Stuck
from drawbridge.report.stuck.objects import (
    HangingClaim,
    HangingNamespace,
    HangingNode,
    HangingObjects,
    HangingPod,
    decode_each,
    select_text,
)

MAX_STUCK: Final = 200


def find_stuck_on_page(objects: PageObjects, now: float) -> tuple[Stuck, ...]:
    """Return what is stuck; `now` is the time of the API server in Unix seconds."""
    complete = {"Node"} if objects.nodes else set[str]()
    complete |= {"DeviceClass"} if objects.classes else set[str]()
    if objects.pods_known is Extent.CLUSTER:
        complete.add("Pod")
    if objects.slices_known is Extent.CLUSTER:
        complete.add("ResourceSlice")
    return find_stuck(
        HangingObjects(
            now,
            claims=decode_each(objects.claims, HangingClaim),
            pods=decode_each(objects.pods, HangingPod),
            slices=objects.slices,
            nodes=decode_each(objects.registered, HangingNode),
            classes={each.metadata.name: select_text(each) for each in objects.classes},
            namespaces=decode_each(objects.leaving, HangingNamespace),
            complete=frozenset(complete),
        )
    )
