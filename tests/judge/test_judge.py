"""Tests of the judge: case tables for slices and classes, and properties for any input."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.cel.dra import Selectors
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.compatibility import Declaration, UnsetGroups
from drawbridge.dra.gates import NEWEST
from drawbridge.dra.slices import Slice, read_slice, slice_reader
from drawbridge.dra.taints import DeviceTaintRule, taint_rule_reader
from drawbridge.finding import Finding
from drawbridge.judge.slices import checks as slices
from drawbridge.judge.slices import classes, codes
from drawbridge.judge.slices.taint_rules import judge_taint_rules
from drawbridge.judge.slices.validation import check_api_limits
from tests.tables import YamlValue, every_row, load_cases

TABLES = Path(__file__).parent / "cases"
LIMITS = load_cases(TABLES / "limits.yaml")
SLICES = load_cases(TABLES / "slices.yaml")
CLASSES = load_cases(TABLES / "classes.yaml")
TAINT_RULES = load_cases(TABLES / "taint_rules.yaml")
EXCLUSIONS = load_cases(TABLES / "exclusions.yaml")
EXPRESSIONS = load_cases(TABLES / "expressions.yaml")
# What expressions are tried on where a case brings no devices of its own.
DEVICES_SEEN: YamlValue = {
    "gpu-0": {"attributes": {"model": {"string": "a100"}, "index": {"int": 0}}},
    "gpu-1": {
        "attributes": {"model": {"string": "h100"}},
        "capacity": {"memory": {"value": "80Gi"}},
    },
}


def sliced(spec: YamlValue, name: str = "s", annotations: YamlValue = None) -> Slice:
    read = read_slice(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name, "annotations": annotations},
            "spec": spec,
        }
    )
    assert isinstance(read, Slice), read
    return read


DRIVERS = ("d.io", "e.io")
GOOD = {
    "driver": "d.io",
    "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
    "nodeName": "n1",
}


@every_row("case", LIMITS, ids=lambda case: case["name"])
def test_api_limits_of_a_slice(case: YamlValue) -> None:
    inside = ""
    spec = GOOD | case.get("spec", {})
    if "device" in case:
        inside = "spec.devices[0]"
        spec["devices"] = [{"name": "d"} | case["device"]]
    findings = check_api_limits(sliced(spec))
    expected = [(code, ".".join(filter(None, (inside, path)))) for code, path in case["refused"]]
    assert [(each.code, each.path) for each in findings] == expected
    assert all(each.object == "ResourceSlice/s" for each in findings)


def counters(amounts: YamlValue) -> YamlValue:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def device(short: YamlValue) -> YamlValue:
    groups, draws = short.get("groups", []), short.get("draws", {})
    uses = [
        {"counterSet": name, "counters": counters(amounts), "compatibilityGroups": groups}
        for name, amounts in draws.items()
    ]
    rest = {key: value for key, value in short.items() if key not in ("groups", "draws")}
    return rest | {"consumesCounters": uses}


def short_slice(short: YamlValue, count: int) -> Slice:
    short = dict(short)
    name, annotations = short.pop("name"), short.pop("annotations", None)
    sets = [{"name": key, "counters": counters(of)} for key, of in short.pop("sets", {}).items()]
    spec = {
        "driver": short.pop("driver", "d.io"),
        "pool": {
            "name": short.pop("pool", "p"),
            "generation": short.pop("generation", 1),
            "resourceSliceCount": short.pop("count", count),
        },
        "allNodes": True,
        "devices": [device(each) for each in short.pop("devices", [])],
        "sharedCounters": sets,
    }
    return sliced(spec | short, name, annotations)


@every_row("case", SLICES, ids=lambda case: case["name"])
def test_checks_across_slices(case: YamlValue) -> None:
    read = [short_slice(each, len(case["slices"])) for each in case["slices"]]
    unset = UnsetGroups(case.get("unset", "alone"))
    findings = slices.judge_slices(read, unset, nodes=case.get("nodes", ()))
    expected = [(code, f"ResourceSlice/{name}", path) for code, name, path in case["found"]]
    assert [(each.code, each.object, each.path) for each in findings] == expected
    assert {each.severity.value for each in findings if "severity" in case} <= {
        case.get("severity")
    }
    told = " ".join(each.message for each in findings)
    assert [words for words in case.get("says", []) if words not in told] == []


@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case["name"])
def test_checks_across_classes(case: YamlValue) -> None:
    read = []
    for device_class in case["classes"]:
        spec = {key: value for key, value in device_class.items() if key != "name"}
        decoded = read_class({"metadata": {"name": device_class["name"]}, "spec": spec})
        assert isinstance(decoded, DeviceClass)
        read.append(decoded)
    findings = classes.judge_classes(read)
    expected = [(code, f"DeviceClass/{name}", path) for code, name, path in case["found"]]
    assert [(each.code, each.object, each.path) for each in findings] == expected


@every_row("case", TAINT_RULES, ids=lambda case: case["name"])
def test_whom_taint_rules_select(case: YamlValue) -> None:
    raw = [
        {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": rule["name"], "annotations": rule.get("annotations", {})},
            "spec": {key: rule[key] for key in ("taint", "deviceSelector") if key in rule},
        }
        for rule in case["rules"]
    ]
    reader = taint_rule_reader()
    read = [rule for each in raw if isinstance(rule := reader.read(each), DeviceTaintRule)]
    assert len(read) == len(raw)
    findings = [*judge_taint_rules(read)]
    expected = [(code, f"DeviceTaintRule/{name}", path) for code, name, path in case["found"]]
    assert [(each.code, each.object, each.path) for each in findings] == expected
    told = " ".join(each.message for each in findings)
    assert [words for words in case.get("says", []) if words not in told] == []


SELECTORS = Selectors(NEWEST)
PAIRS = {"CompatibilityAsymmetric", "CompatibilitySelf", "CompatibilityError"}


def only_with(only: str | list[str]) -> str:
    if only == "error":
        return 'device.attributes["d.io"].missing == 1'
    modes = ", ".join(f'"{mode}"' for mode in only)
    return f'device.attributes["d.io"].mode in [{modes}]' if modes else "false"


@every_row("case", EXCLUSIONS, ids=lambda case: case["name"])
def test_rules_between_devices(case: YamlValue) -> None:
    read = []
    for i, device in enumerate(case["devices"]):
        published = {
            "name": device["name"],
            "attributes": {"mode": {"string": device["name"].split("-")[0]}},
            "allowMultipleAllocations": device.get("shared", False),
        }
        if device.get("only") is not None:
            published["compatibleOnlyWith"] = {"expression": only_with(device["only"])}
        short = {"name": f"s{i}", "allNodes": None, "nodeName": device.get("node", "n1")}
        read.append(short_slice(short | {"devices": [published]}, len(case["devices"])))
    pairs = [each for each in slices.judge_slices(read, selectors=SELECTORS) if each.code in PAIRS]
    named = [(each.code, read[int(each.object[-1])].devices[0].name) for each in pairs]
    assert named == [tuple(each) for each in case["found"]]
    assert all(each.path == "spec.devices[0]" for each in pairs)


def test_configured_rules_are_checked_like_those_of_devices() -> None:
    devices = [
        {"name": f"{mode}-1", "attributes": {"mode": {"string": mode}}} for mode in ("mig", "mps")
    ]
    read = [short_slice({"name": "a", "devices": devices}, 1)]
    mig = only_with(["mig"])
    said = [Declaration(driver="d.io", selector=mig, compatible_only_with=mig)]
    assert slices.judge_slices(read, declarations=said) == ()
    findings = slices.judge_slices(read, declarations=said, selectors=SELECTORS)
    assert [(each.code, each.path) for each in findings] == [
        ("CompatibilityAsymmetric", "spec.devices[0]")
    ]


def of_class(selectors: YamlValue, config: YamlValue) -> DeviceClass:
    listed = [{"cel": {"expression": each}} for each in selectors]
    spec = {"selectors": listed, "config": config}
    device_class = read_class({"metadata": {"name": "c"}, "spec": spec})
    assert isinstance(device_class, DeviceClass)
    return device_class


@every_row("case", EXPRESSIONS, ids=lambda case: case["name"])
def test_expressions_on_devices(case: YamlValue) -> None:
    devices = [{"name": name, **rest} for name, rest in case.get("devices", DEVICES_SEEN).items()]
    read = [short_slice({"name": "a", "devices": devices}, 1)] if devices else []
    if "selectors" in case:
        device_class = of_class(case["selectors"], case.get("config", []))
        findings = classes.judge_classes([device_class], read, SELECTORS)
    else:
        said = [Declaration(driver="d.io", compatible_only_with=case["going"])]
        findings = slices.judge_slices(read, declarations=said, selectors=SELECTORS)
        findings = tuple(each for each in findings if each.code not in PAIRS)
    assert [(each.code, each.path) for each in findings] == [tuple(each) for each in case["found"]]
    for finding, part in zip(findings, case.get("says", []), strict=False):
        assert part in finding.message


def test_a_rule_is_checked_for_each_driver_that_declares_it() -> None:
    read = [
        short_slice({"name": each, "driver": each, "devices": [{"name": "x"}]}, 1)
        for each in DRIVERS
    ]
    said = [
        Declaration(each, compatible_only_with=f'device.driver == "{DRIVERS[0]}"')
        for each in DRIVERS
    ]
    findings = slices.judge_slices(read, declarations=said, selectors=SELECTORS)
    never = [each.path for each in findings if each.code == "CompatibilityNever"]
    assert never == ["compatibility[1].compatibleOnlyWith"]


def test_every_code_of_the_judge_has_a_case() -> None:
    tables = (LIMITS, SLICES, CLASSES, TAINT_RULES, EXCLUSIONS, EXPRESSIONS)
    shown = {
        row[0]
        for table in tables
        for case in table
        for row in case.get("found", case.get("refused", []))
    }
    assert set(codes.CODES) - shown == {"NothingToJudge", "MoreAlike"}


def test_equal_findings_of_an_object_are_limited() -> None:
    devices = [{"name": f"x{i}", "draws": {"s": {"c": 1}}} for i in range(64)]
    findings = slices.judge_slices([short_slice({"name": "a", "devices": devices}, 1)])
    assert [each.code for each in findings] == ["CounterUnknown"] * 10 + ["MoreAlike"]
    assert findings[-1].message.startswith("54 more findings of CounterUnknown")
    assert findings[-1].object == "ResourceSlice/a"


def test_the_findings_do_not_depend_on_the_order_of_slices() -> None:
    read = [
        short_slice({"name": name, "count": 4, "devices": [{"name": "x"}]}, 4) for name in "abc"
    ]
    assert slices.judge_slices(read) == slices.judge_slices(read[::-1]) != ()


NAMES = st.sampled_from(["a", "b", "d.io/a", "x/y/z", ""])
QUANTITIES = st.sampled_from(["1", "-1", "0", "1Gi", "9E", "100m"])
COUNTERS = st.dictionaries(NAMES, st.fixed_dictionaries({"value": QUANTITIES}), max_size=3)
ATTRIBUTES = st.dictionaries(
    NAMES,
    st.fixed_dictionaries(
        {}, optional={"int": st.integers(-2, 2), "string": NAMES, "strings": st.lists(NAMES)}
    ),
    max_size=3,
)
USES = st.lists(
    st.fixed_dictionaries(
        {"counterSet": NAMES, "counters": COUNTERS},
        optional={"compatibilityGroups": st.lists(NAMES, max_size=3)},
    ),
    max_size=3,
)
DEVICES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "attributes": ATTRIBUTES,
            "consumesCounters": USES,
            "capacity": COUNTERS,
            "nodeName": NAMES,
            "bindingConditions": st.lists(NAMES),
        },
    ),
    max_size=4,
)
SPECS = st.fixed_dictionaries(
    {
        "driver": NAMES,
        "pool": st.fixed_dictionaries(
            {
                "name": NAMES,
                "generation": st.integers(-1, 2),
                "resourceSliceCount": st.integers(-1, 3),
            }
        ),
        "devices": DEVICES,
    },
    optional={
        "sharedCounters": st.lists(
            st.fixed_dictionaries({"name": NAMES, "counters": COUNTERS}), max_size=3
        ),
        "partitionTypeAttribute": NAMES,
        "skipNodeOperations": st.lists(NAMES),
    },
)


@given(
    specs=st.lists(st.tuples(NAMES, SPECS), max_size=4),
    unset=st.sampled_from(UnsetGroups),
    version=st.sampled_from(["v1", "v1beta1"]),
)
def test_any_slices_can_be_judged(specs: YamlValue, unset: UnsetGroups, version: str) -> None:
    items = [{"metadata": {"name": name}, "spec": spec} for name, spec in specs]
    reader = slice_reader()
    read = [reader.read(each, version=f"resource.k8s.io/{version}") for each in items]
    for slice_ in slices.judge_slices([s for s in read if isinstance(s, Slice)], unset):
        assert isinstance(slice_, Finding)
        assert slice_.message
        assert slice_.remedy
