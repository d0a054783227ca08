"""What the selectors of claims read: names that nobody publishes, and values that fail."""

from pathlib import Path

from drawbridge.dra.inventory import build_inventory
from drawbridge.dra.slices import Slice, read_slice
from drawbridge.judge.claims.selector_reads import check_selector_reads
from drawbridge.judge.context import JudgeCaches, JudgeContext, build_context
from drawbridge.solver.world import World
from tests.judge.contexts import SELECTORS, class_context, read_classes, subject_of
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "selector_reads.yaml")
DRIVER = "gpu.example.com"


def slice_of(driver: str, devices: YamlValue, count: int = 1) -> Slice:
    """A slice; a value in quotes is a capacity, all others are attributes."""
    listed = [
        {
            "name": name,
            "attributes": {key: one for key, one in short.items() if isinstance(one, dict)},
            "capacity": {key: {"value": one} for key, one in short.items() if isinstance(one, str)},
        }
        for name, short in devices.items()
    ]
    read = read_slice(
        {
            "metadata": {"name": driver},
            "spec": {
                "driver": driver,
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": count},
                "nodeName": "n",
                "devices": listed,
            },
        }
    )
    assert isinstance(read, Slice), read
    return read


def context_of(case: YamlValue) -> JudgeContext:
    slices = [slice_of(DRIVER, case["devices"], case.get("slices", 1))]
    slices += [slice_of("other.example.com", case["others"])] if "others" in case else []
    classes = read_classes({"gpu": case.get("class", f'device.driver == "{DRIVER}"')})
    return build_context(World(build_inventory(slices), classes), caches=JudgeCaches(SELECTORS))


def request(selectors: YamlValue) -> YamlValue:
    listed = [{"cel": {"expression": text}} for text in selectors]
    return {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": listed}}


@every_row("case", CASES, ids=lambda case: case["name"])
def test_selectors_of_a_claim(case: YamlValue) -> None:
    context = context_of(case)
    subject = subject_of([request(case["selectors"])])
    for _ in range(2):  # the second answer comes from the cache of the index
        findings = tuple(check_selector_reads(subject, context))
        assert [[each.code, each.message] for each in findings] == case["found"]
    assert all(each.object == "ResourceClaim/ns/c" for each in findings)
    if "remedy" in case:
        assert findings[0].remedy == case["remedy"]


def test_path_is_that_of_the_selector_or_of_the_class() -> None:
    case = {"devices": {"a": {"x": {"int": 1}}, "b": {}}, "selectors": []}
    bad = f'device.attributes["{DRIVER}"].x == 1'
    alternatives = [
        {"name": "one", "deviceClassName": "gpu"},
        {
            "name": "two",
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": "true"}}, {"cel": {"expression": bad}}],
        },
    ]
    subject = subject_of([{"name": "r", "firstAvailable": alternatives}])
    (finding,) = check_selector_reads(subject, context_of(case))
    place = "spec.devices.requests[0].firstAvailable[1].selectors[1].cel.expression"
    assert finding.path == place
    (finding,) = check_selector_reads(subject_of([request([])]), context_of(case | {"class": bad}))
    assert finding.path == "spec.devices.requests[0].exactly.deviceClassName"


def test_nothing_is_reported_where_no_slice_is_published() -> None:
    subject = subject_of([request(['device.attributes["d.io"].x == 1'])])
    assert not tuple(check_selector_reads(subject, class_context({"gpu": "true"})))
