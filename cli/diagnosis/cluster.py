"""The checks of `drawbridge doctor` about the cluster: API server, devices and nodes."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec

from cli.diagnosis import codes
from cli.diagnosis.checked_state import CheckedState, Result
from cli.diagnosis.state import KUEUE, KUEUE_CONFIG_MAP
from cli.diagnosis.unread import Unread, need
from controller.dual_nodes import describe_held_node, describe_outlived_plugin
from controller.node_plugins import DriversByName
from drawbridge.agreement.dual_nodes import describe_dual_nodes
from drawbridge.agreement.operation_codes import SERVER_VERSION_UNKNOWN
from drawbridge.agreement.owned_pools import (
    decide_node,
    find_unfenced_nodes,
    report_closed_nodes,
    report_disagreement,
    report_missing_drivers,
    report_selection,
    report_shared_pools,
    report_unfenced_nodes,
)
from drawbridge.agreement.slice_limits import report_crowded
from drawbridge.agreement.targets_in_cluster import find_missing_classes, report_quotas
from drawbridge.cel.dra import Selectors
from drawbridge.config.codes import TARGET_CLASS_MISSING
from drawbridge.config.placement import decide_placements, owned_pools
from drawbridge.config.policy import apply_policies, compatibility_declarations, device_quotas
from drawbridge.documents.document import Source
from drawbridge.documents.paths import get_value
from drawbridge.documents.read import read_documents
from drawbridge.documents.values import as_mapping
from drawbridge.dra.compatibility import UnsetGroups
from drawbridge.dra.counted import count_noun
from drawbridge.dra.gates import VERSIONS, Gates, gates_of_version
from drawbridge.dra.inventory import build_inventory
from drawbridge.facts.codes import CLASS_NAME_IGNORED
from drawbridge.facts.model import GATE_OF_FIELD
from drawbridge.finding import Finding, Severity
from drawbridge.judge.slices.checks import judge_slices
from drawbridge.judge.slices.classes import judge_classes
from drawbridge.ledger.quota_lines import measure_quotas, report_exceeded
from drawbridge.names import DUAL_LABEL
from drawbridge.pod_groups import Member, find_group
from drawbridge.report.scheduling import scheduler_of
from drawbridge.translate.changes.group_members import report_split_gangs
from drawbridge.translate.changes.queues import (
    find_covered,
    find_unmapped_classes,
    merge_mappings,
    read_mappings,
)
from drawbridge.translate.context import make_context

_MOST_FINDINGS: Final = 20


# --- API server ----------------------------------------------------------------------------------


def check_version(checked: CheckedState) -> Iterator[Result]:
    """Say which version of Kubernetes Drawbridge assumes."""
    version = checked.state.version
    if isinstance(gates_of_version(version), Gates):
        yield f"Kubernetes {version}"
        return
    if checked.gates.version == VERSIONS[0]:
        message = f"Kubernetes {version} is older than {VERSIONS[0]}, whose DRA Drawbridge needs"
        remedy = f"Upgrade the cluster to Kubernetes {VERSIONS[0]} or later."
        too_old = SERVER_VERSION_UNKNOWN.at("", message, remedy=remedy)
        yield msgspec.structs.replace(too_old, severity=Severity.ERROR)
        return
    message = f"Kubernetes {version} is not known; Drawbridge assumes {checked.gates.version}"
    yield SERVER_VERSION_UNKNOWN.at("", message)


def check_fields(checked: CheckedState) -> Iterator[Result]:
    """Compare the fields that the API server stores with the defaults of its version."""
    stored = need(checked.state.stored_fields)
    version = checked.gates.version
    defaults = gates_of_version(version)
    for field, gate in GATE_OF_FIELD.items():
        if field not in stored and getattr(defaults, gate):
            message = f"the API server drops {field}, although Kubernetes {version} stores it"
            remedy = f"Enable the feature gate {_gate_name(gate)} on the API server, the "
            remedy += "controller manager and the scheduler."
            yield codes.FIELD_NOT_STORED.at(field, message, remedy=remedy)
    dropped = [
        f"{field} ({_gate_name(gate)} is off)"
        for field, gate in GATE_OF_FIELD.items()
        if field not in stored and not getattr(defaults, gate)
    ]
    without = f"; not {', '.join(dropped)}" if dropped else ""
    yield f"stores {', '.join(stored) or 'no optional field'}{without}"


def _gate_name(field: str) -> str:
    return f"DRA{''.join(part.title() for part in field.split('_'))}"


# --- devices -------------------------------------------------------------------------------------


def check_drivers(checked: CheckedState) -> Iterator[Result]:
    """Count the devices that each driver publishes."""
    checked.need("ResourceSlice")
    drivers = checked.gathered.facts.drivers
    told = (f"{each.name} {count_noun(each.devices, 'device')}" for each in drivers)
    none = codes.NO_DRIVER_PUBLISHES.at("", "no driver publishes devices")
    yield ", ".join(told) or none


def check_classes(checked: CheckedState) -> Iterator[Result]:
    """Look for classes without a device."""
    checked.need("DeviceClass", "ResourceSlice")
    facts = checked.gathered.facts
    total = sum(each.devices for each in facts.drivers)
    empty = [each.name for each in facts.classes if not each.devices]
    for name in empty:
        message = f"DeviceClass {name} selects none of {count_noun(total, 'device')}"
        yield codes.CLASS_SELECTS_NOTHING.at("", message, object=f"DeviceClass/{name}")
    findings = checked.gathered.findings
    yield from (each for each in findings if each.code == CLASS_NAME_IGNORED.name)
    told = (f"{each.name} {each.devices}" for each in facts.classes if each.devices)
    yield f"devices by class: {', '.join(told) or 'none'}"


def check_slices(checked: CheckedState) -> Iterator[Result]:
    """Judge what drivers publish, as `drawbridge check` does."""
    checked.need("ResourceSlice")
    objects, configuration = checked.objects, checked.configuration
    selectors = Selectors.of_gates(checked.gates)
    judged: list[Finding] = [each.finding for each in objects.findings]
    judged += judge_slices(
        objects.slices,
        UnsetGroups(configuration.unset_groups),
        compatibility_declarations(configuration),
        selectors,
    )
    # What is wrong with a class without a device is told by the check of the classes.
    empty = {each.name for each in checked.gathered.facts.classes if not each.devices}
    classes = [each for each in objects.classes if each.metadata.name not in empty]
    judged += judge_classes(classes, objects.slices, selectors)
    told = apply_policies(judged, configuration.findings)
    problems = [each for each in told if each.severity is not Severity.INFO]
    for finding in problems[:_MOST_FINDINGS]:
        yield msgspec.structs.replace(finding, message=f"{finding.object}: {finding.message}")
    hidden = len(problems) - _MOST_FINDINGS
    if hidden > 0:
        yield f"{count_noun(hidden, 'more finding')}; save the slices and run lint"
    if not problems:
        looked = f"{count_noun(len(objects.slices), 'ResourceSlice')}, "
        looked += count_noun(len(classes), "DeviceClass", "DeviceClasses")
        yield f"{looked}: no findings"


def check_nodes(checked: CheckedState) -> Iterator[Result]:
    """Look for nodes on which a plugin and a driver offer the same devices."""
    checked.need("Node", "ResourceSlice")
    nodes = count_noun(len(checked.objects.nodes), "node")
    dual = describe_dual_nodes(checked.gathered.dual_nodes)
    told = [*([dual] if dual else []), *_find_held_nodes(checked)]
    yield from told or [f"{nodes}; none offers a device through a plugin and through DRA"]


def _find_held_nodes(checked: CheckedState) -> Iterator[Result]:
    """Yield which pods outlive the plugin of their node, and why nodes keep the label."""
    dual = {each.node for each in checked.gathered.dual_nodes if not each.stopped}
    by_name = DriversByName(make_context(checked.configuration, checked.gathered.facts))
    for node in need(checked.state.published["Node"]):
        name = f"{get_value(node, ('metadata', 'name'))}"
        pods = checked.state.labelled.get(name, [])
        if name in dual or name not in checked.state.labelled:
            continue
        if isinstance(pods, Unread):
            held: Result | None = pods
        elif DUAL_LABEL in as_mapping(get_value(node, ("metadata", "labels"))):
            published = checked.gathered.publishing.get(name, frozenset())
            held = describe_held_node(name, node, pods, published, by_name)
        else:
            held = describe_outlived_plugin(name, node, pods, by_name)
        if held is not None:
            yield held


def check_targets(checked: CheckedState) -> Iterator[Result]:
    """Look for classes of the configuration that do not exist."""
    checked.need("DeviceClass")
    exist = {each.metadata.name for each in checked.objects.classes}
    for path, message in find_missing_classes(checked.configuration, exist):
        yield TARGET_CLASS_MISSING.at(path, f"{path}: {message}")


def check_quotas(checked: CheckedState) -> Iterator[Result]:
    """Look for namespaces that quotas name and that do not exist, and for who uses more."""
    names = [*_check_names_of_quotas(checked)]
    yield from names
    if not checked.unread("DeviceClass", "ResourceSlice"):
        objects, selectors = checked.objects, Selectors.of_gates(checked.gates)
        for each in report_quotas(
            checked.configuration, objects.classes, objects.slices, selectors
        ):
            yield msgspec.structs.replace(each, message=f"{each.path}: {each.message}")
    if not checked.configuration.quotas or any(isinstance(each, Unread) for each in names):
        return
    checked.need("ResourceClaim", "ResourceSlice")
    read = checked.state.namespaces
    labels = {} if isinstance(read, Unread) else read
    placements = decide_placements(labels, checked.configuration)
    inventory = build_inventory(checked.objects.slices, gates=checked.gates)
    quotas, claims = device_quotas(checked.configuration), checked.objects.claims
    use = measure_quotas(quotas, inventory, claims, labels)
    lines = [*use.list_lines()]
    exceeded = [each for each in lines if each.is_exceeded]
    yield from (report_exceeded(each, placements) for each in exceeded[:_MOST_FINDINGS])
    full = sum(each.limit == each.used for each in lines)
    used = count_noun(len(lines), "total of a quota in use", "totals of quotas in use")
    yield f"{used}: {len(exceeded)} exceeded, {full} used up"


def _check_names_of_quotas(checked: CheckedState) -> Iterator[Result]:
    named = {
        f"quotas[{i}].namespaces[{at}]": name
        for i, quota in enumerate(checked.configuration.quotas)
        for at, name in enumerate(quota.namespaces)
    }
    namespaces = checked.state.namespaces
    if named and isinstance(namespaces, Unread):
        yield namespaces
    elif named and not checked.lists_namespaces:
        yield Unread("you may not list namespaces", is_forbidden=True)
    elif not isinstance(namespaces, Unread):
        for path, name in named.items():
            if name not in namespaces:
                message = f"{path}: namespace {name} does not exist"
                yield codes.QUOTA_NAMESPACE_MISSING.at(path, message)


def check_fence(checked: CheckedState) -> Iterator[Result]:
    """Look for nodes without the taint or with a wrong one, and for wrong selectors."""
    owned = owned_pools(checked.configuration)
    if not owned:
        return
    checked.need("Node", "ResourceSlice")
    nodes = {each.name: decide_node(owned, each.labels) for each in checked.objects.nodes}
    problems = (
        report_unfenced_nodes(find_unfenced_nodes(owned, checked.objects.nodes, rules_hold=True)),
        report_closed_nodes(owned, checked.objects.nodes),
        report_selection(owned, nodes),
        report_disagreement(nodes),
        *report_missing_drivers(owned, checked.objects.slices),
        *report_shared_pools(owned, checked.objects.slices)[:_MOST_FINDINGS],
        *islice(report_crowded(owned, checked.objects.slices), _MOST_FINDINGS),
    )
    told: list[Result] = [each for each in problems if each is not None]
    count = count_noun(sum(each.owned for each in nodes.values()), "owned node")
    yield from told or [f"{count}; each that needs the taint has it"]


def check_queues(checked: CheckedState) -> Iterator[Result]:
    """Compare the DeviceClasses that Kueue maps to names with those that have devices."""
    kueue, queues = checked.state.kueue, checked.state.cluster_queues
    if kueue is None:
        if queues and not isinstance(queues, Unread):
            yield Unread(f"ConfigMap {KUEUE_CONFIG_MAP} is not in namespace {KUEUE}")
        return
    texts = as_mapping(need(kueue).get("data"))
    checked.need("DeviceClass", "ResourceSlice")
    mappings = merge_mappings(
        read_mappings(document.value)
        for text in texts.values()
        for document in read_documents(Source("", f"{text}".encode()))
    )
    facts = checked.gathered.facts
    if isinstance(queues, Unread):
        yield queues
        queues = ()
    covered = find_covered(queues)
    told: list[Result] = [*find_unmapped_classes(mappings, covered, facts, checked.configuration)]
    yield from told or [f"Kueue maps {count_noun(len(mappings), 'name')} to DeviceClasses"]


def check_gangs(checked: CheckedState) -> Iterator[Result]:
    """Look for gangs that wait because their members have several schedulers."""
    members = [
        Member(group, f"{get_value(pod, ('metadata', 'name'))}", scheduler_of(pod))
        for pod in need(checked.state.waiting_pods)
        if (group := find_group(pod)) is not None
    ]
    split = [finding for _, finding in report_split_gangs(members)]
    yield from split[:_MOST_FINDINGS]
    gangs = {each.group for each in members if each.group.is_gang}
    if gangs and not split:
        yield f"{count_noun(len(gangs), 'gang')} with waiting pods; each has one scheduler"
