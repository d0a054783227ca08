"""The webhook for pods loads what it needs to answer, and neither the judge nor CEL."""

import json
import pickle
import subprocess
import sys
from typing import Final

from drawbridge.config.model import Configuration
from drawbridge.facts.model import Amount, ClassFacts, Driver, Facts, Product
from drawbridge.translate.context import make_context
from tests.webhook.admission.harness import ENFORCE, pod, review

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
import json, pickle, sys, time
from types import SimpleNamespace
import webhook.server.process
from drawbridge.brief import Brief, BriefRuns
from webhook.admission.answer_cache import AnswerCache
from webhook.admission.protocols import RecentInputs
from webhook.server.admissions import Admissions
body, context, labels = pickle.loads(sys.stdin.buffer.read())
view = SimpleNamespace(
    translation_context=lambda: context,
    namespace_labels=lambda _: labels,
    limit_ranges=lambda _: (),
    resource_quotas=lambda _: (),
    default_queue=lambda _: "",
    other_webhooks=lambda: (),
    inactive_conditions=lambda: (),
    recent_inputs=RecentInputs,
)
reviews = Admissions(view, None, AnswerCache(), BriefRuns(Brief(), time.monotonic))
reply = reviews.review_pod(body, 4.0)
print(json.dumps([reply.outcome, reply.codes, sorted(sys.modules)]))
"""


def test_a_pod_that_no_product_satisfies_is_denied_without_the_judge() -> None:
    selector = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    body = review(pod({"nvidia.com/gpu": "1"}, nodeSelector=selector))
    context = make_context(Configuration(), FACTS, caches_pods=False)
    done = subprocess.run(  # noqa: S603  # ours
        [sys.executable, "-c", ANSWER],
        input=pickle.dumps((body, context, ENFORCE)),
        capture_output=True,
        check=True,
    )
    outcome, codes, modules = json.loads(done.stdout)
    assert outcome == "denied"
    assert "DeviceNeverMatches" in codes
    assert [each for each in modules if each.startswith(FORBIDDEN)] == []
