"""What can be known of the kind cluster without a container engine."""

from pathlib import Path

import yaml

from e2e.kind import __main__ as kind
from tests.tables import read_yaml

CONFIG = read_yaml((Path(kind.__file__).parent / "cluster.yaml").read_text(encoding="utf-8"))
LEFT_OUT = ("TaintNodesByCondition", "-node-lifecycle-controller")


def test_the_cluster_that_is_made_is_the_one_that_is_deleted() -> None:
    assert CONFIG["name"] == kind.CLUSTER


def test_both_versions_of_the_configuration_leave_out_what_taints_silent_nodes() -> None:
    patches = [read_yaml(text) for text in CONFIG["kubeadmConfigPatches"]]
    assert [patch["apiVersion"].rpartition("/")[2] for patch in patches] == ["v1beta3", "v1beta4"]
    for patch in patches:
        words = yaml.safe_dump(patch)
        assert all(word in words for word in LEFT_OUT)
