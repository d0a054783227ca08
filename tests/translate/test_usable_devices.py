"""Which devices of a class a scheduler can use: of owned nodes, of the others, or none."""

import msgspec
import pytest

from drawbridge.config.model import Configuration, Placement
from drawbridge.config.string_formats import read_text
from drawbridge.facts.model import ClassFacts, Facts, ResourceFacts
from drawbridge.names import PLACEMENT_LABEL
from drawbridge.translate.changes.scheduler import describe_usable, find_placement_remedy
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue

ROW = ClassFacts("gpu", devices=8, owned=2)


@pytest.mark.parametrize(
    ("owned", "is_ours", "usable"),
    [
        (None, True, ""),
        (None, False, ""),
        (0, True, "0 of 8"),
        (0, False, ""),
        (2, True, "2 of 8"),
        (2, False, "6 of 8"),
        (8, True, ""),
        (8, False, "0 of 8"),
    ],
)
def test_a_class_of_which_a_scheduler_cannot_use_all_devices_is_described(
    owned: int | None, usable: str, *, is_ours: bool
) -> None:
    row = ClassFacts("gpu", devices=8, owned=owned)
    text = describe_usable(row, is_ours=is_ours)
    assert text.partition(" devices")[0] == usable


@pytest.mark.parametrize(("placement", "other"), [("native", "bridge"), ("bridge", "native")])
def test_the_remedy_names_the_placement_that_has_the_other_devices(
    placement: str, other: str
) -> None:
    remedies = {
        name: find_placement_remedy(ROW, is_ours=name == "bridge") for name in (placement, other)
    }
    usable = {name: describe_usable(ROW, is_ours=name == "bridge") for name in remedies}
    assert f"Set the label {PLACEMENT_LABEL}: {other} on the namespace" in remedies[placement]
    assert f"the other {usable[other].partition(' ')[0]}. " in remedies[placement]


DIVIDED = ClassFacts("gpu.nvidia.com", drivers=("gpu.nvidia.com",), devices=18, owned=8)
OWNED_NICS = ClassFacts("dra.net", drivers=("dra.net",), devices=8, owned=8)
PLUGINS = (ResourceFacts("nvidia.com/gpu", nodes=0),)
MOVE = "Set the label drawbridge.dev/placement: {} on the namespace"
STAY = "Change which nodes `ownedPools` selects."


@pytest.mark.parametrize(
    ("placement", "scheduler", "names", "runs", "expected"),
    [
        ("native", "", ("nvidia.com/gpu",), True, MOVE.format("bridge")),
        ("bridge", "", ("nvidia.com/gpu",), True, MOVE.format("native")),
        ("bridge", "hami-scheduler", ("nvidia.com/gpu",), True, MOVE.format("native")),
        # The pod names its scheduler, whatever the label of the namespace.
        ("bridge", "volcano", ("nvidia.com/gpu",), True, STAY),
        ("native", "volcano", ("nvidia.com/gpu",), True, STAY),
        ("native", "drawbridge", ("nvidia.com/gpu",), True, STAY),
        ("bridge", "drawbridge", ("nvidia.com/gpu",), True, STAY),
        # The namespace has this placement already, but nothing serves it.
        ("bridge", "", ("nvidia.com/gpu",), False, STAY),
        # The other placement has no NIC.
        ("bridge", "", ("nvidia.com/gpu", "rdma/hca"), True, STAY),
    ],
)
def test_the_other_placement_is_named_only_if_it_serves_the_pod(
    placement: Placement, scheduler: str, names: tuple[str, ...], expected: str, *, runs: bool
) -> None:
    owned = [{"driver": row.name, "nodeSelector": {}} for row in (DIVIDED, OWNED_NICS)]
    configured = {"placement": "bridge", "ownedPools": owned}
    facts = Facts(classes=(DIVIDED, OWNED_NICS), names=PLUGINS, scheduler=runs)
    context = make_context(msgspec.convert(configured, Configuration, dec_hook=read_text), facts)
    resources = {"limits": dict.fromkeys(names, "1")}
    spec: YamlValue = {"containers": [{"name": "main", "resources": resources}]}
    pod = {"spec": {**spec, **({"schedulerName": scheduler} if scheduler else {})}}
    findings = translate(pod, context.placed(Placement(placement)), "team").findings
    (remedy,) = (each.remedy for each in findings if each.code == "DevicesDivided")
    assert remedy.startswith(expected)
