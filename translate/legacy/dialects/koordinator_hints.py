"""Koordinator's annotations: which devices go together, which of them, and in which partition.

Read as its scheduler reads them; JSON that does not parse is refused with its place. Knows nothing
of resources but which types of device are asked for.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from config.model import Legacy
from documents.values import Value
from translate.legacy import annotation_json
from translate.legacy.asks import Ask, Distinct, Joint, Kind, Scope, Together
from translate.legacy.codes import (
    AMOUNT_REFUSED,
    HINT_EMPTY,
    HINT_LOST,
    LABEL_DROPPED,
    WORD_UNKNOWN,
)
from translate.legacy.draft import Draft
from translate.legacy.pod_view import annotation_path, items, mapping, text
from translate.legacy.selectors import DeviceLabel, Nic, NicKind, Not, Operator, Selector

_PREFIX: Final = "scheduling.koordinator.sh/"
JOINT: Final = f"{_PREFIX}device-joint-allocate"
HINT: Final = f"{_PREFIX}device-allocate-hint"
PARTITION: Final = f"{_PREFIX}gpu-partition-spec"
KEYS: Final = (JOINT, HINT, PARTITION)
_OTHERS: Final = (_PREFIX, "gang.scheduling.koordinator.sh/")
_KINDS: Final = {"gpu": Kind.GPU, "rdma": Kind.NIC, "fpga": Kind.OTHER}
_SCOPES: Final = {
    "Device": Scope.DEVICE, "PCIe": Scope.PCIE, "NUMANode": Scope.NUMA, "Node": Scope.NODE,
}  # fmt: skip
_STRATEGIES: Final = ("ApplyForAll", "RequestsAsCount")
_POLICIES: Final = ("DeviceLevel", "PCIeLevel")
_LINKED: Final = (2, 4, 8)


class Hint(msgspec.Struct, frozen=True):
    """What the pod says of one type of device."""

    selector: Mapping[str, Value] = {}
    functions: Mapping[str, Value] = {}
    virtual: bool = False
    strategy: str = ""
    scope: Scope | None = None
    exclusive: bool = False


class Hints(msgspec.Struct, frozen=True):
    """What the pod's annotations say."""

    types: Mapping[str, Hint] = {}
    joint: Joint | None = None
    joined: tuple[str, ...] = ()
    partition: Together | None = None


_NO_HINT: Final = Hint()


def read(draft: Draft, asked: Mapping[str, int]) -> Hints:
    """Read the annotations of a pod that asks for these resources, by their short names."""
    types = {name for name in ("rdma", "fpga") if name in asked}
    if set(asked) - types:
        types.add("gpu")
    found = {name: _hint(draft, name, value) for name, value in _map(draft, HINT).items()}
    for name in found:
        if name not in types:
            _say_empty(draft, HINT, f"no device of type {name} is asked for")
    joint, joined = _joint(draft, types, found)
    for key in draft.pod.annotations:
        if key.startswith(_OTHERS) and key not in KEYS:
            draft.findings.append(
                HINT_LOST.at(annotation_path(key), "only Koordinator's scheduler acts on it")
            )
    return Hints(found, joint, joined, _partition(draft))


def applied(draft: Draft, ask: Ask, kind: str, said: Hints, legacy: Legacy) -> Ask:
    """Return the ask with what the annotations say of its type."""
    hint = said.types.get(kind, _NO_HINT)
    selectors: list[Selector] = []
    distinct = Distinct.DEVICE
    if kind == "rdma":
        selectors.append(Nic(NicKind.RDMA))
        if hint.virtual:
            selectors.append(Nic(NicKind.VF))
            distinct = Distinct.PARENT
        elif hint.exclusive:
            selectors.append(Nic(NicKind.PF))
    selectors += _labels(draft, kind, hint.selector, legacy)
    selectors += _labels(draft, kind, hint.functions, legacy)
    together = Together(hint.scope) if hint.scope not in {None, Scope.NODE} else None
    if kind == "gpu" and said.partition and (said.partition.required or together is None):
        together = _linked(draft, ask, said.partition) or together
    if hint.scope is Scope.DEVICE and (ask.count or 0) > 1:
        draft.findings.append(
            AMOUNT_REFUSED.at(
                annotation_path(HINT), f"{ask.count} devices cannot be within one {kind} device"
            )
        )
    joint = said.joint if kind in said.joined else None
    if joint and ask.kind is not joint.primary:
        # Of network devices one is as many as there are places; of GPUs it is one.
        joint = replace(joint, counted=ask.kind is Kind.GPU or (ask.count or 0) > 1)
    return replace(
        ask, selectors=tuple(selectors), distinct=distinct, together=together, joint=joint
    )


def _linked(draft: Draft, ask: Ask, partition: Together) -> Together | None:
    if ask.share is not None and (ask.count or 0) > 1:
        draft.findings.append(
            AMOUNT_REFUSED.at(
                annotation_path(PARTITION), "shares of several GPUs are in no partition of links"
            )
        )
        return None
    if ask.count in _LINKED:
        return partition
    if ask.count != 1 and partition.required:
        draft.findings.append(
            HINT_LOST.at(
                annotation_path(PARTITION),
                f"partitions have 1, 2, 4 or 8 GPUs, and {ask.count} are asked for",
            )
        )
    return None


def _map(draft: Draft, key: str) -> Mapping[str, Value]:
    said = draft.pod.annotations.get(key)
    if said is None:
        return {}
    value, problem = annotation_json.read(key, said)
    if problem is None and value is not None and not isinstance(value, dict):
        problem = annotation_json.unreadable(key, "it is JSON, and no object")
    if problem:
        draft.findings.append(problem)
    return mapping(value)


