"""What the API server rejects of the device resources of a pod that is not translated."""

from drawbridge.translate.legacy.pod_view import report_rejected_amounts
from tests.tables import YamlValue, every_row

GPU = "nvidia.com/gpu"
CASES: list[tuple[YamlValue, list[str]]] = [
    ({"limits": {GPU: 2}}, []),
    ({"limits": {GPU: 2}, "requests": {GPU: "2"}}, []),
    ({"limits": {GPU: 2}, "requests": {GPU: 1}}, ["AmountsDisagree"]),
    ({"limits": {GPU: "1500m"}}, ["AmountRefused"]),
    ({"requests": {GPU: 1}}, ["LimitMissing"]),
    ({"requests": {GPU: 0}}, ["LimitMissing"]),
    ({"requests": {"cpu": 1, "hugepages-2Mi": 1}}, []),
    ({"requests": {"kubernetes.io/rdma": 100}}, []),  # may be overcommitted, as cpu
]


@every_row("case", CASES, ids=str)
def test_the_table_of_resources(case: tuple[YamlValue, list[str]]) -> None:
    resources, codes = case
    pod: YamlValue = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    assert [each.code for each in report_rejected_amounts(pod)] == codes
