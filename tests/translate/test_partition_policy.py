"""Tests of Koordinator's partition policy: its pods on nodes that honor GPU partitions."""

import functools
import json

import msgspec
import pytest

from drawbridge.config.model import Configuration, Placement
from drawbridge.config.partitions import Partitions
from drawbridge.config.string_formats import AttributeName, DriverName
from drawbridge.dra.nodes import Node
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.facts.model import Driver, Facts, PartitionPolicy
from drawbridge.facts.serialized import facts_to_plain, read_facts
from drawbridge.finding import Severity
from drawbridge.names import RULES_ANNOTATION
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from tests.facts.clusters import device_class, gpu, slice_of
from tests.tables import YamlValue, every_row
from tests.translate import worlds

LABEL = "node.koordinator.sh/gpu-partition-policy"
SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
NATIVE, BRIDGE = Configuration(), Configuration(placement=Placement.BRIDGE)
QUIET = {"TolerationAdded", "DriverNotOwned"}
HONOR, MIXED, PREFER = PartitionPolicy.HONOR, PartitionPolicy.MIXED, PartitionPolicy.PREFER


@functools.cache
def build_facts(policy: PartitionPolicy) -> Facts:
    """Build facts of a driver that publishes partitions of two GPUs and NUMA nodes."""
    facts = worlds.facts(("hgx-h100 gpu.nvidia.com",))
    published = facts.find_driver("gpu.nvidia.com")
    assert published is not None
    attributes = {
        **published.attributes,
        "gpu.nvidia.com/partition2": "int",
        "resource.kubernetes.io/numaNode": "int",
    }
    driver = msgspec.structs.replace(published, attributes=attributes, partition_policy=policy)
    return msgspec.structs.replace(facts, drivers=(driver,))


def translate_limits(
    limits: YamlValue,
    policy: PartitionPolicy,
    annotations: YamlValue = None,
    configuration: Configuration = NATIVE,
) -> Translation:
    container: YamlValue = {"name": "main", "resources": {"limits": limits}}
    spec = {"schedulerName": "koord-scheduler", "containers": [container]}
    pod: YamlValue = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    return translate(pod, make_context(configuration, build_facts(policy)))


def constraints(translation: Translation) -> YamlValue:
    (template,) = translation.templates
    devices: YamlValue = template.object["spec"]["spec"]["devices"]  # type: ignore[index,call-overload]
    return [each["matchAttribute"] for each in devices.get("constraints", [])]


@pytest.mark.parametrize(
    ("limits", "attributes"),
    [
        ({"koordinator.sh/gpu": 100}, []),
        ({"koordinator.sh/gpu": 200}, ["gpu.nvidia.com/partition2"]),
        ({"nvidia.com/gpu": 2}, ["gpu.nvidia.com/partition2"]),
        # No partition of four is published, so the NUMA node stands for it.
        ({"koordinator.sh/gpu": 400}, ["resource.kubernetes.io/numaNode"]),
        ({"koordinator.sh/gpu": 800}, []),
    ],
)
def test_gpus_are_kept_in_one_partition_where_all_nodes_honor_partitions(
    limits: YamlValue, attributes: YamlValue
) -> None:
    assert constraints(translate_limits(limits, HONOR)) == attributes
    assert constraints(translate_limits(limits, PREFER)) == []


@pytest.mark.parametrize(
    "limits",
    [
        {"koordinator.sh/gpu": 300},
        {"nvidia.com/gpu": 5},
        {"koordinator.sh/gpu": 600},
        {"nvidia.com/gpu": 7},
        {"nvidia.com/gpu": 16},
    ],
)
def test_a_number_of_gpus_without_a_partition_is_refused_where_all_nodes_honor_partitions(
    limits: YamlValue,
) -> None:
    translated = translate_limits(limits, HONOR)
    assert translated.edits == ()
    errors = [each for each in translated.findings if each.severity is Severity.ERROR]
    assert [each.code for each in errors] == ["AmountRefused"]
    assert "a GPU partition has 1, 2, 4 or 8 GPUs" in errors[0].message
    assert next(iter(limits)) in errors[0].message
    assert translate_limits(limits, PREFER).edits
    mixed = translate_limits(limits, MIXED)
    assert mixed.edits
    assert "MeaningChanges" in {each.code for each in mixed.findings}


def test_shares_of_several_gpus_are_refused_where_all_nodes_honor_partitions() -> None:
    """Koordinator: node(s) Unsupported Multi-Shared GPU."""
    limits = {"koordinator.sh/gpu.shared": 2, "koordinator.sh/gpu-memory-ratio": 100}
    translated = translate_limits(limits, HONOR)
    assert "AmountRefused" in {each.code for each in translated.findings}
    assert translated.edits == ()


def test_a_restricted_partition_follows_the_policy_of_every_node() -> None:
    annotations = {SPEC: json.dumps({"allocatePolicy": "Restricted"})}
    translated = translate_limits({"koordinator.sh/gpu": 200}, MIXED, annotations)
    assert constraints(translated) == ["gpu.nvidia.com/partition2"]
    assert "MeaningChanges" not in {each.code for each in translated.findings}


def near_rules(translation: Translation) -> YamlValue:
    (template,) = translation.templates
    metadata: YamlValue = template.object["spec"]["metadata"]  # type: ignore[index,call-overload]
    return json.loads(metadata["annotations"][RULES_ANNOTATION]).get("near", [])


