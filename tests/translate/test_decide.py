"""What is done with an ask: the table of the decisions, and the table of the rows."""

import itertools
from pathlib import Path

from msgspec.structs import replace

from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config.model import Configuration, Decisions, Placement
from drawbridge.facts.model import ClassFacts, Facts, NodeOffer, ResourceFacts
from drawbridge.finding import Severity
from drawbridge.translate.decisions.decide import ServedBy, Verdict, decide, find_server
from drawbridge.translate.decisions.rows import ROWS, get_row
from drawbridge.translate.legacy.asks import Ask, Bytes, DeviceShare, Kind
from drawbridge.translate.legacy.read import read_pod
from drawbridge.translate.legacy.selectors import ProductIs
from drawbridge.translate.targets.codes import CORES_NOT_LIMITED, NOT_EXPRESSIBLE
from drawbridge.translate.targets.plan import Expressibility, TargetResult
from tests.tables import YamlValue, every_row, load_cases

HERE = Path(__file__).parent
CASES = load_cases(HERE / "decisions.yaml")
FACTS = {
    "plugin": Facts(names=(ResourceFacts("a.com/gpu", nodes=3),)),
    "class": Facts(names=(ResourceFacts("a.com/gpu", classes=("gpu.a.com",)),)),
    "nobody": Facts(names=(ResourceFacts("a.com/gpu"),)),
    "unknown": None,
}
TOLD = {
    "equal": (),
    "lossy": (CORES_NOT_LIMITED.at("", "no cores"),),
    "not expressible": (NOT_EXPRESSIBLE.at("", "no target"),),
}


def configuration(case: YamlValue) -> Configuration:
    wanted = case.get("decisions", {}).get("nativeExtendedNames", "leave")
    return Configuration(
        placement=Placement(case.get("placement", "native")),
        decisions=Decisions(native_extended_names=wanted),
    )


@every_row("case", CASES, ids=lambda case: case["name"])
def test_the_table_of_decisions(case: YamlValue) -> None:
    ask = Ask(
        name="a",
        kind=Kind.GPU,
        row=case.get("row", "nvidia/whole"),
        selectors=() if case.get("plain", True) else (ProductIs(("X",)),),
        resources=tuple(case.get("resources", ["a.com/gpu"])),
    )
    said = TargetResult(
        ("a",),
        Expressibility(case["said"]),
        findings=TOLD[case["said"]],
        lost=tuple(case.get("lost", ())),
    )
    decision = decide([ask], said, FACTS[case["served"]], configuration(case))
    assert decision.verdict == case["verdict"]
    assert [each.code for each in decision.findings] == case.get("findings", [])
    assert any(each.severity is Severity.ERROR for each in decision.findings) == (
        case["verdict"] == "refuse"
    )
    for finding in decision.findings:
        assert finding.message
        assert finding.remedy
        assert finding.code in ACCEPTED_NAMES


CLASSES = {
    "without devices": ClassFacts("gpu.a.com"),
    "with devices": ClassFacts("gpu.a.com", drivers=("a",), devices=8),
    "of shares": ClassFacts("gpu.a.com", drivers=("a",), devices=8, share={"memory": "1Gi"}),
}
ASKS = {
    "a number of devices": Ask(name="a", kind=Kind.GPU, row="nvidia/whole"),
    "a device with a product": Ask(
        name="a", kind=Kind.GPU, row="hami/whole", selectors=(ProductIs(("X",)),)
    ),
    "a replica by its name": Ask(
        name="a", kind=Kind.GPU, row="nvidia/replica", share=DeviceShare(replica=True)
    ),
}


@every_row("said", TOLD)
@every_row("asked", ASKS)
@every_row("kind", CLASSES)
@every_row("served", ["plugin", "class", "both", "nobody"])
def test_a_kubelet_that_ignores_a_name_only_makes_claims_of_what_would_be_left(
    served: str, kind: str, asked: str, said: str
) -> None:
    classes = ("gpu.a.com",) if served in ("class", "both") else ()
    name = ResourceFacts("a.com/gpu", classes=classes, nodes=3 * (served in ("plugin", "both")))
    ask = replace(ASKS[asked], resources=("a.com/gpu",))
    result = TargetResult(
        ("a",), Expressibility(said), findings=TOLD[said], classes=("claimed.a.com",)
    )
    for placement, setting in itertools.product(Placement, ("leave", "translate")):
        decisions = Decisions(native_extended_names=setting, native_shares=setting)
        wanted = Configuration(placement=placement, decisions=decisions)
        before, after = (
            decide([ask], result, Facts(classes=(row,), names=(name,)), wanted)
            for row in (CLASSES[kind], replace(CLASSES[kind], name_ignored=True))
        )
        if after.verdict != before.verdict:
            assert (before.verdict, after.verdict) == (Verdict.LEAVE, Verdict.TRANSLATE)
            assert said != "not expressible"


