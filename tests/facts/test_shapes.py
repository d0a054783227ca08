"""When the devices of a node share a place."""

from drawbridge.facts.model import Neighbourhood, NodeShape
from tests.tables import every_row

TOGETHER, APART = Neighbourhood(1, 1), (Neighbourhood(2, 0), Neighbourhood(0, 2))


@every_row("rows", ["pcie", "numa", "derived"])
def test_devices_relate_by_a_place_that_has_both_kinds(rows: str) -> None:
    def relates(*places: Neighbourhood) -> bool:
        shape = NodeShape("gpu.example.com", "nic.example.com", **{rows: places})  # type: ignore[arg-type]
        return bool(getattr(shape, f"{rows}_relates"))

    assert not relates()
    assert not relates(*APART)
    assert relates(*APART, TOGETHER)
