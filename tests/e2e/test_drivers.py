"""Tests of what the suite of real drivers builds."""

import re

from e2e.drivers.build import HERE, PINS
from tests.tables import every_row


@every_row("pin", PINS)
def test_go_sum_of_a_pin_covers_what_is_built(pin: str) -> None:
    named = re.findall(r'_ "(.+)"', (HERE / pin / "tools.go").read_text(encoding="utf-8"))
    # A folder of the pin's own module is covered without being named.
    own = {one for one in PINS[pin].values() if one.startswith("./")}
    assert sorted(named) == sorted(set(PINS[pin].values()) - own)


def test_every_pinned_module_is_built() -> None:
    assert {path.parent.name for path in HERE.glob("*/go.mod")} == set(PINS)
