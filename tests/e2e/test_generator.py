"""Generated scenarios: the same for ever, hostile in all the ways that are promised."""

import hashlib
import json

from e2e.generator import scenario
from e2e.generator.draw import Draw


def test_a_seed_means_the_same_scenario_for_ever() -> None:
    text = json.dumps([scenario(seed) for seed in range(200)], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "09d16e85bf827d23"


def test_draws_keep_to_their_bounds_and_shares() -> None:
    draw = Draw(1)
    numbers = [draw.number(2, 4) for _ in range(300)]
    assert set(numbers) == {2, 3, 4}
    words = [draw.weighted({"a": 0.9, "b": 0.1}) for _ in range(1000)]
    assert 850 < words.count("a") < 950


def test_every_feature_occurs() -> None:
    text = "".join(json.dumps(scenario(seed)) for seed in range(400))
    for field in (
        "adminAccess", "allNodes", "allowMultipleAllocations", "bindingConditions", "bindsToNode",
        "compatibilityGroups", "consumedCapacity", "consumesCounters", "derivedAttributes",
        "deviceSelector", "distinctAttribute", "firstAvailable", "matchAttribute", "nodeName",
        "nodeSelector", "perDeviceNodeSelection", "requestPolicy", "shareID", "sharedCounters",
        "skipNodeOperations", "strings", "taints", "tolerations", "validRange", "validValues",
    ):  # fmt: skip  # a list of names
        assert f'"{field}"' in text
    assert '"allocationMode": "All"' in text


def test_no_device_publishes_a_name_twice() -> None:
    for seed in range(400):
        for entry in scenario(seed)["slices"]:  # type: ignore[attr-defined]  # a list of slices
            for device in entry["spec"].get("devices", ()):
                short = {
                    name.removeprefix(f"{entry['spec']['driver']}/")
                    for name in device["attributes"]
                }
                assert len(short) == len(device["attributes"])
