"""The webhook for pods loads what it needs to answer, and neither the judge nor CEL."""

import json
import pickle
import subprocess
import sys
from typing import Final

from drawbridge.config.model import Configuration
from drawbridge.facts.model import Amount, ClassFacts, Driver, Facts, Product
from drawbridge.translate.pods import make_context
from tests.webhook.admission.harness import ENFORCE, pod, review
from webhook.admission.large_reviews import SharedInputs
from webhook.admission.protocols import RecentInputs

GPU: Final = "gpu.nvidia.com"
FORBIDDEN: Final = (
    "drawbridge.cel",
    "drawbridge.config.accept",
    "drawbridge.judge",
    "drawbridge.ledger",
    "drawbridge.solver",
)
FACTS: Final = Facts(
    classes=(ClassFacts(GPU, drivers=(GPU,), devices=8, closed=True),),
    products=(Product(GPU, "gpu", "A100", capacity={"memory": Amount("40Gi")}, classes=(GPU,)),),
    drivers=(Driver(GPU, attributes={f"{GPU}/productName": "string"}),),
)
# Runs in a process of its own, as the webhook does.
ANSWER: Final = """
import json, pickle, sys
import webhook.server.process
from webhook.admission.large_reviews import ClusterSnapshot, review_snapshot
body, fields = pickle.loads(sys.stdin.buffer.read())
reply = review_snapshot("review_pod", body, ClusterSnapshot(*fields), {}).reply
print(json.dumps([reply.outcome, reply.codes, sorted(sys.modules)]))
"""


def test_a_pod_that_no_product_satisfies_is_denied_without_the_judge() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    body = review(pod({"nvidia.com/gpu": "1"}, nodeSelector=selector))
    inputs = pickle.dumps(SharedInputs(make_context(Configuration(), FACTS), RecentInputs()))
    fields = (inputs, ENFORCE, (), (), "", (), ())
    done = subprocess.run(  # noqa: S603  # ours
        [sys.executable, "-c", ANSWER],
        input=pickle.dumps((body, fields)),
        capture_output=True,
        check=True,
    )
    outcome, codes, modules = json.loads(done.stdout)
    assert outcome == "denied"
    assert "DeviceNeverMatches" in codes
    assert [each for each in modules if each.startswith(FORBIDDEN)] == []
