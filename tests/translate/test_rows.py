"""Every row of the decisions' table, from the pod to the claims and the findings.

A case has `limits` (of one container), `annotations` and `spec` beside, a `world` of machines as
`shape driver mode`, `plugins` that serve names on a node, `keeps`: the fields that the API server
does not drop (all, if it is not said), and `networks`. With `targets`, the configuration declares
drivers, and without `world`, the cluster is not known. `claims` are lists of lines: a request as
`name: class x count`, `if` its selectors and `of` its amounts, alternatives under `or`; then what
holds between requests. Without `claims` the pod stays as it is: refused, if a finding is an error.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration, Decisions, Legacy
from drawbridge.config.string_formats import NetworkName, ResourceName
from drawbridge.facts.model import Facts, ResourceFacts
from drawbridge.finding import Severity
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.decisions.rows import ROWS
from drawbridge.translate.legacy.asks import Kind
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row, load_cases
from tests.translate import worlds

CASES = load_cases(Path(__file__).parent / "cases" / "rows.yaml")


def name(case: YamlValue) -> str:
    return f"{case['row']}: {case['name']}" if "name" in case else case["row"]


def pod(case: YamlValue) -> YamlValue:
    container = {"name": "main", "resources": {"limits": case["limits"]}}
    spec = {"tolerations": [{"operator": "Exists"}], "containers": [container]}
    return {
        "metadata": {"annotations": case.get("annotations", {})},
        "spec": spec | case.get("spec", {}),
    }


def configuration(case: YamlValue) -> Configuration:
    networks = case.get("networks", {})
    legacy = Legacy(networks={NetworkName(k): ResourceName(v) for k, v in networks.items()})
    header = {"apiVersion": "drawbridge.dev/v1alpha1", "kind": "Configuration"}
    declared = accept_configuration({**header, "targets": case.get("targets", [])}, {})
    assert isinstance(declared, Configuration), declared
    decisions = Decisions(admin_access="allow")
    return Configuration(legacy=legacy, targets=declared.targets, decisions=decisions)


def facts(case: YamlValue) -> Facts | None:
    if "world" not in case and "keeps" not in case:
        return None
    facts = worlds.facts(tuple(case.get("world", ())))
    names = tuple(
        ResourceFacts(plugin, nodes=1, devices=1, most=1) for plugin in case.get("plugins", ())
    )
    plugins = tuple(each.name for each in names)
    offers = tuple(msgspec.structs.replace(each, names=plugins) for each in facts.offers)
    facts = msgspec.structs.replace(facts, names=names, offers=offers)
    if "keeps" in case:
        cluster = msgspec.structs.replace(facts.cluster, keeps=tuple(case["keeps"]))
        facts = msgspec.structs.replace(facts, cluster=cluster)
    return facts


def done(case: YamlValue) -> Translation:
    return translate(pod(case), make_context(configuration(case), facts(case)), admin_access=True)


def lines(made: ClaimTemplate) -> Iterator[str]:
    devices: YamlValue = made.object["spec"]["spec"]["devices"]  # type: ignore[index,call-overload]
    for request in devices["requests"]:
        if "exactly" in request:
            yield f"{request['name']}: {wanted(request['exactly'])}"
        for way in request.get("firstAvailable", []):
            yield f"{request['name']} or {way['name']}: {wanted(way)}"
    for constraint in devices.get("constraints", []):
        word = "match" if "matchAttribute" in constraint else "differ"
        attribute = constraint[f"{'match' if word == 'match' else 'distinct'}Attribute"]
        yield f"{' '.join(constraint['requests'])} {word} in {attribute}"
    for config in devices.get("config", []):
        yield f"{' '.join(config['requests'])} set up by {config['opaque']['driver']}"


def wanted(of: YamlValue) -> str:
    number = of.get("count", "all")
    text = f"{of['deviceClassName']} x {number}{' admin' if of.get('adminAccess') else ''}"
    for selector in of.get("selectors", []):
        text += f"; if {selector['cel']['expression']}"
    for key, amount in of.get("capacity", {}).get("requests", {}).items():
        text += f"; of {key} {amount}"
    return text


@every_row("case", CASES, ids=name)
def test_the_claims_and_findings_of_a_row(case: YamlValue) -> None:
    translated = done(case)
    assert [list(lines(each)) for each in translated.templates] == case.get("claims", [])
    assert [each.code for each in translated.findings] == case.get("findings", [])
    refused = any(each.severity is Severity.ERROR for each in translated.findings)
    assert refused == case.get("refused", False)
    if "claims" not in case:
        assert translated.edits == ()
    told = " ".join(each.message for each in translated.findings)
    assert [words for words in case.get("says", []) if words not in told] == []


def test_rows_and_cases_cover_each_other() -> None:
    assert {case["row"] for case in CASES} == set(ROWS)
    for case in CASES:
        rows = {ask.row for ask in read_pod(pod(case), configuration(case)).asks}
        assert case["row"] in rows, name(case)


def test_no_case_is_duplicate() -> None:
    assert len({name(case) for case in CASES}) == len(CASES)


def test_no_share_becomes_a_whole_device_if_the_api_server_drops_capacity() -> None:
    """A claim without its amounts asks for all of each of them."""
    tried = 0
    for case in CASES:
        asks = read_pod(pod(case), configuration(case)).asks
        if any(ask.share and ask.kind is Kind.GPU and not ask.partition for ask in asks):
            assert done({**case, "keeps": []}).templates == (), name(case)
            tried += 1
    assert tried > 15