def preferences(translation: Translation) -> YamlValue:
    return [each["attributes"] for each in near_rules(translation) if not each["required"]]


@pytest.mark.parametrize("annotations", [{}, {SPEC: "{}"}, {SPEC: '{"allocatePolicy": ""}'}])
def test_bridge_placement_prefers_a_partition(annotations: YamlValue) -> None:
    limits = {"koordinator.sh/gpu": 200}
    translated = translate_limits(limits, PREFER, annotations, BRIDGE)
    assert constraints(translated) == []
    numa = ["resource.kubernetes.io/numaNode"]
    assert preferences(translated) == [["gpu.nvidia.com/partition2"], numa]
    assert "AlignmentLost" not in {each.code for each in translated.findings}


@pytest.mark.parametrize("gpus", [300, 500])
@pytest.mark.parametrize("configuration", [NATIVE, BRIDGE], ids=["native", "bridge"])
def test_a_restricted_partition_has_1_2_4_or_8_gpus(
    gpus: int, configuration: Configuration
) -> None:
    annotations = {SPEC: json.dumps({"allocatePolicy": "Restricted"})}
    translated = translate_limits({"koordinator.sh/gpu": gpus}, PREFER, annotations, configuration)
    assert translated.edits == ()
    assert "AmountRefused" in {each.code for each in translated.findings}


CONFIGURED = Partitions(
    DriverName("gpu.nvidia.com"),
    AttributeName("gpu.nvidia.com/moduleID"),
    ((0, 1), (2, 3), (0, 1, 2, 3), (4, 5, 6)),
)


@every_row(
    ("gpus", "spec", "rules"),
    [
        (200, None, [["gpu.nvidia.com/partition2", "drawbridge.dev/partition2", False]]),
        (200, "BestEffort", [["gpu.nvidia.com/partition2", "drawbridge.dev/partition2", False]]),
        (200, "Restricted", [["gpu.nvidia.com/partition2", "drawbridge.dev/partition2", True]]),
        (400, "Restricted", [["drawbridge.dev/partition4", True]]),
        (300, None, [["drawbridge.dev/partition3", False]]),
        (500, None, []),
    ],
)
def test_bridge_placement_follows_the_configured_partitions(
    gpus: int, spec: str | None, rules: YamlValue
) -> None:
    annotations = {SPEC: json.dumps({"allocatePolicy": spec})} if spec else {}
    configuration = Configuration(placement=Placement.BRIDGE, partitions=(CONFIGURED,))
    translated = translate_limits({"koordinator.sh/gpu": gpus}, PREFER, annotations, configuration)
    assert constraints(translated) == []
    about = [[*each["attributes"], each["required"]] for each in near_rules(translated)]
    assert [each for each in about if "partition" in each[0]] == rules
    assert {each.code for each in translated.findings} <= {"SchedulerLeft", "SchedulerOurs", *QUIET}


def test_native_placement_does_not_see_the_configured_partitions() -> None:
    annotations = {SPEC: json.dumps({"allocatePolicy": "Restricted"})}
    configuration = Configuration(partitions=(CONFIGURED,))
    translated = translate_limits({"koordinator.sh/gpu": 400}, PREFER, annotations, configuration)
    assert constraints(translated) == ["resource.kubernetes.io/numaNode"]


def test_bridge_placement_requires_a_partition_where_all_nodes_honor_partitions() -> None:
    translated = translate_limits({"koordinator.sh/gpu": 200}, HONOR, None, BRIDGE)
    assert constraints(translated) == ["gpu.nvidia.com/partition2"]


def test_pods_of_other_schedulers_do_not_follow_the_policy() -> None:
    container: YamlValue = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 3}}}
    context = make_context(Configuration(), build_facts(HONOR))
    assert translate({"spec": {"containers": [container]}}, context).edits


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        (("Honor", "Honor"), HONOR),
        (("Honor", "Prefer"), MIXED),
        (("Honor", None), MIXED),
        (("Prefer", None), PREFER),
        ((None, None), PREFER),
    ],
)
def test_facts_tell_whether_the_nodes_of_a_driver_honor_partitions(
    labels: YamlValue, policy: PartitionPolicy
) -> None:
    nodes = tuple(
        Node(f"n{i}", labels={} if value is None else {LABEL: value})
        for i, value in enumerate(labels)
    )
    slices = tuple(slice_of("gpu.nvidia.com", node.name, [gpu("gpu-0")]) for node in nodes)
    other = Node("cpu", labels={LABEL: "Honor"})
    objects = FactsInput(slices, (device_class("gpu.nvidia.com"),), (*nodes, other))
    facts = gather_facts(objects).facts
    driver = facts.find_driver("gpu.nvidia.com")
    assert driver is not None
    assert driver.partition_policy is policy
    assert read_facts(facts_to_plain(facts)) == facts


def test_facts_of_older_versions_have_no_policy() -> None:
    facts = read_facts({"drivers": [{"name": "gpu.nvidia.com", "kind": "gpu"}]})
    assert isinstance(facts, Facts)
    assert facts.drivers == (Driver("gpu.nvidia.com", kind="gpu"),)
    assert facts.drivers[0].partition_policy is PREFER