def test_a_request_that_no_claim_can_express_is_left_with_what_old_kubelets_do() -> None:
    told = {}
    for ignored in (False, True):
        row = ClassFacts("gpu.a.com", drivers=("a",), devices=8, name_ignored=ignored)
        facts = Facts(classes=(row,), names=(ResourceFacts("a.com/gpu", classes=("gpu.a.com",)),))
        ask = replace(ASKS["a number of devices"], resources=("a.com/gpu",))
        result = TargetResult(
            ("a",), Expressibility.NOT_EXPRESSIBLE, findings=TOLD["not expressible"]
        )
        (told[ignored],) = decide([ask], result, facts, Configuration()).findings
    assert told[True].severity is Severity.WARNING
    assert told[False].message == "a.com/gpu stays with the DeviceClass that serves it: no target"
    assert told[True].message == (
        "a.com/gpu stays with the DeviceClass that serves it, but the kubelets of some nodes with"
        " its devices ignore that and start the pod without them: no target"
    )
    assert told[True].remedy.startswith("Upgrade these kubelets")
    assert told[True].remedy.endswith(told[False].remedy)


SERVERS = {
    "one plugin serves all names": (("a.com/gpu", "a.com/mem"), ServedBy.PLUGIN),
    "different nodes serve the names": (("a.com/gpu", "a.com/nic"), ServedBy.NOBODY),
    "nobody serves one of the names": (("a.com/gpu", "a.com/other"), ServedBy.NOBODY),
    "a plugin serves one name and a class the other": (("a.com/mem", "b.com/gpu"), ServedBy.NOBODY),
    "a class serves the only name": (("b.com/gpu",), ServedBy.CLASS),
    "a class serves one of two names": (("b.com/gpu", "b.com/mem"), ServedBy.NOBODY),
    "an ask has no names": ((), ServedBy.NOBODY),
}


@every_row("case", SERVERS)
def test_a_server_serves_all_names_of_an_ask(case: str) -> None:
    names, expected = SERVERS[case]
    facts = Facts(
        classes=(ClassFacts("gpu.b.com", drivers=("b",)),),
        names=(ResourceFacts("b.com/gpu", classes=("gpu.b.com",)),),
        offers=(
            NodeOffer(names=("a.com/gpu", "a.com/mem")),
            NodeOffer(classes=("gpu.b.com",), names=("a.com/nic",)),
        ),
    )
    ask = Ask(kind=Kind.GPU, row="nvidia/whole", resources=names)
    assert find_server([ask], facts) is expected


LABELS = (ProductIs(("X",)),)
MEANINGS: dict[str, tuple[Ask, ServedBy]] = {
    "a number of devices": (Ask(kind=Kind.GPU, row="nvidia/whole"), ServedBy.CLASS),
    "a device that node labels select": (
        Ask(
            kind=Kind.GPU, row="nvidia/whole", selectors=(ProductIs(("X",)),), uses_node_labels=True
        ),
        ServedBy.CLASS,
    ),
    "a partition that the name selects": (
        Ask(kind=Kind.GPU, row="nvidia/mig", selectors=LABELS, partition=True),
        ServedBy.CLASS,
    ),
    "a replica by its name": (
        Ask(kind=Kind.GPU, row="nvidia/replica", share=DeviceShare(replica=True)),
        ServedBy.CLASS,
    ),
    "a device that an annotation selects": (
        Ask(kind=Kind.GPU, row="hami/whole", selectors=LABELS),
        ServedBy.NOBODY,
    ),
    "an amount of memory": (
        Ask(kind=Kind.GPU, row="hami/memory", share=DeviceShare(memory=Bytes(1))),
        ServedBy.NOBODY,
    ),
    "a percentage of devices": (
        Ask(kind=Kind.GPU, row="koordinator/whole", amounts=("b.com/gpu",)),
        ServedBy.NOBODY,
    ),
    "admin access": (Ask(kind=Kind.GPU, row="intel/monitoring", admin=True), ServedBy.NOBODY),
}


@every_row("case", MEANINGS)
def test_a_class_serves_a_number_of_devices_and_no_more(case: str) -> None:
    ask, expected = MEANINGS[case]
    facts = Facts(names=(ResourceFacts("b.com/gpu", classes=("gpu.b.com",)),))
    assert find_server([replace(ask, resources=("b.com/gpu",))], facts) is expected


def test_every_row_has_the_legacy_request_and_its_result() -> None:
    for name, row in ROWS.items():
        assert row.name == name
        assert row.legacy
        assert row.becomes
        assert bool(row.lost) <= (row.expressibility is Expressibility.LOSSY)


def test_every_ask_of_the_dialect_tables_has_a_row() -> None:
    pods = [
        {
            "spec": {
                "containers": [{"name": "a", "resources": {"limits": dict(case["containers"][c])}}]
            }
        }
        for table in sorted(HERE.glob("cases/dialects/*.yaml"))
        for case in load_cases(table)
        for c in case.get("containers", {})
    ]
    rows = {ask.row for pod in pods for ask in read_pod(pod).asks}
    assert len(rows) > 10
    assert {name for name in rows if get_row(name).becomes == ""} == set()
