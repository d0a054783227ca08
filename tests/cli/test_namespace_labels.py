"""What the labels of namespaces among manifests decide."""

from cli.input.namespace_labels import labels_of_namespaces
from cli.translation.input import with_namespaces
from drawbridge.config.model import Bridge, Configuration, LabelSelector, OwnedPool, Placement
from drawbridge.config.string_formats import DriverName, LabelKey, LabelValue
from drawbridge.documents.document import Source
from drawbridge.documents.read import read_objects
from drawbridge.translate.context import TranslationContext

MANIFESTS = """
apiVersion: v1
kind: Namespace
metadata: {name: labelled, labels: {resource.kubernetes.io/admin-access: "true"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: other-value, labels: {resource.kubernetes.io/admin-access: "yes"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: plain, labels: {drawbridge.dev/placement: bridge}}
---
apiVersion: example.com/v1
kind: Namespace
metadata: {name: of-another-group, labels: {resource.kubernetes.io/admin-access: "true"}}
---
apiVersion: v1
kind: Namespace
metadata: a
"""


def context(configuration: Configuration) -> TranslationContext:
    """Return a context that knows the namespaces of the manifests."""
    objects = (each.value for each in read_objects(Source("all.yaml", MANIFESTS.encode())))
    return with_namespaces(TranslationContext(configuration), labels_of_namespaces(objects))


def test_only_the_label_with_the_value_true_allows_admin_access() -> None:
    allowed = context(Configuration()).admin_access
    assert allowed == {"labelled": True, "other-value": False, "plain": False}


def test_the_labels_decide_the_placement() -> None:
    pool = OwnedPool(DriverName("gpu.example.com"), LabelSelector())
    none = LabelSelector(match_labels={LabelKey("a"): LabelValue("b")})
    bridged = Configuration(placement=Placement.BRIDGE, bridge=Bridge(none), owned_pools=(pool,))
    native = dict.fromkeys(("", "labelled", "other-value"), Placement.NATIVE)
    assert context(bridged).placements == {**native, "plain": Placement.BRIDGE}
    assert set(context(Configuration()).placements.values()) == {Placement.NATIVE}
