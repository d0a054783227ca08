"""What the API server rejects of the device resources of a pod that is not translated."""

from drawbridge.config.model import Configuration
from drawbridge.finding import Severity
from drawbridge.translate.context import make_context
from drawbridge.translate.legacy.pod_view import report_rejected_amounts
from drawbridge.translate.manifests.objects import translate_object
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row

GPU = "nvidia.com/gpu"
RDMA = "kubernetes.io/rdma"
CASES: list[tuple[YamlValue, list[str]]] = [
    ({"limits": {GPU: 2}}, []),
    ({"limits": {GPU: 2}, "requests": {GPU: "2"}}, []),
    ({"limits": {GPU: 2}, "requests": {GPU: 1}}, ["AmountsDisagree"]),
    ({"limits": {GPU: "1500m"}}, ["AmountRefused"]),
    ({"requests": {GPU: 1}}, ["LimitMissing"]),
    ({"requests": {GPU: 0}}, ["LimitMissing"]),
    ({"requests": {"cpu": 1, "hugepages-2Mi": 1}}, []),
    # Resources of Kubernetes' own domain are treated as cpu.
    ({"requests": {RDMA: 100}}, []),
    ({"limits": {RDMA: 2}, "requests": {RDMA: 1}}, []),
    ({"limits": {RDMA: "500m"}}, []),
    ({"limits": {RDMA: 1}, "requests": {RDMA: "500m"}}, []),
    ({"limits": {RDMA: 1}, "requests": {RDMA: 2}}, ["AmountsDisagree"]),
    ({"limits": {RDMA: -1}}, ["AmountRefused"]),
]


@every_row("case", CASES, ids=str)
def test_the_table_of_resources(case: tuple[YamlValue, list[str]]) -> None:
    resources, codes = case
    pod: YamlValue = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    assert [each.code for each in report_rejected_amounts(pod)] == codes


def test_a_webhook_that_runs_later_may_set_a_limit_and_a_manifest_needs_it() -> None:
    containers: YamlValue = [
        {"name": "a", "resources": {"limits": {GPU: 1}}},
        {"name": "b", "resources": {"requests": {"example.com/npu": 1}}},
    ]
    pod: YamlValue = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}}
    by = make_context(Configuration())
    admitted, written = translate(pod, by), translate_object(pod, "Pod/p", by)
    for done, severity in ((admitted, Severity.WARNING), (written, Severity.ERROR)):
        (told,) = (each for each in done.findings if each.code == "LimitMissing")
        assert told.severity is severity
        assert bool(done.edits) == bool(done.templates) == (severity is Severity.WARNING)
