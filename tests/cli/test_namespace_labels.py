"""Which namespaces among manifests allow admin access."""

from pathlib import Path

from cli.input.files import read_sources
from cli.translation.input import find_admin_access

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
metadata: {name: plain}
---
apiVersion: example.com/v1
kind: Namespace
metadata: {name: of-another-group, labels: {resource.kubernetes.io/admin-access: "true"}}
---
apiVersion: v1
kind: Namespace
metadata: a
"""


def test_only_the_label_with_the_value_true_allows_admin_access(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(MANIFESTS, encoding="utf-8")
    sources = list(read_sources([str(tmp_path)], None))  # type: ignore[arg-type]  # reads no standard input
    assert find_admin_access(sources) == {"labelled": True, "other-value": False, "plain": False}
