"""Tests of the reader of ResourceQuotas."""

from drawbridge.dra.resource_quotas import ResourceQuota, quota_reader
from tests.tables import YamlValue, every_row

BY_PRIORITY = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}


def read(spec: YamlValue) -> ResourceQuota:
    value = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team"},
        "spec": spec,
    }
    quota = quota_reader().read(value)
    assert isinstance(quota, ResourceQuota), quota
    return quota


@every_row(
    ("spec", "counts_pods_only"),
    [
        ({}, False),
        ({"scopes": ["BestEffort"]}, True),
        ({"scopes": []}, False),
        ({"scopeSelector": {"matchExpressions": [BY_PRIORITY]}}, True),
        ({"scopeSelector": {"matchExpressions": []}}, False),
        ({"scopeSelector": {}}, False),
        ({"scopeSelector": None}, False),
    ],
    ids=str,
)
def test_a_quota_with_scopes_or_a_scope_selector_counts_pods_only(
    spec: YamlValue, *, counts_pods_only: bool
) -> None:
    assert read({"hard": {"pods": "1"}, **spec}).counts_pods_only is counts_pods_only
