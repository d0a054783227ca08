"""The checks of `drawbridge doctor` about the cluster: API server, devices, nodes and rights.

Each check yields a line for each problem, or one line that says what is right.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from cli.diagnosis import codes
from cli.diagnosis.installation import INSTALLATION_CHECKS
from cli.diagnosis.line import DoctorLine, Status, found, not_checked, passed
from cli.diagnosis.state import PURPOSES, ClusterState, Unread
from cli.facts import facts_input
from cli.input.cluster_objects import ClusterObjects, sort_documents
from cli.input.live_cluster import as_documents
from controller.field_probe import infer_gates
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.agreement.operation_codes import SERVER_VERSION_UNKNOWN
from drawbridge.agreement.owned_pools import (
    decide_node,
    find_unfenced_nodes,
    owned_pools,
    report_disagreement,
    report_selection,
    report_shared_pools,
    report_unfenced_nodes,
)
from drawbridge.cel.dra import Selectors
from drawbridge.config.model import Configuration
from drawbridge.config.policy import apply_policies, compatibility_declarations
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.counted import count_noun
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.facts.gather import GATE_OF_FIELD, GatheredFacts, gather_facts
from drawbridge.finding import Finding
from drawbridge.judge.slices.checks import judge_slices
from drawbridge.judge.slices.classes import judge_classes

_MOST_FINDINGS: Final = 20


class CheckedState(msgspec.Struct, frozen=True):
    """The state, and what is derived from it once."""

    state: ClusterState
    configuration: Configuration
    gates: Gates
    objects: ClusterObjects
    gathered: GatheredFacts


def check_state(state: ClusterState, configuration: Configuration) -> tuple[DoctorLine, ...]:
    """Return the lines of all checks."""
    checked = _derive(state, configuration)
    return (
        *(line for check in _CLUSTER_CHECKS for line in check(checked)),
        *(line for check in INSTALLATION_CHECKS for line in check(state, configuration)),
        *_check_rights(checked),
    )


def _derive(state: ClusterState, configuration: Configuration) -> CheckedState:
    stored = None if isinstance(state.stored_fields, Unread) else state.stored_fields
    gates, _ = infer_gates(state.version, stored)
    read = [
        value for kind in state.published.values() if not isinstance(kind, Unread) for value in kind
    ]
    objects = sort_documents(as_documents(read))
    gathered = gather_facts(facts_input(objects), configuration, gates, stored)
    return CheckedState(state, configuration, gates, objects, gathered)


def _unread(checked: CheckedState, check: str, *kinds: str) -> list[DoctorLine]:
    """Return a line for each of the kinds that could not be read."""
    parts = (checked.state.published[kind] for kind in kinds)
    return [not_checked(check, each.reason) for each in parts if isinstance(each, Unread)]


# --- API server ----------------------------------------------------------------------------------

_SERVER: Final = "API server"
_FIELDS: Final = "claim fields"


def _check_version(checked: CheckedState) -> Iterator[DoctorLine]:
    version = checked.state.version
    if isinstance(gates_of_version(version), Gates):
        yield passed(_SERVER, f"Kubernetes {version}")
        return
    message = f"Kubernetes {version} is not known; Drawbridge assumes {checked.gates.version}"
    yield found(_SERVER, SERVER_VERSION_UNKNOWN.at("", message))


def _check_fields(checked: CheckedState) -> Iterator[DoctorLine]:
    """Compare the fields that the API server stores with the defaults of its version."""
    stored = checked.state.stored_fields
    if isinstance(stored, Unread):
        yield not_checked(_FIELDS, stored.reason)
        return
    version = checked.gates.version
    defaults = gates_of_version(version)
    for field, gate in GATE_OF_FIELD.items():
        if field not in stored and getattr(defaults, gate):
            message = f"the API server drops {field}, although Kubernetes {version} stores it"
            remedy = f"Enable the feature gate {_gate_name(gate)} on the API server, the "
            remedy += "controller manager and the scheduler."
            yield found(_FIELDS, codes.FIELD_NOT_STORED.at(field, message, remedy=remedy))
    dropped = [
        f"{field} ({_gate_name(gate)} is off)"
        for field, gate in GATE_OF_FIELD.items()
        if field not in stored and not getattr(defaults, gate)
    ]
    without = f"; not {', '.join(dropped)}" if dropped else ""
    yield passed(_FIELDS, f"stores {', '.join(stored) or 'no optional field'}{without}")


def _gate_name(field: str) -> str:
    return f"DRA{''.join(part.title() for part in field.split('_'))}"


# --- devices -------------------------------------------------------------------------------------

_DRIVERS: Final = "drivers"
_CLASSES: Final = "DeviceClasses"
_SLICES: Final = "ResourceSlices"
_NODES: Final = "nodes"
_OWNED: Final = "owned nodes"


def _check_drivers(checked: CheckedState) -> Iterator[DoctorLine]:
    if missing := _unread(checked, _DRIVERS, "ResourceSlice"):
        yield from missing
    elif not checked.gathered.facts.drivers:
        yield found(_DRIVERS, codes.NO_DRIVER_PUBLISHES.at("", "no driver publishes devices"))
    else:
        drivers = checked.gathered.facts.drivers
        told = (f"{each.name} {count_noun(each.devices, 'device')}" for each in drivers)
        yield passed(_DRIVERS, ", ".join(told))


def _check_classes(checked: CheckedState) -> Iterator[DoctorLine]:
    if missing := _unread(checked, _CLASSES, "DeviceClass", "ResourceSlice"):
        yield from missing
        return
    facts = checked.gathered.facts
    total = sum(each.devices for each in facts.drivers)
    empty = [each.name for each in facts.classes if not each.devices]
    for name in empty:
        message = f"DeviceClass {name} selects none of {count_noun(total, 'device')}"
        yield found(
            _CLASSES, codes.CLASS_SELECTS_NOTHING.at("", message, object=f"DeviceClass/{name}")
        )
    told = (f"{each.name} {each.devices}" for each in facts.classes if each.devices)
    yield passed(_CLASSES, f"devices by class: {', '.join(told) or 'none'}")


def _check_slices(checked: CheckedState) -> Iterator[DoctorLine]:
    """Judge what drivers publish, as `drawbridge lint` does."""
    if missing := _unread(checked, _SLICES, "ResourceSlice"):
        yield from missing
        return
    objects, configuration = checked.objects, checked.configuration
    selectors = Selectors.of_gates(checked.gates)
    judged: list[Finding] = [each.finding for each in objects.findings]
    judged += judge_slices(
        objects.slices,
        UnsetGroups(configuration.unset_groups),
        compatibility_declarations(configuration),
        selectors,
    )
    judged += judge_classes(objects.classes, objects.slices, selectors)
    lines = [found(_SLICES, each) for each in apply_policies(judged, configuration.findings)]
    problems = [each for each in lines if each.status is not Status.OK]
    for line in problems[:_MOST_FINDINGS]:
        yield msgspec.structs.replace(line, message=f"{line.object}: {line.message}")
    hidden = len(problems) - _MOST_FINDINGS
    if hidden > 0:
        yield passed(_SLICES, f"{count_noun(hidden, 'more finding')}; save the slices and run lint")
    if not problems:
        looked = f"{count_noun(len(objects.slices), 'ResourceSlice')}, "
        looked += count_noun(len(objects.classes), "DeviceClass", "DeviceClasses")
        yield passed(_SLICES, f"{looked}: no findings")


def _check_nodes(checked: CheckedState) -> Iterator[DoctorLine]:
    """Look for nodes on which a plugin and a driver offer the same devices."""
    if missing := _unread(checked, _NODES, "Node", "ResourceSlice"):
        yield from missing
        return
    nodes = count_noun(len(checked.objects.nodes), "node")
    dual = describe_dual_nodes(checked.gathered.dual_nodes)
    if dual is not None:
        yield found(_NODES, dual)
    else:
        yield passed(_NODES, f"{nodes}; none offers a device through a plugin and through DRA")


def _check_fence(checked: CheckedState) -> Iterator[DoctorLine]:
    """Look for owned nodes without their taint, and for selectors that match none or all."""
    owned = owned_pools(checked.configuration)
    if not owned:
        return
    if missing := _unread(checked, _OWNED, "Node", "ResourceSlice"):
        yield from missing
        return
    nodes = {each.name: decide_node(owned, each.labels) for each in checked.objects.nodes}
    problems = (
        report_unfenced_nodes(find_unfenced_nodes(owned, checked.objects.nodes)),
        report_selection(owned, nodes),
        report_disagreement(nodes),
        *report_shared_pools(owned, checked.objects.slices)[:_MOST_FINDINGS],
    )
    told = [found(_OWNED, each) for each in problems if each is not None]
    count = count_noun(sum(each.owned for each in nodes.values()), "owned node")
    yield from told or [passed(_OWNED, f"{count}; each that needs the taint has it")]


_CLUSTER_CHECKS: Final[tuple[Callable[[CheckedState], Iterator[DoctorLine]], ...]] = (
    _check_version,
    _check_fields,
    _check_drivers,
    _check_classes,
    _check_slices,
    _check_nodes,
    _check_fence,
)


# --- rights --------------------------------------------------------------------------------------


def _check_rights(checked: CheckedState) -> Iterator[DoctorLine]:
    """Say what the caller may do in the cluster and in the own namespace."""
    namespace = checked.state.namespace
    for purpose in PURPOSES:
        missing = checked.state.missing_rights.get(purpose.text, ())
        where = f" in namespace {namespace}" if purpose.rights[0].namespaced else ""
        if not missing:
            yield passed("your rights", f"you may {purpose.text}{where}")
            continue
        lacking = ", ".join(map(str, missing))
        message = f"you may not {lacking}{where}, so you cannot {purpose.text}"
        remedy = f"Ask the cluster administrator for {purpose.role}."
        yield found("your rights", codes.RIGHT_MISSING.at("", message, remedy=remedy))
