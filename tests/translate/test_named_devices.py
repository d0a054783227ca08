"""Tests of resource names of any device: what a pod with them becomes, from whole clusters."""

from pathlib import Path

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import KIND, Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.device import Attribute, Capacity, Device
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.quantity import parse
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.names import API_VERSION
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.facts import clusters
from tests.tables import YamlValue, every_row, load_cases

CASES = load_cases(Path(__file__).parent / "cases" / "named.yaml")
DRIVER = "fpga.example.com"
CONFIGURED = ("legacy", "targets", "decisions", "placement", "ownedPools")


def fpga(number: int) -> Device:
    return Device(
        f"fpga-{number}",
        {"serial": Attribute(f"s{number}"), "profile": Attribute("half")},
        {"memory": Capacity(parse("16Gi")), "luts": Capacity(parse("1M"))},
    )


def facts(case: YamlValue, configuration: Configuration) -> Facts:
    gates = gates_of_version(case.get("version", "1.37"), {})
    assert isinstance(gates, Gates)
    objects = FactsInput(
        tuple(
            clusters.slice_of(DRIVER, name, [fpga(number) for number in range(node["fpgas"])])
            for name, node in case["nodes"].items()
            if "fpgas" in node
        ),
        tuple(
            clusters.device_class(
                name, row.get("serves", ""), cel=f'device.driver == "{row.get("driver", DRIVER)}"'
            )
            for name, row in case["classes"].items()
        ),
        tuple(clusters.node(name, node.get("plugins", {})) for name, node in case["nodes"].items()),
    )
    return gather_facts(objects, configuration, gates).facts


def context(case: YamlValue) -> TranslationContext:
    parts = {key: case[key] for key in CONFIGURED if key in case}
    configuration = accept_configuration({"apiVersion": API_VERSION, "kind": KIND, **parts}, {})
    assert isinstance(configuration, Configuration), configuration
    return make_context(configuration, facts(case, configuration) if "nodes" in case else None)


def pod(case: YamlValue) -> YamlValue:
    container = {"name": "main", "resources": {"limits": case["limits"]}}
    return {
        "metadata": {"name": "p"},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": [container]},
    }


@every_row("case", CASES, ids=lambda case: case["name"])
def test_table(case: YamlValue) -> None:
    translated = translate(pod(case), context(case))
    claims = [template.object["spec"]["spec"]["devices"] for template in translated.templates]  # type: ignore[index,call-overload]
    assert claims == ([case["claim"]] if "claim" in case else []), translated.findings
    assert [each.code for each in translated.findings] == case.get("codes", []), translated.findings
    text = " ".join(each.message for each in translated.findings)
    assert [words for words in case.get("says", []) if words not in text] == []


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_second_translation_changes_nothing(case: YamlValue) -> None:
    by = context(case)
    once = apply_edits(pod(case), translate(pod(case), by).edits)
    assert translate(once, by).edits == ()
