"""The placement of a namespace: what its label says, within what is configured."""

from drawbridge.config.model import (
    Bridge,
    Configuration,
    LabelSelector,
    OwnedPool,
    Placement,
)
from drawbridge.config.placement import decide_placement, decide_placements, owned_pools
from drawbridge.config.string_formats import DriverName, LabelKey, LabelValue
from drawbridge.names import PLACEMENT_LABEL
from tests.tables import every_row

BRIDGE, NATIVE = Placement.BRIDGE, Placement.NATIVE
POOL = OwnedPool(DriverName("gpu.example.com"), LabelSelector())
TEAM = LabelSelector(match_labels={LabelKey("team"): LabelValue("a")})


def configured(placement: Placement, selector: LabelSelector | None) -> Configuration:
    return Configuration(placement=placement, bridge=Bridge(selector), owned_pools=(POOL,))


@every_row(
    ("placement", "selector", "labels", "expected"),
    [
        (BRIDGE, None, {}, BRIDGE),
        (BRIDGE, None, {PLACEMENT_LABEL: "native"}, NATIVE),
        (BRIDGE, TEAM, {}, NATIVE),
        (BRIDGE, TEAM, {"team": "a"}, BRIDGE),
        (BRIDGE, TEAM, {"team": "a", PLACEMENT_LABEL: "native"}, NATIVE),
        (BRIDGE, TEAM, {PLACEMENT_LABEL: "bridge"}, BRIDGE),
        (BRIDGE, TEAM, {"team": "a", PLACEMENT_LABEL: "brigde"}, BRIDGE),
        (BRIDGE, LabelSelector(), {}, BRIDGE),
        (NATIVE, None, {PLACEMENT_LABEL: "bridge"}, NATIVE),
        (NATIVE, LabelSelector(), {"team": "a"}, NATIVE),
    ],
)
def test_a_valid_label_decides_within_bridge_placement(
    placement: Placement,
    selector: LabelSelector | None,
    labels: dict[str, str],
    expected: Placement,
) -> None:
    assert decide_placement(labels, configured(placement, selector)) is expected


def test_the_empty_name_stands_for_namespaces_whose_labels_are_not_known() -> None:
    decided = decide_placements({"x": {"team": "a"}}, configured(BRIDGE, TEAM))
    assert decided == {"": NATIVE, "x": BRIDGE}


def test_owned_pools_apply_only_with_bridge_placement() -> None:
    assert owned_pools(configured(BRIDGE, TEAM)) == (POOL,)
    assert owned_pools(configured(NATIVE, None)) == ()
