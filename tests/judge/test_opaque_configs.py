"""Configurations of known drivers: which are decoded, refused, or applied to other devices."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.finding import Severity
from drawbridge.judge.claims.opaque_configs import check_class_configs, check_opaque_configs
from drawbridge.judge.driver_configs import DRIVERS
from tests.judge.contexts import class_context, findings, subject_of
from tests.tables import YamlValue, every_row, load_cases

TABLES = Path(__file__).parent / "cases"
CONFIGS = load_cases(TABLES / "driver_configs.yaml")
KINDS = load_cases(TABLES / "config_kinds.yaml")
NVIDIA = "gpu.nvidia.com"


def request(class_name: str, **fields: YamlValue) -> YamlValue:
    return {"deviceClassName": class_name} | fields


def config(driver: str, parameters: YamlValue, requests: YamlValue = ()) -> YamlValue:
    return {"requests": requests, "opaque": {"driver": driver, "parameters": parameters}}


def full_path(path: str) -> str:
    inside = path.removeprefix("/") if path.startswith("/") else f"opaque.parameters.{path}"
    return f"config[0].{inside}"


@every_row("case", CONFIGS, ids=lambda case: case["name"])
def test_configuration_in_a_claim(case: YamlValue) -> None:
    requests = [{"name": "gpu", "exactly": request(case.get("class", NVIDIA))}]
    subject = subject_of(requests, configs=[config(case["driver"], case["parameters"])])
    reported = findings(check_opaque_configs(subject, class_context({})))
    expected = [(code, f"spec.devices.{full_path(path)}") for code, path in case["found"]]
    assert [(each.code, each.path) for each in reported] == expected
    assert all(each.object == "ResourceClaim/ns/c" for each in reported)
    if "says" in case:
        assert reported[0].message == case["says"]


@every_row("case", CONFIGS, ids=lambda case: case["name"])
def test_configuration_in_a_class(case: YamlValue) -> None:
    spec = {"config": [{"opaque": {"driver": case["driver"], "parameters": case["parameters"]}}]}
    device_class = read_class({"metadata": {"name": "a"}, "spec": spec})
    assert isinstance(device_class, DeviceClass)
    findings = tuple(check_class_configs(device_class))
    expected = [(code, f"spec.{full_path(path)}") for code, path in case["found"]]
    assert [(one.code, one.path) for one in findings] == expected
    assert all(one.object == "DeviceClass/a" for one in findings)


@every_row("case", KINDS, ids=lambda case: case["name"])
def test_configuration_for_the_devices_of_a_request(case: YamlValue) -> None:
    extra = {"selectors": [{"cel": {"expression": text}} for text in case.get("selectors", ())]}
    if "admin" in case:
        extra["adminAccess"] = case["admin"]
    requests = [
        {"name": name, "exactly": request(class_name, **extra)}
        for name, class_name in case["requests"].items()
    ]
    configs = []
    for described in case["configs"]:
        parameters = {
            "apiVersion": described.get("version", "resource.nvidia.com/v1beta1"),
            "kind": described["kind"],
        }
        if "sharing" in described:
            parameters["sharing"] = described["sharing"]
        configs.append(
            config(described.get("driver", NVIDIA), parameters, described.get("for", ()))
        )
    context = class_context(case.get("classes", {}))
    reported = findings(check_opaque_configs(subject_of(requests, configs=configs), context))
    expected = [(code, f"spec.devices.{path}") for code, path in case["found"]]
    assert [(each.code, each.path) for each in reported] == expected
    if "says" in case:
        assert reported[0].message == case["says"]


def test_configuration_that_names_an_alternative() -> None:
    alternatives = [
        {"name": "whole", "deviceClassName": NVIDIA},
        {"name": "part", "deviceClassName": "mig.nvidia.com"},
    ]
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "MigDeviceConfig"}
    requests = [{"name": "gpu", "firstAvailable": alternatives}]
    expected = {
        "gpu/part": [],
        "gpu/whole": ["ConfigKindWrong"],
        "gpu": ["ConfigOnMainRequest"],  # the driver compares whole names
    }
    for name, codes in expected.items():
        subject = subject_of(requests, configs=[config(NVIDIA, parameters, [name])])
        reported = findings(check_opaque_configs(subject, class_context({})))
        assert [each.code for each in reported] == codes


def test_documented_configurations_have_no_errors_and_the_others_have() -> None:
    # The table must have both sides of the rules of each driver.
    accepted, refused = set(), set()
    for case in CONFIGS:
        requests = [{"name": "gpu", "exactly": request(case.get("class", NVIDIA))}]
        subject = subject_of(requests, configs=[config(case["driver"], case["parameters"])])
        reported = findings(check_opaque_configs(subject, class_context({})))
        errors = any(each.severity is Severity.ERROR for each in reported)
        (refused if errors else accepted).add(case["driver"])
    described = set(DRIVERS) - {"hami-core-gpu.project-hami.io"}  # has the table of NVIDIA
    assert described <= accepted
    assert described <= refused


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
FIELDS = st.sampled_from(
    ["sharing", "strategy", "mpsConfig", "interface", "routes", "vf", "iommu", "rules", "vlan"]
)
INNER = st.dictionaries(FIELDS | st.text(max_size=3), SCALARS, max_size=3)


@given(
    st.sampled_from(sorted(DRIVERS)),
    st.dictionaries(FIELDS, SCALARS | INNER | st.lists(INNER, max_size=2), max_size=4),
    st.sampled_from([{}, {"typed": True}]),
)
def test_any_parameters_have_findings_and_no_exception(
    driver: str, parameters: dict[str, YamlValue], kind: YamlValue
) -> None:
    described = DRIVERS[driver]
    if kind and described.api_versions:
        parameters |= {"apiVersion": described.api_versions[0], "kind": described.kinds[0].name}
    requests = [{"name": "gpu", "exactly": request(NVIDIA)}]
    subject = subject_of(requests, configs=[config(driver, parameters)])
    for finding in findings(check_opaque_configs(subject, class_context({}))):
        assert finding.path.startswith("spec.devices.config[0]")
        assert finding.message
