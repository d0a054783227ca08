"""Whatever stays with a server is served: the decisions against a model of the scheduler.

The model reads the generated cluster itself and not its facts: a node serves a request by a plugin
that has all its names, or by the class that takes precedence for its only name.
"""

import json
import re
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from drawbridge.config.model import Configuration
from drawbridge.documents.patch import apply_edits
from drawbridge.dra.gates import VERSIONS, Gates, gates_of_version
from drawbridge.facts.gather import FactsInput, gather_facts
from drawbridge.finding import Severity
from drawbridge.names import ORIGINAL_ANNOTATION
from drawbridge.translate.context import Translation, make_context
from drawbridge.translate.pods import translate
from e2e.nodes.family import CLASSES
from tests.facts import clusters
from tests.tables import YamlValue
from tests.thorough import drawn
from tests.translate import worlds

NAMES = ("nvidia.com/gpu", "nvidia.com/gpumem", "koordinator.sh/gpu", "rdma/hca")
DRIVERS = ("gpu.nvidia.com", "hami-core-gpu.project-hami.io", "dra.net")
GATE = "DRAExtendedResource"
LEFT = {"LeftToClass", "LeftToPlugin", "LeftAsItIs"}


class GeneratedNode(NamedTuple):
    """A node: names that plugins advertise, and drivers that publish devices."""

    plugins: tuple[str, ...]
    drivers: tuple[str, ...]


class GeneratedCluster(NamedTuple):
    """Nodes, the classes with their names and ages, and the gate that lets classes serve names."""

    version: str
    gate: bool
    nodes: tuple[GeneratedNode, ...]
    classes: tuple[tuple[str, str, int], ...]

    @property
    def gates(self) -> Gates:
        """The gates of the version, with ours unless it is locked."""
        locked = self.version == "1.37"
        gates = gates_of_version(self.version, {} if locked else {GATE: self.gate})
        assert isinstance(gates, Gates)
        return gates

    def objects(self) -> FactsInput:
        """The objects that facts are gathered from."""
        slices = tuple(
            slice_
            for number, node in enumerate(self.nodes)
            for driver in node.drivers
            for slice_ in worlds.slices_of_node(f"n{number}", "lab-2g2n", driver)
        )
        classes = tuple(
            clusters.device_class(name, extended, f"2026-01-0{age}T00:00:00Z", CLASSES[name])
            for name, extended, age in self.classes
        )
        nodes = tuple(
            clusters.node(f"n{number}", dict.fromkeys(node.plugins, 100_000))
            for number, node in enumerate(self.nodes)
        )
        return FactsInput(slices, classes, nodes)

    def serves(self, limits: dict[str, int]) -> bool:
        """Whether one server on some node serves a container; a class may wait for its devices."""
        names = set(limits)
        if any(names <= set(node.plugins) for node in self.nodes):
            return True
        (name, amount), *others = limits.items()
        mapped = sorted((-age, each) for each, extended, age in self.classes if extended == name)
        counts = not others and name != "nvidia.com/gpumem" and amount < 100
        return bool(self.gates.extended_resource and counts and mapped)


def subsets(of: tuple[str, ...], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(of), unique=True, min_size=least, max_size=2).map(
        lambda chosen: tuple(sorted(chosen))
    )


def clusters_with(drivers: int, classes: int) -> st.SearchStrategy[GeneratedCluster]:
    """Draw clusters with at least so many drivers on each node, and so many classes."""
    nodes = st.builds(GeneratedNode, subsets(NAMES), subsets(DRIVERS, drivers))
    return st.builds(
        GeneratedCluster,
        st.sampled_from(VERSIONS),
        st.booleans(),
        st.lists(nodes, min_size=1, max_size=3).map(tuple),
        st.lists(
            st.tuples(st.sampled_from(DRIVERS), st.sampled_from(("", *NAMES)), st.integers(1, 3)),
            unique_by=lambda each: each[0],
            min_size=classes,
            max_size=3,
        ).map(tuple),
    )


AMOUNTS = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "koordinator.sh/gpu": 100, "rdma/hca": 1}
CONTAINERS = st.lists(
    st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=2).map(
        lambda names: {name: AMOUNTS[name] for name in names}
    ),
    min_size=1,
    max_size=2,
)


# Requests that different drivers or plugins serve.
APART = st.lists(
    st.sampled_from(
        (
            {"nvidia.com/gpu": 1},
            {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000},
            {"nvidia.com/gpu": 1, "rdma/hca": 1},
            {"rdma/hca": 1},
        )
    ),
    min_size=1,
    max_size=3,
)


