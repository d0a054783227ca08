"""Reads Koordinator's annotations: joint allocation, selection of devices, GPU partitions.

Interprets them as Koordinator's scheduler does. Invalid JSON is an error with its position.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from drawbridge.config.model import Legacy
from drawbridge.documents.values import Value, as_list, as_mapping
from drawbridge.dra.counted import join_words
from drawbridge.dra.decode_errors import describe_value
from drawbridge.translate.legacy import annotation_json
from drawbridge.translate.legacy.asks import (
    Ask,
    Colocation,
    Distinctness,
    JointAllocation,
    Kind,
    StrategyPreference,
    TopologyScope,
)
from drawbridge.translate.legacy.codes import (
    AMOUNT_REFUSED,
    HINT_EMPTY,
    HINT_LOST,
    LABEL_DROPPED,
    RESTRICTION_LOST,
    WORD_UNKNOWN,
)
from drawbridge.translate.legacy.draft import RequestBuilder
from drawbridge.translate.legacy.pod_view import annotation_path, format_value
from drawbridge.translate.legacy.selectors import (
    AskSelector,
    DeviceLabel,
    LabelOperator,
    NicIs,
    NicKind,
    Not,
)

_PREFIX: Final = "scheduling.koordinator.sh/"
JOINT: Final = f"{_PREFIX}device-joint-allocate"
HINT: Final = f"{_PREFIX}device-allocate-hint"
PARTITION: Final = f"{_PREFIX}gpu-partition-spec"
KEYS: Final = (JOINT, HINT, PARTITION)
_OTHERS: Final = (_PREFIX, "gang.scheduling.koordinator.sh/")
_KINDS: Final = {"gpu": Kind.GPU, "rdma": Kind.NIC, "fpga": Kind.OTHER}
_SCOPES: Final = {
    "Device": TopologyScope.DEVICE,
    "PCIe": TopologyScope.PCIE,
    "NUMANode": TopologyScope.NUMA,
    "Node": TopologyScope.NODE,
}
_SMALLER_SCOPES: Final = frozenset(_SCOPES.values()) - {TopologyScope.NODE}
_STRATEGIES: Final = ("ApplyForAll", "RequestsAsCount")
_POLICIES: Final = ("DeviceLevel", "PCIeLevel")
_PARTITION_SIZES: Final = (2, 4, 8)
_NEARNESS: Final = (TopologyScope.LINK, TopologyScope.PCIE, TopologyScope.NUMA)
_PACKED: Final = StrategyPreference("devices", "packed", annotation="")


class DeviceHint(msgspec.Struct, frozen=True):
    """The allocation hint of the pod for one type of device."""

    selector: Mapping[str, Value] = {}
    vf_selector: Mapping[str, Value] = {}
    uses_vfs: bool = False
    strategy: str = ""
    scope: TopologyScope | None = None
    exclusive: bool = False


class AllocationHints(msgspec.Struct, frozen=True):
    """The allocation hints in the annotations of a pod."""

    types: Mapping[str, DeviceHint] = {}
    joint: JointAllocation | None = None
    joined: tuple[str, ...] = ()
    partition: Colocation | None = None


NO_HINT: Final = DeviceHint()


def read_hints(builder: RequestBuilder, amounts: Mapping[str, int]) -> AllocationHints:
    """Read the annotations of a pod. `amounts` maps short resource names to amounts."""
    types = {name for name in ("rdma", "fpga") if name in amounts}
    if set(amounts) - types:
        types.add("gpu")
    hints_by_type = {
        name: _read_hint(builder, name, value)
        for name, value in _read_object(builder, HINT).items()
    }
    for name in hints_by_type:
        if name not in types:
            add_no_effect(builder, HINT, f"the pod requests no device of type {name}")
    joint, joined = _read_joint(builder, types, hints_by_type)
    for key in builder.pod.annotations:
        if key.startswith(_OTHERS) and key not in KEYS:
            builder.findings.append(
                HINT_LOST.at(
                    annotation_path(key),
                    "only Koordinator's scheduler uses this annotation; it does not affect claims",
                )
            )
    if PARTITION in builder.pod.annotations and "gpu" not in types:
        add_no_effect(builder, PARTITION, "the pod requests no GPU")
    return AllocationHints(hints_by_type, joint, joined, _read_partition(builder))


def apply_hints(
    builder: RequestBuilder, ask: Ask, kind: str, pod_hints: AllocationHints, legacy: Legacy
) -> Ask:
    """Return the ask with the hints for its type of device."""
    hint = pod_hints.types.get(kind, NO_HINT)
    labels = [
        label
        for selector in (hint.selector, hint.vf_selector)
        for label in _read_selector(builder, kind, selector, legacy)
    ]
    partition = pod_hints.partition if kind == "gpu" else None
    ask = replace(
        ask,
        selectors=(*(_select_nics(hint) if kind == "rdma" else ()), *labels),
        distinct=Distinctness.PARENT if hint.uses_vfs else Distinctness.DEVICE,
        colocation=_read_colocation(builder, ask, hint, partition),
        joint=_join(ask, pod_hints.joint) if kind in pod_hints.joined else None,
    )
    if ask.kind is Kind.GPU and ask.share is None:
        # Koordinator prefers GPUs of one partition, else of the smallest scope with enough.
        return replace(ask, nearness=_NEARNESS, preferences=(_PACKED,))
    return ask


def _join(ask: Ask, joint: JointAllocation | None) -> JointAllocation | None:
    """Return the joint allocation of an ask; one network device means one for each scope."""
    if joint is None or ask.kind is joint.primary:
        return joint
    return replace(joint, explicit_count=ask.kind is Kind.GPU or (ask.count or 0) > 1)


def _select_nics(hint: DeviceHint) -> list[AskSelector]:
    selectors: list[AskSelector] = [NicIs(NicKind.RDMA)]
    if hint.uses_vfs:
        selectors.append(NicIs(NicKind.VF))
    elif hint.exclusive:
        selectors.append(NicIs(NicKind.PF))
    return selectors


def _read_colocation(
    builder: RequestBuilder, ask: Ask, hint: DeviceHint, partition: Colocation | None
) -> Colocation | None:
    """Return the scope that the devices share; only a required partition takes precedence."""
    scope = hint.scope
    if scope is TopologyScope.NODE:
        why = "requiredTopologyScope Node has no effect; all devices of a pod are on one node"
        add_no_effect(builder, HINT, why)
    elif scope is not None and ask.count == 1:
        add_no_effect(builder, HINT, "requiredTopologyScope has no effect on 1 device")
    required = Colocation(scope, annotation=HINT) if scope in _SMALLER_SCOPES else None
    chosen = required
    if partition and (partition.required or not required):
        placed = _place_in_partition(builder, ask, partition)
        if placed and required:
            why = "requiredTopologyScope has no effect; the GPU partition takes precedence"
            add_no_effect(builder, HINT, why)
        chosen = placed or required
    if scope is TopologyScope.DEVICE and (ask.count or 0) > 1:
        builder.findings.append(
            AMOUNT_REFUSED.at(
                annotation_path(HINT),
                f"requiredTopologyScope Device allows 1 device, but the pod requests {ask.count}",
            )
        )
    return chosen


def _place_in_partition(
    builder: RequestBuilder, ask: Ask, partition: Colocation
) -> Colocation | None:
    if ask.share is not None and (ask.count or 0) > 1:
        builder.findings.append(
            AMOUNT_REFUSED.at(
                annotation_path(PARTITION), "a GPU partition cannot contain shares of several GPUs"
            )
        )
        return None
    if ask.count in _PARTITION_SIZES:
        return partition
    if ask.count == 1:
        add_no_effect(builder, PARTITION, "the GPU partition has no effect on 1 GPU")
    if ask.count != 1 and partition.required:
        builder.findings.append(
            AMOUNT_REFUSED.at(
                annotation_path(PARTITION),
                f"a GPU partition has 1, 2, 4 or 8 GPUs, but the pod requests {ask.count}",
            )
        )
    return None


def _read_object(builder: RequestBuilder, key: str) -> Mapping[str, Value]:
    text = builder.pod.annotations.get(key)
    if text is None:
        return {}
    value, problem = annotation_json.parse_annotation(key, text)
    if problem is None and value is not None and not isinstance(value, dict):
        problem = annotation_json.unreadable_annotation(key, "the value must be a JSON object")
    if problem:
        builder.findings.append(problem)
    return as_mapping(value)


def _read_hint(builder: RequestBuilder, name: str, value: Value) -> DeviceHint:
    hint = as_mapping(value)
    if value is not None and not isinstance(value, dict):
        builder.findings.append(
            annotation_json.unreadable_annotation(HINT, f"{name} must be an object")
        )
    if name not in _KINDS:
        _add_unknown_value(builder, HINT, "device type", name, tuple(_KINDS))
    policy = _read_choice(builder, hint, "exclusivePolicy", _POLICIES)
    if policy == "PCIeLevel":
        add_no_effect(
            builder, HINT, "exclusivePolicy PCIeLevel has no effect; Koordinator ignores it too"
        )
    scope = _read_choice(builder, hint, "requiredTopologyScope", tuple(_SCOPES))
    vf_selector = hint.get("vfSelector")
    for key in ("selector", "vfSelector"):
        if hint.get(key) is not None and not isinstance(hint[key], dict):
            builder.findings.append(
                annotation_json.unreadable_annotation(HINT, f"{name}.{key} must be an object")
            )
    return DeviceHint(
        selector=as_mapping(hint.get("selector")),
        vf_selector=as_mapping(vf_selector),
        uses_vfs=isinstance(vf_selector, dict) and name == "rdma",
        strategy=_read_choice(builder, hint, "allocateStrategy", _STRATEGIES),
        scope=_SCOPES.get(scope),
        exclusive=policy == "DeviceLevel",
    )


def _read_joint(
    builder: RequestBuilder, types: set[str], type_hints: Mapping[str, DeviceHint]
) -> tuple[JointAllocation | None, tuple[str, ...]]:
    joint = _read_object(builder, JOINT)
    if not joint:
        return None, ()
    types_field = joint.get("deviceTypes")
    listed = [name for name in as_list(types_field) if isinstance(name, str)]
    if not isinstance(types_field, list) or len(listed) != len(types_field):
        builder.findings.append(
            annotation_json.unreadable_annotation(JOINT, "deviceTypes must be a list of strings")
        )
        return None, ()
    for name in listed:
        if name not in _KINDS:
            _add_unknown_value(builder, JOINT, "device type", name, tuple(_KINDS))
    scope = _read_choice(builder, joint, "requiredScope", ("SamePCIe",), JOINT)
    every = {name for name, hint in type_hints.items() if hint.strategy == "ApplyForAll"}
    joined = tuple([name for name in dict.fromkeys(listed) if name in types - every])
    if len(joined) < 2:
        why = "the annotation has no effect, because the pod requests fewer than 2 of the types"
        add_no_effect(builder, JOINT, why)
        return None, ()
    primary = _KINDS[joined[0]]
    allocation = JointAllocation(
        "joint", primary, TopologyScope.PCIE, required=bool(scope), annotation=JOINT
    )
    return allocation, joined


def _read_partition(builder: RequestBuilder) -> Colocation | None:
    if PARTITION not in builder.pod.annotations:
        return None
    partition = _read_object(builder, PARTITION)
    if partition.get("ringBusBandwidth") is not None:
        builder.findings.append(
            RESTRICTION_LOST.at(
                annotation_path(PARTITION),
                "ringBusBandwidth is not carried over, because it is not a device attribute",
            )
        )
    policy = _read_choice(
        builder, partition, "allocatePolicy", ("Restricted", "BestEffort"), PARTITION
    )
    required = policy == "Restricted"
    return Colocation(TopologyScope.LINK, required=required, annotation=PARTITION)


def _read_choice(
    builder: RequestBuilder,
    fields: Mapping[str, Value],
    name: str,
    allowed: tuple[str, ...],
    key: str = HINT,
) -> str:
    value = fields.get(name)
    if value is None or value == "":
        return ""
    if isinstance(value, str) and value in allowed:
        return value
    _add_unknown_value(builder, key, name, value, allowed)
    return ""


def _add_unknown_value(
    builder: RequestBuilder, key: str, field: str, value: Value, allowed: tuple[str, ...]
) -> None:
    # Without a suggestion: a tenant can write thousands of values.
    words = join_words(allowed, "or")
    message = f"{field} must be {words}, not {describe_value(value)}"
    builder.findings.append(WORD_UNKNOWN.at(annotation_path(key), message))


def add_no_effect(builder: RequestBuilder, key: str, why: str) -> None:
    """Report that an annotation or a part of it has no effect."""
    builder.findings.append(HINT_EMPTY.at(annotation_path(key), why))


def _read_selector(
    builder: RequestBuilder, kind: str, selector: Mapping[str, Value], legacy: Legacy
) -> list[AskSelector]:
    """Read a label selector. Labels without a mapped attribute are dropped with a finding."""
    if not selector:
        return []
    attributes = cast("Mapping[str, Mapping[str, str]]", legacy.labels).get(kind, {})
    selectors: list[AskSelector] = []
    terms: list[tuple[str, str, tuple[str, ...]]] = [
        (key, "In", (format_value(value),))
        for key, value in as_mapping(selector.get("matchLabels")).items()
    ]
    for term in map(as_mapping, as_list(selector.get("matchExpressions"))):
        values = tuple(map(format_value, as_list(term.get("values"))))
        terms.append((format_value(term.get("key")), format_value(term.get("operator")), values))
    for key, operator, values in terms:
        label_selector = _label(key, operator, values, str(attributes.get(key, "")))
        if label_selector is None:
            _add_unknown_value(
                builder, HINT, "operator", operator, ("In", "NotIn", "Exists", "DoesNotExist")
            )
        elif key in attributes:
            selectors.append(label_selector)
        else:
            builder.findings.append(
                LABEL_DROPPED.at(
                    annotation_path(HINT),
                    f"dropped the label {key} of {kind} devices; it is not mapped to an attribute",
                )
            )
    return selectors


def _label(key: str, operator: str, values: tuple[str, ...], attribute: str) -> AskSelector | None:
    inside = DeviceLabel(key, LabelOperator.IN, values, attribute)
    exists = DeviceLabel(key, LabelOperator.EXISTS, (), attribute)
    made: dict[str, AskSelector] = {
        "In": inside, "NotIn": Not(inside), "Exists": exists, "DoesNotExist": Not(exists),
    }  # fmt: skip
    return made.get(operator)
