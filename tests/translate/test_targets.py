"""What each driver family makes of an ask, as a table; and that it means what it says."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from drawbridge.cel.dra import Selectors
from drawbridge.config import string_formats
from drawbridge.config.model import Configuration, Decisions
from drawbridge.config.target import Target
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device import Device
from drawbridge.dra.gates import VERSIONS
from drawbridge.dra.slices import Slice, slice_reader
from drawbridge.dra.validation import validate_devices
from drawbridge.facts.model import Product
from drawbridge.translate.legacy.asks import Ask, DeviceUser, VfSettings
from drawbridge.translate.targets import codes
from drawbridge.translate.targets.choose import express_asks
from drawbridge.translate.targets.claims import assemble_claims
from drawbridge.translate.targets.plan import Expressibility, TargetResult
from e2e.nodes.family import CLASSES
from tests.tables import YamlValue, every_row, load_cases, read_yaml_documents
from tests.translate import worlds

TABLE = load_cases(Path(__file__).parent / "cases" / "targets.yaml")
SAMPLES = Path(__file__).parents[2] / "examples" / "inventory"
SAYABLE = [case for case in TABLE if "claim" in case]


HINTS = get_type_hints(Ask)


def ask_of(plain: Mapping[str, Any]) -> Ask:
    """An ask of a table; settings hold any value, which msgspec cannot be told."""
    user = {"path": ["spec", "containers", 0], "name": "main"}
    whole = {"name": "a", "kind": "gpu", "users": [user], **plain}
    settings = tuple(setting_of(each) for each in whole.pop("settings", []))
    fields = {
        name: msgspec.convert(value, HINTS[name], strict=False) for name, value in whole.items()
    }
    return Ask(**fields, settings=settings)


def setting_of(plain: Mapping[str, Any]) -> VfSettings:
    fields = {name: value for name, value in plain.items() if name not in ("type", "parameters")}
    return VfSettings(
        **fields, parameters=tuple((name, value) for name, value in plain.get("parameters", []))
    )


def configuration(case: YamlValue) -> Configuration:
    targets = msgspec.convert(
        case.get("targets", []), tuple[Target, ...], dec_hook=string_formats.read_text
    )
    decisions = msgspec.convert({"allowLossOf": case.get("allow", [])}, Decisions)
    return Configuration(targets=targets, decisions=decisions)


def said(case: YamlValue) -> TargetResult:
    facts = None
    if not case.get("unknown"):
        classes = tuple(case.get("classes", CLASSES))
        facts = worlds.facts(tuple(case["world"]), classes, case.get("version", "1.36"))
        more = msgspec.convert(case.get("products", []), tuple[Product, ...])
        facts = msgspec.structs.replace(facts, products=(*facts.products, *more))
        if "keeps" in case:
            cluster = msgspec.structs.replace(facts.cluster, keeps=tuple(case["keeps"]))
            facts = msgspec.structs.replace(facts, cluster=cluster)
    (result,) = express_asks([ask_of(case["ask"])], facts, configuration(case))
    return result


@every_row("case", TABLE, ids=lambda case: case["name"])
def test_the_claim_of_a_target(case: YamlValue) -> None:
    result = said(case)
    if "not_expressible" in case:
        assert result.expressibility is Expressibility.NOT_EXPRESSIBLE
        (finding,) = result.findings
        assert case["not_expressible"] in finding.message
        assert finding.code == codes.NOT_EXPRESSIBLE.name
        assert finding.remedy == case["remedy"]
        return
    (claim,) = assemble_claims([result])
    assert claim.spec["devices"] == case["claim"]
    assert sorted(result.lost) == sorted(case.get("lost", []))
    assert result.expressibility is (
        Expressibility.LOSSY if case.get("lost") else Expressibility.EQUAL
    )
    told = {finding.code for finding in result.findings} - codes.LOSES.keys()
    assert told == set(case.get("told", []))


@every_row("case", [c for c in TABLE if "followed" in c], ids=lambda case: case["name"])
def test_a_request_is_expressible_once_its_remedy_is_followed(case: YamlValue) -> None:
    done = {**case, **case["followed"], "ask": {**case["ask"], **case["followed"].get("ask", {})}}
    assert said(done).expressibility is not Expressibility.NOT_EXPRESSIBLE


@every_row("case", SAYABLE, ids=lambda case: case["name"])
def test_the_api_server_accepts_the_claim(case: YamlValue) -> None:
    claim = claim_of(case)
    assert validate_devices(claim.spec.devices, "spec.devices", "") == ()


def claim_of(case: YamlValue) -> Claim:
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": case["claim"]},
    }
    claim = read_claim(raw)
    assert isinstance(claim, Claim)
    return claim


def expressions(value: object) -> Iterator[str]:
    match value:
        case {"expression": str(text)}:
            yield text
        case dict():
            for inner in value.values():
                yield from expressions(inner)
        case list():
            for element in value:
                yield from expressions(element)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_expression_compiles_within_the_cost_limit(version: str) -> None:
    selectors = Selectors(version)
    # Sharing, and what a selector sees of it, came with consumable capacity.
    texts_ = {text for case in SAYABLE for text in expressions(case["claim"])}
    assert texts_
    for text in sorted(texts_):
        assert selectors.check_admission(text) == (True, None), text


@every_row("case", SAYABLE, ids=lambda case: case["name"])
def test_no_expression_fails_on_a_device_of_its_class_and_one_device_matches(
    case: YamlValue,
) -> None:
    selectors = Selectors("1.36")
    for request in case["claim"]["requests"]:
        for wanted in request.get("firstAvailable") or [request["exactly"]]:
            chosen = list(selected(selectors, wanted, tuple(case["world"])))
            if case["world"] and "Uuid" not in f"{case['ask']}":
                assert len(chosen) >= wanted.get("count", 1)


def selected(
    selectors: Selectors, wanted: Mapping[str, Any], world: tuple[str, ...]
) -> Iterator[Device]:
    """The devices that a request selects; an expression that fails fails the test."""
    texts_ = list(expressions(wanted.get("selectors", [])))
    offered = CLASSES.get(wanted["deviceClassName"], "true")
    for driver, _, device in worlds.devices(world):
        of_class = selectors.evaluate(offered, driver, device)
        if of_class.result is not True:
            continue
        answers = [selectors.evaluate(text, driver, device) for text in texts_]
        assert [each.error for each in answers if each.error] == []
        if all(each.result is True for each in answers):
            yield device


def test_no_expression_fails_on_the_sample_inventory() -> None:
    selectors = Selectors("1.36")
    tried = 0
    for driver, device in samples():
        for case in SAYABLE:
            for request in case["claim"]["requests"]:
                for wanted in request.get("firstAvailable") or [request["exactly"]]:
                    offered = CLASSES.get(wanted["deviceClassName"], "false")
                    if selectors.evaluate(offered, driver, device).result is not True:
                        continue
                    for text in expressions(wanted.get("selectors", [])):
                        # An expression about a driver of one's own asks first.
                        answer = selectors.evaluate(text, driver, device)
                        assert answer.error is None, (text, device.name)
                        tried += 1
    assert tried > 100


def samples() -> Iterator[tuple[str, Device]]:
    reader = slice_reader()
    for path in sorted(SAMPLES.glob("*.yaml")):
        for raw in read_yaml_documents(path.read_text("utf-8")):
            if raw and raw["kind"] == "ResourceSlice":
                obj = reader.read(raw)
                assert isinstance(obj, Slice)
                yield from ((obj.driver, device) for device in obj.devices)


def test_containers_get_their_requests() -> None:
    main, side = (DeviceUser(("spec", "containers", i), name) for i, name in enumerate(("a", "b")))
    asks = [
        Ask(name="one", kind=ask_of({"row": "x"}).kind, row="nvidia/whole", users=(main,)),
        Ask(name="two", kind=ask_of({"row": "x"}).kind, row="nvidia/whole", users=(main, side)),
    ]
    facts = worlds.facts(("hgx-h100 gpu.nvidia.com",))
    (claim,) = assemble_claims(express_asks(asks, facts, Configuration()))
    assert [(use.user.name, use.requests) for use in claim.uses] == [
        ("a", ("gpu-0", "gpu-1")),
        ("b", ("gpu-1",)),
    ]
    assert claim.asks == {"one": ("gpu-0",), "two": ("gpu-1",)}


def test_shares_with_separate_limits_are_in_separate_claims() -> None:
    share = {"isolation": "memory", "memory": {"type": "Bytes", "value": 1 << 20}}
    asks = [ask_of({"row": "hami/memory", "name": name, "share": share}) for name in "ab"]
    facts = worlds.facts(("hgx-h100 hami-core-gpu.project-hami.io",))
    first, second = assemble_claims(express_asks(asks, facts, Configuration()))
    assert first.spec == second.spec
    assert (list(first.asks), list(second.asks)) == (["a"], ["b"])


def test_requests_beyond_the_limit_go_into_a_second_claim() -> None:
    facts = worlds.facts(("dgx-a100 gpu.nvidia.com static-mig",))
    plain = {"row": "nvidia/mig", "partition": True, "count": 40}
    plain["selectors"] = [{"is": "PartitionProfile", "names": ["1g.5gb"]}]
    claims = assemble_claims(express_asks([ask_of(plain)], facts, Configuration()))
    devices: list[Any] = [claim.spec["devices"] for claim in claims]
    counts = [request["exactly"]["count"] for each in devices for request in each["requests"]]
    assert counts == [32, 8]


def test_joint_requests_beyond_the_limit_are_refused() -> None:
    facts = worlds.facts(("dgx-a100 gpu.nvidia.com static-mig",))
    plain = {"row": "nvidia/mig", "partition": True, "count": 40, "colocation": {"scope": "device"}}
    (result,) = express_asks([ask_of(plain)], facts, Configuration())
    assert result.expressibility is Expressibility.NOT_EXPRESSIBLE
    assert "needs 40 devices" in result.findings[0].message


def test_of_more_than_eight_amounts_the_most_common_are_kept() -> None:
    facts = worlds.facts(("hgx-h100 hami-core-gpu.project-hami.io",))
    (product,) = facts.products
    many = tuple(
        msgspec.structs.replace(
            product,
            name=f"Card {i}",
            devices=100 - i,
            capacity={
                **product.capacity,
                "memory": msgspec.structs.replace(product.capacity["memory"], value=f"{20 - i}Gi"),
            },
        )
        for i in range(10)
    )
    facts = msgspec.structs.replace(facts, products=many)
    share = {"isolation": "memory", "memory": {"type": "Percent", "value": 50}}
    (result,) = express_asks(
        [ask_of({"row": "hami/percent", "vendor": "nvidia", "share": share})],
        facts,
        Configuration(),
    )
    (request,) = result.part.requests
    ways = request.body["firstAvailable"]
    assert isinstance(ways, list)
    # The smallest first; of ten, the two with the fewest devices have no place.
    names = [way["name"] for way in ways if isinstance(way, dict)]
    assert names == [f"card-{i}" for i in range(7, -1, -1)]
    assert result.lost == ("products",)


def test_equal_asks_give_equal_results() -> None:
    for case in TABLE:
        assert said(case) == said(case)
