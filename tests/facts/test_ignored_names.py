"""A class serves a name only where the kubelets of all nodes with its devices read the claim."""

import pytest

from drawbridge.config.model import Configuration
from drawbridge.documents.values import Value
from drawbridge.dra.classes import DeviceClass
from drawbridge.dra.gates import Gates, gates_of_version
from drawbridge.facts.gather import FactsInput, GatheredFacts, gather_facts
from drawbridge.finding import Severity
from drawbridge.translate.context import make_context
from drawbridge.translate.pods import translate
from tests.facts import clusters

GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
OFFERED = clusters.device_class(CLASS, GPU)
LIMITS: Value = {GPU: "1"}
POD: Value = {
    "metadata": {},
    "spec": {"containers": [{"name": "one", "resources": {"limits": LIMITS, "requests": LIMITS}}]},
}


def gather(version: str, device_class: DeviceClass = OFFERED, /, **kubelets: str) -> GatheredFacts:
    """The facts of nodes with these kubelets; those with GPUs are called gpu..."""
    gates = gates_of_version(version)
    assert isinstance(gates, Gates)
    objects = FactsInput(
        tuple(
            clusters.slice_of(CLASS, name, [clusters.gpu("gpu-0")])
            for name in kubelets
            if name.startswith("gpu")
        ),
        (device_class,),
        tuple(clusters.node(name, {}, kubelet=kubelet) for name, kubelet in kubelets.items()),
    )
    return gather_facts(objects, None, gates)


def is_translated(gathered: GatheredFacts) -> bool:
    """Whether a request of a whole GPU becomes a claim; else it is left to the class."""
    translation = translate(POD, make_context(Configuration(), gathered.facts), "default")
    codes = [each.code for each in translation.findings]
    assert ("LeftToClass" in codes) is not bool(translation.templates)
    return bool(translation.templates)


@pytest.mark.parametrize(
    ("version", "kubelets", "ignored"),
    [
        ("1.36", {"gpu0": "v1.36.0", "gpu1": "v1.36.1"}, False),
        ("1.36", {"gpu0": "v1.36.0", "gpu1": "v1.35.4"}, True),
        ("1.37", {"gpu0": "v1.34.1"}, True),
        ("1.37", {"gpu0": "v1.37.0", "cpu0": "v1.35.4"}, False),
        # An autoscaler may know the devices of the first node only by the name.
        ("1.37", {"cpu0": "v1.35.4"}, False),
        ("1.36", {"cpu0": "v1.36.1", "virtual0": "v1.19.10-vk-azure-aci-1.4.14"}, False),
        ("1.37", {"gpu0": ""}, False),
    ],
)
def test_a_pod_gets_a_claim_while_a_kubelet_ignores_the_names_of_classes(
    version: str,
    kubelets: dict[str, str],
    ignored: bool,  # noqa: FBT001  # a value of the table
) -> None:
    gathered = gather(version, **kubelets)
    assert [each.name_ignored for each in gathered.facts.classes] == [ignored]
    assert is_translated(gathered) is ignored


def test_nothing_is_ignored_where_classes_serve_no_names() -> None:
    gathered = gather("1.35", gpu0="v1.34.1")
    assert [each.name_ignored for each in gathered.facts.classes] == [False]
    assert gathered.findings == ()
    assert is_translated(gathered)


def test_the_nodes_are_reported_on_which_a_pod_without_a_claim_gets_no_device() -> None:
    gathered = gather("1.36", gpu0="v1.35.4", gpu1="v1.34.1", gpu2="v1.35.4", gpu3="v1.36.0")
    (finding,) = gathered.findings
    assert (finding.code, finding.object) == ("ClassNameIgnored", f"DeviceClass/{CLASS}")
    assert "the kubelets of 3 nodes with its devices (v1.34.1, v1.35.4)" in finding.message
    assert finding.severity is Severity.WARNING
    assert gather("1.36", cpu0="v1.35.4").findings == ()


def test_a_class_serves_its_implicit_name_too() -> None:
    (finding,) = gather("1.36", clusters.device_class(CLASS), gpu0="v1.35.4").findings
    assert (finding.code, finding.severity) == ("ClassNameIgnored", Severity.INFO)
    implicit = f"deviceclass.resource.kubernetes.io/{CLASS}"
    assert f"a pod that requests {implicit} runs there without a device" in finding.message
    assert "extendedResourceName" not in finding.remedy
    long = clusters.device_class("long." * 12 + CLASS, cel=f"device.driver == '{CLASS}'")
    assert gather("1.36", long, gpu0="v1.35.4").findings == ()
