"""Objects around workloads that name legacy devices: each is seen, and its finding says where."""

from pathlib import Path

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.translate.context import make_context
from drawbridge.translate.manifests.objects import translate_object
from tests.tables import YamlValue, every_row, load_cases, read_yaml

CASES = load_cases(Path(__file__).parent / "cases" / "elsewhere.yaml")


@every_row("case", CASES, ids=lambda case: case["name"])
def test_an_object_that_names_legacy_devices_is_reported(case: YamlValue) -> None:
    value = read_yaml(case["object"])
    target = {"kind": "gpu", "driver": "x.example.com", "class": "x.example.com"}
    targets = [{**target, "resources": case["configured"]}] if "configured" in case else []
    kind = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    configuration = accept_configuration(
        {**kind, "targets": targets, "legacy": case.get("legacy", {})}, {}
    )
    assert isinstance(configuration, Configuration), configuration
    findings = translate_object(value, "object", make_context(configuration)).findings
    assert [f"{each.code} {each.path}" for each in findings if each.severity != "info"] == case[
        "found"
    ]
