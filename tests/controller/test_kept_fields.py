"""A field that the API server drops is never written into a claim and never silently left out."""

from typing import Any

import msgspec
import pytest

from controller.field_probe import FIELD_PROBES
from drawbridge.config.model import Configuration
from drawbridge.documents.paths import get_value
from drawbridge.facts.model import ClassFacts, Cluster, Facts, Product, ResourceFacts
from drawbridge.finding import Severity
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.tables import YamlValue
from tests.translate.test_interest import pods

HAMI = "hami-core-gpu.project-hami.io"
NVIDIA = "gpu.nvidia.com"
AMOUNTS: YamlValue = {"cores": {"value": "100"}, "memory": {"value": "80Gi"}}
OFFERED = Facts(
    classes=tuple(map(ClassFacts, (NVIDIA, "mig.nvidia.com", HAMI, "gpu.amd.com", "dra.net"))),
    products=(
        msgspec.convert(
            {
                "driver": HAMI,
                "type": "hami-gpu",
                "name": "A100",
                "shared": True,
                "capacity": AMOUNTS,
            },
            Product,
        ),
        Product(NVIDIA, type="gpu", name="A100", classes=(NVIDIA,), devices=8),
    ),
)
ALL = tuple(sorted(FIELD_PROBES))
WRITTEN = ("exactly.capacity", "firstAvailable", "constraints.distinctAttribute")
# The path of each field in a request.
USED = {
    "exactly.adminAccess": ("exactly", "adminAccess"),
    "exactly.capacity": ("exactly", "capacity"),
    "exactly.tolerations": ("exactly", "tolerations"),
    "exactly.derivedAttributes": ("exactly", "derivedAttributes"),
    "firstAvailable": ("firstAvailable",),
}


def keeping(*fields: str, served: bool = False) -> Facts:
    names = tuple(ResourceFacts(name, nodes=3) for name in ("nvidia.com/gpu",)) if served else ()
    return msgspec.structs.replace(OFFERED, cluster=Cluster("1.34", keeps=fields), names=names)


def used(claim: Any) -> set[str]:  # noqa: ANN401  # plain JSON
    """Return the fields of a claim spec that a server may drop."""
    devices = claim["devices"]
    fields = {
        name
        for name, path in USED.items()
        if any(get_value(request, path) is not None for request in devices["requests"])
    }
    ways = [way for each in devices["requests"] for way in each.get("firstAvailable", ())]
    fields |= {"exactly.capacity" for way in ways if "capacity" in way}
    rules = devices.get("constraints", ())
    return fields | {"constraints.distinctAttribute" for r in rules if "distinctAttribute" in r}


def claims(facts: Facts) -> list[set[str]]:
    by = make_context(Configuration(), facts)
    made = [each for pod in pods() for each in translate(pod, by).templates]
    return [used(get_value(each.object, ("spec", "spec"))) for each in made]


def test_the_test_tables_use_every_written_field() -> None:
    fields = set[str]().union(*claims(keeping(*ALL)))
    assert fields >= {*WRITTEN}


@pytest.mark.parametrize("dropped", WRITTEN)
def test_a_dropped_field_is_never_written(dropped: str) -> None:
    for fields in claims(keeping(*(each for each in ALL if each != dropped))):
        assert dropped not in fields


def part(**more: str) -> YamlValue:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192", **more}
    return {"spec": {"containers": [{"name": "a", "resources": {"limits": limits}}]}}


def test_a_gpu_share_is_denied_with_the_reason_if_capacity_is_dropped() -> None:
    assert translate(part(), make_context(Configuration(), keeping(*ALL))).templates
    done = translate(part(), make_context(Configuration(), keeping()))
    assert done.templates == ()
    assert done.edits == ()
    errors = [each for each in done.findings if each.severity is Severity.ERROR]
    assert errors
    said = " ".join(each.message for each in done.findings)
    assert "this API server (1.34) drops exactly.capacity from claims" in said


def test_a_gpu_share_that_a_plugin_serves_is_not_translated() -> None:
    done = translate(part(), make_context(Configuration(), keeping(served=True)))
    assert (done.templates, done.edits) == ((), ())
