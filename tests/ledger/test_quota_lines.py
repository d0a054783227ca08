"""What is said of a quota that is lower than its use: what becomes of new pods."""

from collections.abc import Mapping

import pytest

from drawbridge.config.model import Placement
from drawbridge.dra.device_quotas import QuotaKey
from drawbridge.dra.quantity import Quantity
from drawbridge.ledger.quota_lines import report_exceeded
from drawbridge.ledger.quota_use import QuotaLine

NATIVE, BRIDGE = Placement.NATIVE, Placement.BRIDGE
BOTH = {"": NATIVE, "ml": BRIDGE, "web": NATIVE}


@pytest.mark.parametrize(
    ("namespace", "placements", "expected"),
    [
        ("ml", {"": BRIDGE}, "namespace ml uses 4 of 2, and new ones wait"),
        ("ml", {"": NATIVE}, "namespace ml uses 4 of 2, and native placement gives new ones"),
        ("ml", BOTH, "namespace ml uses 4 of 2, and new ones wait"),
        ("web", BOTH, "namespace web uses 4 of 2, and native placement gives new ones"),
        ("", {"": BRIDGE, "ml": BRIDGE}, "the selected namespaces use 4 of 2, and new ones wait"),
        ("", {"": NATIVE}, "the selected namespaces use 4 of 2, and native placement gives new"),
        ("", BOTH, "the selected namespaces use 4 of 2, and new ones with bridge placement wait"),
    ],
)
def test_new_pods_wait_only_with_bridge_placement(
    namespace: str, placements: Mapping[str, Placement], expected: str
) -> None:
    line = QuotaLine("q", namespace, QuotaKey("gpu", "devices"), Quantity.of(2), Quantity.of(4))
    message = report_exceeded(line, placements).message
    text = message.replace(" devices of class gpu: running pods stay", "", 1)
    assert text.startswith(f"quota q: {expected}")
