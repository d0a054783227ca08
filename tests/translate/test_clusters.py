"""What is left and what is translated, from whole clusters: nodes with plugins, slices and classes.

A case has `nodes`: for each node the names that a plugin advertises (`plugins`), its `slices` as
`driver mode`, its `shape`, whether HAMi registers it, and whether it has the label of a `dual`
node; `classes` with the names that they map; a `version` and `gates` that differ from its defaults;
`open` lists the classes whose fleets are not closed. A pod has a list of `limits`, one for each
container. `claims` are the classes of its requests, `codes` the findings.
"""

from pathlib import Path

from drawbridge.config.model import Configuration, Fleet
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.dra.nodes import Node
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Facts
from drawbridge.finding import Severity
from drawbridge.names import DUAL_LABEL
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from e2e.nodes.family import CLASSES
from tests.facts import clusters
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds

CASES = load_cases(Path(__file__).parent / "cases" / "clusters.yaml")
SHAPE = "dgx-a100"


def gates(case: YamlValue) -> Gates:
    gates = gates_of_version(case.get("version", "1.36"), case.get("gates", {}))
    assert isinstance(gates, Gates)
    return gates


def node(name: str, described: YamlValue) -> Node:
    annotations = {"hami.io/node-nvidia-register": "[]"} if described.get("hami") else {}
    labels = {DUAL_LABEL: "true"} if described.get("dual") else {}
    return clusters.node(name, described.get("plugins", {}), labels, annotations=annotations)


def facts(case: YamlValue) -> Facts:
    slices = tuple(
        slice_
        for name, described in case["nodes"].items()
        for word in described.get("slices", [])
        for slice_ in worlds.slices_of_node(name, described.get("shape", SHAPE), *word.split())
    )
    classes = tuple(
        clusters.device_class(name, row.get("name", ""), row.get("created", ""), CLASSES[name])
        for name, row in case["classes"].items()
    )
    nodes = tuple(node(name, described) for name, described in case["nodes"].items())
    open_ = tuple(Fleet(class_=name, closed=False) for name in case.get("open", []))
    objects = FactsInput(slices, classes, nodes)
    return gather_facts(objects, Configuration(fleet=open_), gates(case)).facts


def pod(case: YamlValue) -> YamlValue:
    containers = [
        {"name": f"c{number}", "resources": {"limits": limits}}
        for number, limits in enumerate(case["limits"])
    ]
    return {
        "metadata": {key: case.get(key, {}) for key in ("annotations", "labels")},
        "spec": {"tolerations": [{"operator": "Exists"}], "containers": containers},
    }


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_second_translation_changes_nothing(case: YamlValue) -> None:
    context = make_context(Configuration(), facts(case))
    once = apply_edits(pod(case), translate(pod(case), context).edits)
    assert translate(once, context).edits == ()


@every_row("case", CASES, ids=lambda case: case["name"])
def test_a_pod_is_left_only_to_what_serves_it(case: YamlValue) -> None:
    translated = translate(pod(case), make_context(Configuration(), facts(case)))
    requests: list[YamlValue] = [
        request
        for template in translated.templates
        for request in template.object["spec"]["spec"]["devices"]["requests"]  # type: ignore[index,call-overload]
    ]
    claimed = [
        (request.get("exactly") or request["firstAvailable"][0])["deviceClassName"]
        for request in requests
    ]
    assert claimed == case.get("claims", []), translated.findings
    assert [each.code for each in translated.findings] == case.get("codes", [])
    refused = any(each.severity is Severity.ERROR for each in translated.findings)
    assert refused == case.get("refused", False)
    text = " ".join(each.message for each in translated.findings)
    assert [words for words in case.get("says", []) if words not in text] == []
