"""Tests of compatibility groups on counter sets and of rules between devices."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.dra.compatibility import (
    CounterSetID,
    Declaration,
    ExpressionEvaluationError,
    GroupState,
    Incompatibility,
    Peer,
    PlacedDevice,
    Rule,
    UnsetGroups,
    add_device,
    effective_counter_uses,
    find_incompatibility,
    find_rule,
    initial_states,
    read_declarations,
)
from drawbridge.dra.device import Attribute, CELExpression, CounterUse, Device
from drawbridge.dra.inventory import PoolID
from drawbridge.dra.slices import Slice
from drawbridge.names import COMPATIBILITY_ANNOTATION
from tests.tables import YamlValue, every_row, load_cases

TABLES = Path(__file__).parent / "cases"
GROUPS = load_cases(TABLES / "groups.yaml")
ONLY_WITH = load_cases(TABLES / "only_with.yaml")
POOL = PoolID("d.io", "p")


def drawing(written: YamlValue) -> YamlValue:
    written = dict(written) if isinstance(written, dict) else {"s": written}
    pool = PoolID("d.io", written.pop("pool", "p"))
    return pool, tuple(
        CounterUse(name, compatibility_groups=tuple(of)) for name, of in written.items()
    )


def admitted(case: YamlValue, unset: UnsetGroups) -> YamlValue:
    companies = initial_states((drawing(each) for each in case.get("allocated", [])), unset)
    for device in case["take"]:
        after = add_device(companies, *drawing(device), unset)
        yield after is not None
        companies = companies if after is None else after


@pytest.mark.parametrize("unset", UnsetGroups)
@pytest.mark.parametrize("case", GROUPS, ids=lambda case: case["name"])
def test_a_counter_set_admits_compatible_groups(case: YamlValue, unset: UnsetGroups) -> None:
    expected = case.get("admitted") or case[unset.value]
    assert list(admitted(case, unset)) == expected


def test_adding_a_device_does_not_change_the_old_state() -> None:
    before = add_device({}, *drawing(["a", "b"]), UnsetGroups.ALONE)
    assert before is not None
    kept = dict(before)
    assert add_device(before, *drawing(["a"]), UnsetGroups.ALONE) is not None
    assert before == kept
    assert add_device(before, *drawing(["b"]), UnsetGroups.ALONE) is not None


def test_the_state_of_a_set_contains_the_common_groups() -> None:
    state = initial_states([drawing(["a", "b"]), drawing(["b", "c"])], UnsetGroups.ALONE)
    assert state == {CounterSetID(POOL, "s"): GroupState(members=True, groups=frozenset("b"))}


GROUP_LISTS = st.lists(st.lists(st.sampled_from("abc"), max_size=2, unique=True), max_size=5)


@given(lists=GROUP_LISTS, unset=st.sampled_from(UnsetGroups))
def test_a_set_admits_devices_if_and_only_if_they_have_a_common_group(
    lists: YamlValue, unset: UnsetGroups
) -> None:
    """Whatever the order, and said without any running state."""
    grouped = [set(each) for each in lists if each]
    common = not grouped or bool(set.intersection(*grouped))
    mixed = 0 < len(grouped) < len(lists)
    expected = common and not (mixed and unset is UnsetGroups.ALONE)
    assert all(admitted({"take": lists}, unset)) is expected


def peer(name: str, pool: PoolID = POOL, gpu: YamlValue = None, **fields: YamlValue) -> YamlValue:
    gpus = {int: lambda: Attribute(integer=gpu), str: lambda: Attribute(string=gpu)}
    published = {"gpu": gpus[type(gpu)]()} if gpu is not None else {}
    return Peer(pool, Device(name, attributes=published, **fields))


def ask(expression: str, other: YamlValue) -> YamlValue:
    """Evaluate the tables' expressions: the modes that the other device may have."""
    if expression == "error":
        raise ExpressionEvaluationError("no such key: mode")
    return other.device.name.split("-")[0] in expression.split()


def member(written: YamlValue) -> YamlValue:
    pool = PoolID(written.get("driver", "d.io"), written.get("pool", "p"))
    only = written.get("only")
    said = None
    if only is not None:
        expression = only if isinstance(only, str) else " ".join(only)
        said = Rule(expression, written.get("physical", ""))
    return PlacedDevice(
        node=written.get("node", "n1"),
        peer=peer(written["name"], pool, written.get("gpu", 0)),
        rule=said,
        admin_access=written.get("admin", False),
    )


@pytest.mark.parametrize("order", ["as written", "turned round"])
@pytest.mark.parametrize("case", ONLY_WITH, ids=lambda case: case["name"])
def test_devices_are_compatible_as_their_rules_say(case: YamlValue, order: str) -> None:
    first, other = member(case["one"]), member(case["other"])
    incompatible = (
        find_incompatibility(other, [first], ask)
        if order == "turned round"
        else find_incompatibility(first, [other], ask)
    )
    assert (incompatible is None) is case["compatible"]
    assert bool(incompatible and incompatible.finding()) is case.get("error", False)


def test_every_allocated_device_is_checked() -> None:
    mig = member({"name": "mig-3", "only": ["mig"]})
    taken = [member({"name": name}) for name in ("mig-1", "mig-2")]
    assert find_incompatibility(mig, taken, ask) is None
    late = member({"name": "whole-1", "only": []})
    assert find_incompatibility(mig, [*taken, late], ask) == Incompatibility(
        mig.peer, late.peer, "mig"
    )