def _hint(draft: Draft, name: str, value: Value) -> Hint:
    said = mapping(value)
    if value is not None and not isinstance(value, dict):
        draft.findings.append(
            annotation_json.unreadable(HINT, f"what stands at {name} is no object")
        )
    if name not in _KINDS:
        _say_unknown(draft, HINT, name, tuple(_KINDS))
    policy = _word(draft, said, "exclusivePolicy", _POLICIES)
    if policy == "PCIeLevel":
        _say_empty(draft, HINT, "exclusivePolicy PCIeLevel has no effect in Koordinator either")
    scope = _word(draft, said, "requiredTopologyScope", tuple(_SCOPES))
    functions = said.get("vfSelector")
    for key in ("selector", "vfSelector"):
        if said.get(key) is not None and not isinstance(said[key], dict):
            draft.findings.append(annotation_json.unreadable(HINT, f"{name}.{key} is no object"))
    return Hint(
        selector=mapping(said.get("selector")),
        functions=mapping(functions),
        virtual=isinstance(functions, dict) and name == "rdma",
        strategy=_word(draft, said, "allocateStrategy", _STRATEGIES),
        scope=_SCOPES.get(scope),
        exclusive=policy == "DeviceLevel",
    )


def _joint(
    draft: Draft, types: set[str], found: Mapping[str, Hint]
) -> tuple[Joint | None, tuple[str, ...]]:
    said = _map(draft, JOINT)
    if not said:
        return None, ()
    listed = [name for name in items(said.get("deviceTypes")) if isinstance(name, str)]
    if not isinstance(said.get("deviceTypes"), list) or len(listed) != len(
        items(said["deviceTypes"])
    ):
        draft.findings.append(annotation_json.unreadable(JOINT, "deviceTypes is no list of texts"))
        return None, ()
    for name in listed:
        if name not in _KINDS:
            _say_unknown(draft, JOINT, name, tuple(_KINDS))
    scope = _word(draft, said, "requiredScope", ("SamePCIe",), JOINT)
    joined = tuple(
        [
            name
            for name in dict.fromkeys(listed)
            if name in types and found.get(name, _NO_HINT).strategy != "ApplyForAll"
        ]
    )
    if len(joined) < 2:
        _say_empty(draft, JOINT, "fewer than two of its types are asked for, so nothing is joined")
        return None, ()
    return Joint("joint", _KINDS[joined[0]], Scope.PCIE, required=bool(scope)), joined


def _partition(draft: Draft) -> Together | None:
    if PARTITION not in draft.pod.annotations:
        return None
    said = _map(draft, PARTITION)
    if said.get("ringBusBandwidth") is not None:
        draft.findings.append(
            HINT_LOST.at(
                annotation_path(PARTITION), "ringBusBandwidth is no attribute of any device"
            )
        )
    policy = _word(draft, said, "allocatePolicy", ("Restricted", "BestEffort"), PARTITION)
    return Together(Scope.LINK, required=policy == "Restricted")


def _word(
    draft: Draft, said: Mapping[str, Value], name: str, allowed: tuple[str, ...], key: str = HINT
) -> str:
    value = said.get(name)
    if value is None or value == "":
        return ""
    if isinstance(value, str) and value in allowed:
        return value
    _say_unknown(draft, key, f"{name} {text(value)}", allowed)
    return ""


def _say_unknown(draft: Draft, key: str, what: str, allowed: tuple[str, ...]) -> None:
    draft.findings.append(
        WORD_UNKNOWN.at(annotation_path(key), f"{text(what)} is none of {', '.join(allowed)}")
    )


def _say_empty(draft: Draft, key: str, why: str) -> None:
    draft.findings.append(HINT_EMPTY.at(annotation_path(key), why))


def _labels(
    draft: Draft, kind: str, selector: Mapping[str, Value], legacy: Legacy
) -> list[Selector]:
    """Read a label selector; labels that are mapped to no attribute are dropped aloud."""
    if not selector:
        return []
    attributes = cast("Mapping[str, Mapping[str, str]]", legacy.labels).get(kind, {})
    found: list[Selector] = []
    terms: list[tuple[str, str, tuple[str, ...]]] = [
        (key, "In", (text(value),)) for key, value in mapping(selector.get("matchLabels")).items()
    ]
    for term in map(mapping, items(selector.get("matchExpressions"))):
        values = tuple(map(text, items(term.get("values"))))
        terms.append((text(term.get("key")), text(term.get("operator")), values))
    for key, operator, values in terms:
        made = _label(key, operator, values, str(attributes.get(key, "")))
        if made is None:
            _say_unknown(
                draft, HINT, f"operator {operator}", ("In", "NotIn", "Exists", "DoesNotExist")
            )
        elif key in attributes:
            found.append(made)
        else:
            draft.findings.append(
                LABEL_DROPPED.at(
                    annotation_path(HINT), f"{key} of {kind} devices is mapped to no attribute"
                )
            )
    return found


def _label(key: str, operator: str, values: tuple[str, ...], attribute: str) -> Selector | None:
    inside = DeviceLabel(key, Operator.IN, values, attribute)
    exists = DeviceLabel(key, Operator.EXISTS, (), attribute)
    made: dict[str, Selector] = {
        "In": inside, "NotIn": Not(inside), "Exists": exists, "DoesNotExist": Not(exists),
    }  # fmt: skip
    return made.get(operator)
