"""The resources of secondary networks, from NetworkAttachmentDefinitions."""

from typing import Any

from drawbridge.facts import serialized
from drawbridge.facts.gather import MAX_TABLE_BYTES, FactsInput, gather_facts
from drawbridge.facts.model import Facts, NetworkFacts
from drawbridge.facts.networks import read_network
from tests.tables import every_row

RESOURCE = "k8s.v1.cni.cncf.io/resourceName"


def definition(name: object, resource: object = "openshift.io/a", **more: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON
    metadata = {"name": name, "namespace": "team", "annotations": {RESOURCE: resource}}
    kind = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    return {**kind, "metadata": metadata, **more}


@every_row(
    ("value", "expected"),
    [
        (definition("a"), NetworkFacts("team/a", "openshift.io/a")),
        (definition("a", metadata={"name": "a", "annotations": {RESOURCE: "x.io/b"}}),
         NetworkFacts("default/a", "x.io/b")),
        (definition("a", metadata={"name": "a"}), None),
        (definition("a", "no resource"), None),
        (definition("a", "cpu"), None),
        (definition("a", 7), None),
        (definition("a/b"), None),
        (definition(None), None),
        (definition("a", apiVersion="v1"), None),
        (definition("a", kind="Network"), None),
        (definition("a", metadata=[]), None),
        ([], None),
        (None, None),
    ],
)  # fmt: skip
def test_a_network_with_a_resource_is_read(value: object, expected: NetworkFacts | None) -> None:
    assert read_network(value) == expected


def networks(*rows: NetworkFacts) -> Facts:
    return gather_facts(FactsInput(networks=rows)).facts


def test_networks_are_part_of_the_facts_and_of_their_hash() -> None:
    row = NetworkFacts("team/a", "openshift.io/a")
    facts = networks(row)
    assert facts.networks == (row,)
    assert serialized.read_facts(serialized.facts_to_plain(facts)) == facts
    other = networks(NetworkFacts("team/a", "openshift.io/b"))
    assert serialized.facts_hash(other) != serialized.facts_hash(facts)


def test_one_namespace_cannot_displace_the_networks_of_another() -> None:
    many = [NetworkFacts(f"evil/{i:04}", "openshift.io/a") for i in range(1000)]
    few = [NetworkFacts(f"team/{i}", "openshift.io/a") for i in range(3)]
    facts = networks(*many, *few)
    assert set(few) <= set(facts.networks)
    assert facts.omitted["networks"] == len(many) + len(few) - len(facts.networks)
    assert len(serialized.encode_facts(facts)) < MAX_TABLE_BYTES["networks"] + 1000