def pod(containers: list[dict[str, int]]) -> YamlValue:
    return {
        "metadata": {},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": f"c{number}", "resources": {"limits": limits}}
                for number, limits in enumerate(containers)
            ],
        },
    }


def translated(cluster: GeneratedCluster, containers: list[dict[str, int]]) -> Translation:
    facts = gather_facts(cluster.objects(), gates=cluster.gates).facts
    return translate(pod(containers), make_context(Configuration(), facts))


@settings(max_examples=drawn(60, thorough=300), derandomize=True)
@given(clusters_with(drivers=0, classes=0), CONTAINERS)
def test_a_request_that_stays_is_served_by_one_server(
    cluster: GeneratedCluster, containers: list[dict[str, int]]
) -> None:
    outcome = translated(cluster, containers)
    for finding in outcome.findings:
        if finding.code in LEFT:
            listed = re.split(" stays? ", finding.message)[0].split(", ")
            assert cluster.serves({name: AMOUNTS[name] for name in listed}), finding


@settings(max_examples=drawn(30, thorough=300), derandomize=True)
@given(clusters_with(drivers=1, classes=2), APART)
def test_claims_and_what_stays_are_on_one_node(
    cluster: GeneratedCluster, containers: list[dict[str, int]]
) -> None:
    outcome = translated(cluster, containers)
    assume(outcome.templates)
    # Else a finding says that no node serves them together now.
    assume(all(each.code != "NoNodeOffersAll" for each in outcome.findings))
    classes = {
        request["exactly"]["deviceClassName"]
        for template in outcome.templates
        for request in template.object["spec"]["spec"]["devices"]["requests"]  # type: ignore[index,call-overload]
    }
    left = {
        name
        for finding in outcome.findings
        if finding.code in LEFT
        for name in re.split(" stays? ", finding.message)[0].split(", ")
    }
    served = {extended for _, extended, _ in cluster.classes if cluster.gates.extended_resource}
    present = {driver for node in cluster.nodes for driver in node.drivers}
    assert any(
        classes & present <= set(node.drivers) and left <= {*node.plugins, *served}
        for node in cluster.nodes
    ), (classes, left)


@pytest.mark.parametrize("gate", [False, True])
def test_the_model_knows_the_gate(*, gate: bool) -> None:
    cluster = GeneratedCluster("1.35", gate, (), (("gpu.nvidia.com", "nvidia.com/gpu", 1),))
    assert cluster.serves({"nvidia.com/gpu": 1}) == gate


UUIDS = "nvidia.com/use-gpuuuid"


def two_dialects(gpus: int) -> Any:  # noqa: ANN401  # a manifest
    """Return a pod that Koordinator's dialect reads until its RDMA is translated, then HAMi's."""
    made = pod([{"nvidia.com/gpu": gpus, "koordinator.sh/rdma": 100}])
    return {**made, "metadata": {"annotations": {UUIDS: "GPU-1,GPU-2"}}}


def test_what_a_translation_left_is_not_refused_when_another_dialect_reads_it() -> None:
    context = make_context(Configuration())
    first = translate(two_dialects(1000), context)
    assert first.templates
    after = apply_edits(two_dialects(1000), first.edits)
    second = translate(after, context)
    assert second.edits == ()
    refused = [each for each in second.findings if each.code == "AmountRefused"]
    assert [each.severity for each in refused] == [Severity.WARNING]


@pytest.mark.parametrize(
    "forged",
    [
        # The original has another amount, or no request.
        [{"op": "replace", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu"}],
        [{"op": "remove", "path": "/spec/containers/0/resources/limits/nvidia.com~1gpu"}],
    ],
)
def test_a_forged_original_does_not_lower_an_error(forged: list[dict[str, Any]]) -> None:
    alone: Any = {**pod([{"nvidia.com/gpu": 1000}]), "metadata": {"annotations": {UUIDS: "a,b"}}}
    steps = [{**each, "value": 1} if each["op"] == "replace" else each for each in forged]
    alone["metadata"]["annotations"][ORIGINAL_ANNOTATION] = json.dumps(steps)
    facts = gather_facts(GeneratedCluster("1.36", gate=True, nodes=(), classes=()).objects()).facts
    for context in (make_context(Configuration()), make_context(Configuration(), facts)):
        translated = translate(alone, context)
        assert translated.edits == ()
        assert Severity.ERROR in {each.severity for each in translated.findings}, (
            translated.findings
        )
