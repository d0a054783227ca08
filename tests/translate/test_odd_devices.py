"""No device makes a translated selector fail, because that would stop the pod on every node."""

import msgspec
import pytest

from drawbridge.cel.dra import Selectors
from drawbridge.dra.decode import QuantityDecoder
from drawbridge.dra.device import Device
from drawbridge.dra.gates import VERSIONS
from tests.translate import odd_devices

DRIVER = "any.example.com"  # selectors name their domain


@pytest.mark.parametrize("version", VERSIONS)
def test_selectors_hold_on_devices_that_lack_attributes_or_have_other_types(version: str) -> None:
    selectors, tried = Selectors(version), 0
    for expression in odd_devices.expressions():
        assert selectors.check_admission(expression) == (True, None), expression
        for plain in odd_devices.devices(expression, lists=selectors.lists):
            device = msgspec.convert({"name": "d", **plain}, Device, dec_hook=QuantityDecoder())
            answer = selectors.evaluate(expression, DRIVER, device)
            assert answer.result in (True, False), (expression, plain, answer.error)
            tried += 1
    assert tried > 150