def test_an_evaluation_error_is_a_finding_that_names_both_devices() -> None:
    first, other = member({"name": "a-1", "only": "error"}), member({"name": "b-1"})
    incompatibility = find_incompatibility(first, [other], ask)
    assert incompatibility is not None
    finding = incompatibility.finding()
    assert finding is not None
    assert finding.code == "CompatibilityError"
    assert finding.object == "Device/d.io/p/a-1"
    assert "d.io/p/b-1" in finding.message
    assert "no such key: mode" in finding.message


PLAIN = CELExpression("plain")


@every_row(
    ("configured", "from_annotation", "field", "expected"),
    [
        ([], [], None, None),
        ([], [], PLAIN, "plain"),
        ([], [Declaration(compatible_only_with="slice")], PLAIN, "slice"),
        (
            [Declaration(driver="d.io", compatible_only_with="config")],
            [Declaration(compatible_only_with="slice")],
            PLAIN,
            "config",
        ),
        ([Declaration(driver="e.io", compatible_only_with="config")], [], PLAIN, "plain"),
        ([Declaration(selector="mps", compatible_only_with="config")], [], PLAIN, "plain"),
        ([Declaration(selector="mig", compatible_only_with="config")], [], PLAIN, "config"),
        ([Declaration(groups=("a",))], [], PLAIN, "plain"),
        (
            [Declaration(compatible_only_with="one"), Declaration(compatible_only_with="two")],
            [],
            None,
            "one",
        ),
    ],
    ids=[
        "nobody says anything",
        "the plain field",
        "the annotation goes before the field",
        "the configuration goes before both",
        "a declaration about another driver",
        "a declaration about other devices",
        "a declaration about this device",
        "a declaration of groups only",
        "the first of two",
    ],
)
def test_configuration_takes_precedence_over_annotation_and_field(
    configured: YamlValue, from_annotation: YamlValue, field: YamlValue, expected: YamlValue
) -> None:
    said = find_rule(peer("mig-1", compatible_only_with=field), configured, from_annotation, ask)
    assert (said and said.expression) == expected


def test_a_selector_that_cannot_be_evaluated_makes_the_device_incompatible() -> None:
    partition = peer("mig-1", gpu=0)
    said = find_rule(
        partition, [Declaration(selector="error", compatible_only_with="mig")], [], ask
    )
    incompatibility = find_incompatibility(
        PlacedDevice("n1", partition, said), [member({"name": "mig-2"})], ask
    )
    assert incompatibility is not None
    assert incompatibility.finding() is not None


def test_declared_groups_replace_published_groups() -> None:
    uses = (CounterUse("s", compatibility_groups=("x",)), CounterUse("t"))
    partition = peer("mig-1", consumes_counters=uses)
    declared = [Declaration(selector="mig", groups=("a",))]
    said = effective_counter_uses(partition, declared, [], ask)
    assert [use.compatibility_groups for use in said] == [("a",), ("a",)]
    none = effective_counter_uses(partition, [Declaration(groups=())], [], ask)
    assert [use.compatibility_groups for use in none] == [(), ()]
    assert (
        effective_counter_uses(partition, [Declaration(selector="mps", groups=("a",))], [], ask)
        == uses
    )


def sliced(text: str | None) -> YamlValue:
    return Slice(
        "s", "d.io", "p", 1, 1, annotations={} if text is None else {COMPATIBILITY_ANNOTATION: text}
    )


def test_an_annotation_is_read_as_a_list_of_declarations() -> None:
    said = [{"selector": "x", "physicalDevice": "gpu", "compatibleOnlyWith": "y", "groups": ["a"]}]
    assert read_declarations(sliced(json.dumps(said))) == (
        (Declaration("", "x", "gpu", "y", ("a",)),),
        (),
    )
    assert read_declarations(sliced(None)) == ((), ())
    assert read_declarations(sliced("[]")) == ((), ())


@every_row(
    ("text", "code", "path"),
    [
        ("[", "UnreadableJSON", ""),
        ("[" * 5000, "UnreadableJSON", ""),
        ("{}", "WrongType", ""),
        ('[{"compatibleOnly": "x"}]', "FieldUnknown", "[0].compatibleOnly"),
        ('[{"groups": "a"}]', "WrongType", "[0].groups"),
        ('[{"driver": "e.io"}]', "NotAllowed", "[0].driver"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_a_finding(
    text: str | None, code: str, path: str
) -> None:
    said, declarations = read_declarations(sliced(text))
    assert said == ()
    assert [(each.code, each.path) for each in declarations] == [
        (code, f"metadata.annotations[{COMPATIBILITY_ANNOTATION}]{path}")
    ]
    assert declarations[0].object == "ResourceSlice/s"


@given(
    rules=st.dictionaries(
        st.sampled_from(["mig-1", "mps-1", "whole-1"]),
        st.lists(st.sampled_from(["mig", "mps", "whole"]), max_size=3),
    )
)
def test_compatibility_is_symmetric(rules: YamlValue) -> None:
    members = [
        member({"name": name} | ({"only": rules[name]} if name in rules else {}))
        for name in ("mig-1", "mps-1", "whole-1")
    ]
    for first, other in itertools.combinations_with_replacement(members, 2):
        assert (find_incompatibility(first, [other], ask) is None) is (
            find_incompatibility(other, [first], ask) is None
        )
