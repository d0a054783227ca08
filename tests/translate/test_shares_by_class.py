"""Names that a DeviceClass serves with shares of devices (KEP-6406), behind a switch."""

from typing import Any, Final, Literal

import msgspec

from controller.quota_charges import NameCharge, compute_charge
from drawbridge.config.model import Configuration, Decisions, Placement
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.classes import DeviceClass, read_class
from drawbridge.dra.gates import gates_of_version
from drawbridge.dra.slices import read_slice
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.ledger.extended_resources import class_by_resource_name, compose_requests
from drawbridge.ledger.pods import pod_reader
from drawbridge.translate.changes.patch import restore_original
from drawbridge.translate.context import Translation, TranslationContext, make_context
from drawbridge.translate.pods import translate
from tests.tables import every_row

DRIVER: Final = "gpu.nvidia.com"
SHARED: Final = "nvidia.com/gpu.shared"
CAPACITY: Final = {"memory": {"value": "80Gi"}, "shares": {"value": "4"}}
DEVICE: Final = {"name": "gpu-0", "allowMultipleAllocations": True}
SLICE: Final[dict[str, Any]] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "a"},
    "spec": {
        "driver": DRIVER,
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
    },
}


def class_of(name: str, **spec: Any) -> DeviceClass:  # noqa: ANN401  # JSON
    selectors = [{"cel": {"expression": f"device.driver == '{spec.pop('driver', DRIVER)}'"}}]
    made = read_class(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": selectors, **spec},
        }
    )
    assert isinstance(made, DeviceClass), made
    return made


SHARES: Final = {"extendedResourceCapacityRequests": {"requests": {"shares": "1"}}}
WHOLE: Final = class_of(DRIVER, extendedResourceName="nvidia.com/gpu")
OF_SHARES: Final = class_of("gpu-shared", extendedResourceName=SHARED, **SHARES)
OF_MEMORY: Final = class_of(
    "gpu-10gb",
    extendedResourceName="nvidia.com/gpu-10gb",
    extendedResourceCapacityRequests={"requests": {"memory": "10Gi"}},
)


def context_of(
    *classes: DeviceClass,
    shares: Literal["leave", "translate"] = "leave",
    placement: Placement = Placement.NATIVE,
    capacity: Any = CAPACITY,  # noqa: ANN401  # JSON
) -> TranslationContext:
    device = {**DEVICE, "attributes": {"type": {"string": "gpu"}}, "capacity": capacity}
    raw = {**SLICE, "spec": {**SLICE["spec"], "devices": [device]}}
    slice_, gates = read_slice(raw), gates_of_version()
    assert not isinstance(slice_, tuple)
    assert not isinstance(gates, tuple)
    decisions = Decisions(allow_loss_of=("isolation",), native_shares=shares)
    configuration = Configuration(placement=placement, decisions=decisions)
    facts = gather_facts(FactsInput((slice_,), (WHOLE, *classes)), configuration, gates).facts
    facts = msgspec.structs.replace(facts, scheduler=True)
    return make_context(configuration, facts)


def pod_of(name: str = SHARED, amount: int = 1) -> Any:  # noqa: ANN401  # JSON
    container = {"name": "main", "resources": {"limits": {name: f"{amount}"}}}
    return {"metadata": {"name": "p", "namespace": "team"}, "spec": {"containers": [container]}}


def codes(translation: Translation) -> list[str]:
    return [each.code for each in translation.findings]


@every_row(
    ("name", "context", "left"),
    [
        (SHARED, context_of(OF_SHARES), True),
        ("nvidia.com/gpu-10gb", context_of(OF_MEMORY), True),
        # The default: a claim, as before.
        (SHARED, context_of(OF_SHARES, shares="translate"), False),
        # The scheduler of Drawbridge serves no names.
        (SHARED, context_of(OF_SHARES, placement=Placement.BRIDGE), False),
        # The class gives whole devices, or has none.
        (SHARED, context_of(class_of("gpu-shared", extendedResourceName=SHARED)), False),
        (SHARED, context_of(class_of("none", driver="x", extendedResourceName=SHARED, **SHARES)),
         False),
        # The class serves another name, or none at all.
        ("nvidia.com/gpu-20gb", context_of(OF_MEMORY), False),
        (SHARED, context_of(class_of("gpu-shared", **SHARES)), False),
    ],
)  # fmt: skip
def test_a_share_is_left_to_the_class_that_serves_its_name(
    name: str, context: TranslationContext, *, left: bool
) -> None:
    translation = translate(pod_of(name), context, "team")
    assert ("LeftToClass" in codes(translation)) is left
    assert bool(translation.templates) is not left
    assert bool(translation.edits) is not left


def test_several_replicas_are_one_share_and_so_translated() -> None:
    translation = translate(pod_of(amount=2), context_of(OF_SHARES), "team")
    assert "AmountMappedByClass" in codes(translation)
    assert translation.templates


def test_a_share_that_no_claim_can_express_is_left_too() -> None:
    """The driver shares its devices by memory only, and a replica has no amount of it."""
    by_memory = context_of(OF_SHARES, capacity={"memory": {"value": "80Gi"}})
    assert codes(translate(pod_of(), by_memory, "team")) == ["LeftToClass"]
    translated = context_of(OF_SHARES, shares="translate", capacity={"memory": {"value": "80Gi"}})
    assert "LeftToClass" not in codes(translate(pod_of(), translated, "team"))
    assert not translate(pod_of(), translated, "team").templates


def test_a_translated_share_is_left_once_its_original_is_restored() -> None:
    before = translate(pod_of(), context_of(OF_SHARES, shares="translate"), "team")
    pod = apply_edits(pod_of(), before.edits)
    assert pod["spec"]["resourceClaims"]
    left = context_of(OF_SHARES)
    again = translate(pod, left, "team")
    assert not again.templates, "a pod that has its claim keeps it"
    original = restore_original(pod)
    assert original == pod_of()
    assert codes(translate(original, left, "team")) == ["LeftToClass"]


def test_a_quota_of_the_name_is_not_mirrored_for_what_a_class_serves() -> None:
    context = context_of(OF_MEMORY)
    assert compute_charge("nvidia.com/gpu-10gb", context) == NameCharge()
    translated = compute_charge("nvidia.com/gpu-10gb", context_of(OF_MEMORY, shares="translate"))
    assert translated.classes == {DRIVER}
    assert translated.is_shared


def test_the_claim_of_the_scheduler_asks_for_shares() -> None:
    pod = pod_reader().read({"apiVersion": "v1", "kind": "Pod", **pod_of(amount=3)})
    assert not isinstance(pod, tuple)
    (request,) = compose_requests(pod, class_by_resource_name([WHOLE, OF_SHARES]))
    assert request.exactly
    assert request.exactly.count == 3
    assert request.exactly.capacity
    assert {k: str(v) for k, v in request.exactly.capacity.requests.items()} == {"shares": "1"}
