"""When the fleet of a class is closed."""

from drawbridge.config.model import Fleet
from drawbridge.config.string_formats import ObjectName
from drawbridge.facts.fleet import PublishedClass, fleet_verdicts
from tests.tables import every_row

GPU = ObjectName("gpu")
PUBLISHED = PublishedClass(8)
SCALES = "node a has label karpenter.sh/nodepool, so an autoscaler can add nodes"


@every_row(
    ("setting", "published", "autoscaler", "closed"),
    [
        (None, PUBLISHED, "", True),
        (None, PUBLISHED, SCALES, False),
        (None, PublishedClass(), "", False),
        (None, PublishedClass(8, "pool p has 1 of 2 slices"), "", False),
        (Fleet(class_=GPU), PUBLISHED, "", True),
        (Fleet(class_=GPU, closed=True), PUBLISHED, SCALES, True),
        (Fleet(class_=GPU, closed=True), PublishedClass(), "", True),
        (Fleet(class_=GPU, closed=True), PublishedClass(8, "pool p is incomplete"), "", False),
        (Fleet(class_=GPU, closed=False), PUBLISHED, "", False),
        (None, PublishedClass(8, left_to_plugin="node a has a device plugin"), "", False),
        (
            Fleet(class_=GPU, closed=True),
            PublishedClass(8, left_to_plugin="node a has a device plugin"),
            "",
            True,
        ),
    ],
)
def test_a_class_is_closed_if_nothing_can_bring_other_devices(
    setting: Fleet | None, published: PublishedClass, autoscaler: str, *, closed: bool
) -> None:
    verdict = fleet_verdicts([setting] if setting else [], {"gpu": published}, autoscaler)["gpu"]
    assert verdict.closed is closed
    assert bool(verdict.reason) is not closed


def test_the_first_entry_of_a_class_applies() -> None:
    fleet = [Fleet(class_=GPU, closed=False), Fleet(class_=GPU, closed=True)]
    assert not fleet_verdicts(fleet, {"gpu": PUBLISHED})["gpu"].closed
