"""What claims ask of devices, whatever amounts tenants and drivers write."""

from drawbridge.audit.demand import count_devices, find_sizes
from drawbridge.facts.model import Amount, Facts, Product
from tests.tables import every_row


@every_row(
    ("asked", "size", "share"),
    [
        ("20Gi", "80Gi", 0.25),
        ("1e400", "80Gi", 1.0),
        ("-1e400", "80Gi", 0.0),
        ("1e400", "1e400", 1.0),
        ("20Gi", "-1e400", 1.0),
    ],
)
def test_a_share_is_a_part_of_a_device(asked: str, size: str, share: float) -> None:
    facts = Facts(products=(Product("x", capacity={"memory": Amount(size)}, classes=("gpu",)),))
    wanted = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": asked}}}
    spec = {"devices": {"requests": [{"name": "r", "exactly": wanted}]}}
    assert count_devices([spec], find_sizes(facts)) == {"gpu": share}


def test_the_share_of_a_huge_device_divides_what_is_free() -> None:
    facts = Facts(products=(Product("x", capacity={"m": Amount("1e320")}, classes=("gpu",)),))
    wanted = {"deviceClassName": "gpu", "capacity": {"requests": {"m": "1"}}}
    spec = {"devices": {"requests": [{"name": "r", "exactly": wanted}]}}
    # A smaller float divides 128 free devices to what no int is.
    assert 128 / count_devices([spec], find_sizes(facts))["gpu"] < 1e30
