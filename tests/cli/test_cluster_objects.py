"""Documents are sorted by kind."""

import json

import pytest

from cli.checking.published import find_ignored_fields
from cli.input.cluster_objects import recognize_slices, sort_documents
from drawbridge.documents.document import Source
from drawbridge.documents.read import read_objects
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding, Severity

FILE = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {name: node, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
---
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata: {name: c}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: r}
spec:
  deviceSelector: {driver: gpu.example.com}
  taint: {key: k, effect: NoSchedule}
---
apiVersion: v1
kind: NodeList
items:
- metadata: {name: node, labels: {a: b}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim, namespace: ns}
spec:
  devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: ns}
spec:
  spec:
    devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
---
apiVersion: drawbridge.dev/v1alpha1
kind: Configuration
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
---
apiVersion: metrics.k8s.io/v1
kind: Node
metadata: {name: other}
---
# nothing
"""


def test_every_object_is_sorted_by_its_kind() -> None:
    made = sort_documents(read_objects(Source("x.yaml", FILE.encode())))
    assert made.findings == ()
    assert [each.name for each in made.slices] == ["s"]
    assert [each.metadata.name for each in made.classes] == ["c"]
    assert [each.name for each in made.taint_rules] == ["r"]
    assert [(each.name, dict(each.labels)) for each in made.nodes] == [("node", {"a": "b"})]
    assert [each.metadata.name for each in made.claims] == ["claim"]
    assert [each.metadata.name for each in made.templates] == ["t"]
    assert [each.name for each in made.pods] == ["Pod/ns/p"]
    assert [each.name for each in made.configurations] == ["Configuration#8"]
    assert [each.name for each in made.others] == ["Deployment/d", "Node/other"]


def test_findings_from_decoding_have_a_line() -> None:
    text = FILE.replace("generation: 1", "generation: one").replace("spec: {}", "spec: 3")
    made = sort_documents(read_objects(Source("x.yaml", text.encode())))
    assert [(each.finding.path, each.line, each.source) for each in made.findings] == [
        ("spec.pool.generation", 7, "x.yaml"),
        ("spec", 14, "x.yaml"),
    ]
    assert made.slices == ()
    assert made.nodes


def test_an_unreadable_document_is_a_finding() -> None:
    made = sort_documents(read_objects(Source("x.yaml", b"a: [\n---\n" + FILE.encode())))
    assert [each.finding.code for each in made.findings] == ["YamlSyntax"]
    assert made.slices


@pytest.mark.parametrize(
    ("about", "path", "place"),
    [
        ("ResourceSlice/s", "spec.devices[0].name", ("x.yaml", 9, 5)),
        ("Node/node", "metadata.labels[a]", ("x.yaml", 26, 35)),
        ("Pod/ns/p", "spec", ("x.yaml", 41, 1)),
        ("Nothing/here", "spec", ("", 0, 0)),
    ],
)
def test_later_findings_get_the_file_and_line_of_their_object(
    about: str, path: str, place: tuple[str, int, int]
) -> None:
    made = sort_documents(read_objects(Source("x.yaml", FILE.encode())))
    finding = Finding(
        code="X", severity=Severity.INFO, path=path, object=about, message="m", remedy="r"
    )
    (located,) = made.located([finding])
    assert (located.source, located.line, located.column) == place


def slice_text(**spec: object) -> str:
    body = {
        "driver": "d.io",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "nodeName": "n",
        "devices": [{"name": "a", "attributes": {"x": {"string": "b:c"}}}],
    }
    return json.dumps({"metadata": {"name": "s", "uid": "u"}, "spec": body | spec})


PLAIN = slice_text()
RECOGNIZED = {
    "all fields are known": PLAIN,
    "a quantity is a number": slice_text(devices=[{"name": "a", "capacity": {"m": {"value": 1}}}]),
}
NOT_RECOGNIZED = {
    "an unknown field": slice_text(colour="red"),
    "an unknown field of an attribute": slice_text(
        devices=[{"name": "a", "attributes": {"x": {"string": "b", "colour": "red"}}}]
    ),
    "a field twice": PLAIN.replace('"nodeName"', '"nodeName": "m", "nodeName"'),
    "a field twice, with an escaped colon": PLAIN.replace(
        '"nodeName"', '"nodeName": "m", "nodeName"'
    ).replace("b:c", "b\\u003ac"),
    "null": slice_text(allNodes=None),
    "nested too deep": PLAIN.replace('"u"', "[" * 200 + "]" * 200),
    "a status": PLAIN.replace('"spec"', '"status": {}, "spec"'),
    "a placeholder": PLAIN.replace("b:c", "${b}"),
    "a wrong type": slice_text(nodeName=1),
    "a wrong name": PLAIN.replace('"s"', "1"),
    "another version": PLAIN.replace('{"metadata"', '{"apiVersion": "v2", "metadata"'),
    "another kind": PLAIN.replace('{"metadata"', '{"kind": "Node", "metadata"'),
}


@pytest.mark.parametrize("name", [*RECOGNIZED, *NOT_RECOGNIZED])
def test_slices_whose_fields_are_known_are_decoded_without_a_value(name: str) -> None:
    item = (RECOGNIZED | NOT_RECOGNIZED)[name]
    head = '{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": ['
    source = Source("slices.json", f"{head}{item}]}}".encode())
    recognized = list(read_objects(source, recognize_slices()))
    plain = list(read_objects(source))
    assert [isinstance(each.decoded, Slice) for each in recognized] == [name in RECOGNIZED]
    read = sort_documents(recognized)
    assert (read.slices, read.findings) == (
        sort_documents(plain).slices,
        sort_documents(plain).findings,
    )
    assert [each.name for each in recognized] == [each.name for each in plain]
    assert [*find_ignored_fields(recognized)] == [*find_ignored_fields(plain)]
