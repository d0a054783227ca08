"""The guard denies a pod only if every recent input would have translated it."""

from collections.abc import Mapping
from typing import Any

import pytest

from drawbridge.agreement.match_conditions import derive_conditions, derive_widest_conditions
from drawbridge.config.model import Admission, Configuration, Placement, Rollout, Scope
from drawbridge.config.string_formats import FindingCode
from drawbridge.facts.model import Facts
from drawbridge.names import POD_WEBHOOK
from drawbridge.translate.context import make_context
from tests.tables import YamlValue
from tests.webhook.admission.harness import AdmissionHarness, configuration, facts, pod
from webhook.admission.protocols import RecentInputs

pytestmark = pytest.mark.asyncio
USUAL = Configuration()
EVERY = Configuration(admission=Admission(every_pod=True))
NOT_YET = Configuration(scope=Scope(rollout=Rollout(percent=0)))
CLASSES = [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}]
FACTS = facts({"classes": CLASSES})
# A class and no plugin serves the name, and the pod keeps it.
SERVED = facts(
    {
        "classes": CLASSES,
        "names": [{"name": "nvidia.com/gpu", "classes": ["gpu.nvidia.com"], "nodes": 1}],
    }
)
LEGACY = pod({"nvidia.com/gpu": "1"})
OPTED_IN = {"matchExpressions": [{"key": "drawbridge.dev/translate", "operator": "Exists"}]}


WIDEST = [{"name": n, "expression": text} for n, text in derive_widest_conditions().items()]


def live(settings: Configuration = USUAL, **webhook: YamlValue) -> dict[str, Any]:
    conditions = [
        {"name": name, "expression": text}
        for name, text in derive_conditions(settings)[POD_WEBHOOK].items()
    ]
    return {"webhooks": [{"name": POD_WEBHOOK, "matchConditions": conditions, **webhook}]}


def recent(
    configurations: tuple[Configuration, ...] = (USUAL,),
    known_facts: tuple[Facts, ...] = (FACTS,),
    webhooks: tuple[Mapping[str, Any] | None, ...] = (live(),),
    *,
    is_complete: bool = True,
) -> RecentInputs:
    return RecentInputs(configurations, known_facts, webhooks, is_complete)


def build_harness(inputs: RecentInputs, *, mode: str = "enforce") -> AdmissionHarness:
    harness = AdmissionHarness()
    harness.cluster.context = make_context(inputs.configurations[0], inputs.facts[0])
    harness.cluster.recent = inputs
    harness.cluster.namespaces["team"] = {"drawbridge.dev/translate": mode}
    return harness


async def test_a_request_that_a_later_webhook_added_is_denied_with_the_remedy() -> None:
    response = await build_harness(recent()).guarded_pod(LEGACY)
    assert (response.allowed, response.status["code"]) == (False, 422)
    message = response.status["message"]
    assert "RequestsAddedLate: spec.containers[0].resources: container main" in message
    assert "the request for nvidia.com/gpu" in message
    assert "admission.everyPod: true" in message
    assert "of that webhook a name that sorts before `drawbridge`" in message


async def test_the_guard_writes_nothing() -> None:
    harness = build_harness(recent())
    await harness.guarded_pod(LEGACY)
    assert harness.store.calls == []


@pytest.mark.parametrize(
    "inputs",
    [
        recent(is_complete=False),
        recent((USUAL, NOT_YET)),
        recent((USUAL, Configuration(scope=Scope(exclude_namespaces=("team",))))),  # type: ignore[arg-type]  # as it is loaded
        recent(known_facts=(FACTS, SERVED)),
        recent(webhooks=()),
        recent(webhooks=(live(), None)),
        recent(webhooks=(live(), live(EVERY, matchConditions=[{"name": "x", "expression": "y"}]))),
        recent(webhooks=(live(namespaceSelector={"matchLabels": {"other": "x"}}),)),
        recent(webhooks=(live(objectSelector={"matchLabels": {"other": "x"}}),)),
        recent(webhooks=({"webhooks": []},)),
    ],
    ids=[
        "a process that just started",
        "an older rollout that leaves the pod",
        "an older configuration that excludes the namespace",
        "older facts that leave the pod",
        "no webhook configuration was seen",
        "a webhook configuration that did not exist",
        "conditions of another origin",
        "a namespace selector that excludes the namespace",
        "an object selector that excludes the pod",
        "no webhook for pods",
    ],
)
async def test_a_pod_that_a_recent_input_leaves_is_allowed_with_a_warning(
    inputs: RecentInputs,
) -> None:
    response = await build_harness(inputs).guarded_pod(LEGACY)
    assert response.allowed
    assert any(each.startswith("RequestsAddedLate") for each in response.warnings)
    assert not response.patch


@pytest.mark.parametrize(
    "inputs",
    [
        recent((EVERY,), webhooks=(live(EVERY),)),
        recent((EVERY, USUAL), webhooks=(live(EVERY), live())),
        recent((USUAL, EVERY), webhooks=(live(EVERY),)),
        recent(webhooks=(live(namespaceSelector=OPTED_IN),)),
        recent(known_facts=(FACTS, FACTS)),
        recent(webhooks=(live(), live(matchConditions=WIDEST))),
    ],
    ids=[
        "every pod",
        "every pod since now",
        "every pod until now",
        "opted in",
        "two facts",
        "manifests that were applied again",
    ],
)
async def test_a_pod_that_all_recent_inputs_translate_is_denied(inputs: RecentInputs) -> None:
    assert not (await build_harness(inputs).guarded_pod(LEGACY)).allowed


async def test_a_name_that_only_a_class_serves_is_denied_if_it_was_added_late() -> None:
    served = facts(
        {
            "classes": [{"name": "fpga", "drivers": ["fpga.example.com"], "devices": 2}],
            "names": [{"name": "example.com/fpga", "classes": ["fpga"], "nodes": 1}],
        }
    )
    bridge = Configuration(placement=Placement.BRIDGE)
    inputs = recent((bridge,), (served,), (live(bridge),))
    response = await build_harness(inputs).guarded_pod(pod({"example.com/fpga": "1"}))
    assert not response.allowed
    assert "the request for example.com/fpga" in response.status["message"]


async def test_in_report_mode_the_guard_repeats_the_report() -> None:
    harness = build_harness(recent(), mode="report")
    first, guarded = await harness.pod(LEGACY), await harness.guarded_pod(LEGACY)
    assert guarded.allowed
    assert guarded.warnings == first.warnings
    assert guarded.warnings[0].startswith("would be translated: nvidia.com/gpu: 1")


MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}
LEFT: dict[str, YamlValue] = {
    "no device": pod({"cpu": "1"}),
    "opted out": {**LEGACY, "metadata": {"labels": {"drawbridge.dev/translate": "off"}}},
    "a mirror pod": {**LEGACY, "metadata": {"name": "p", **MIRROR}},
    "a bound pod": pod({"nvidia.com/gpu": "1"}, nodeName="node-1"),
}


@pytest.mark.parametrize("object_", LEFT.values(), ids=list(LEFT))
async def test_the_guard_allows_what_the_webhook_for_pods_leaves(object_: YamlValue) -> None:
    harness = build_harness(recent())
    guarded = await harness.guarded_pod(object_)
    assert guarded.allowed
    assert guarded.warnings == []


async def test_the_guard_allows_a_translated_pod() -> None:
    harness = build_harness(recent())
    translated = (await harness.pod(LEGACY)).after
    assert (await harness.guarded_pod(translated)).allowed


async def test_a_translated_pod_that_lost_its_claims_is_denied() -> None:
    harness = build_harness(recent())
    lost = (await harness.pod(LEGACY)).after
    del lost["spec"]["resourceClaims"]
    del lost["spec"]["containers"][0]["resources"]["claims"]
    response = await harness.guarded_pod(lost)
    assert not response.allowed
    assert "TranslationChanged" in response.status["message"]


async def test_a_translated_pod_that_gets_another_request_is_denied() -> None:
    harness = build_harness(recent())
    translated = (await harness.pod(LEGACY)).after
    translated["spec"]["containers"].append(
        {"name": "late", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    )
    response = await harness.guarded_pod(translated)
    assert not response.allowed
    assert "container late" in response.status["message"]


async def test_a_translated_pod_that_gets_a_scheduler_without_claims_is_denied_for_that() -> None:
    harness = build_harness(recent())
    translated = (await harness.pod(LEGACY)).after
    translated["spec"]["schedulerName"] = "yunikorn"
    response = await harness.guarded_pod(translated)
    assert not response.allowed
    assert response.status["message"].startswith("SchedulerWithoutClaims")
    assert "RequestsAddedLate" not in response.status["message"]


async def test_a_pod_that_is_not_in_scope_is_allowed() -> None:
    harness = build_harness(recent())
    harness.cluster.namespaces["plain"] = {}
    assert (await harness.guarded_pod(LEGACY, namespace="plain")).allowed


async def test_the_configuration_can_lower_the_denial_to_a_warning() -> None:
    settings = Configuration(findings={FindingCode("RequestsAddedLate"): "warn"})  # type: ignore[dict-item]  # as it is loaded
    response = await build_harness(recent((settings,))).guarded_pod(LEGACY)
    assert response.allowed
    assert response.warnings


async def test_a_request_that_can_never_work_is_denied_as_well() -> None:
    harness = build_harness(recent())
    wrong = pod({"nvidia.com/gpu": "1.5"})
    assert not (await harness.pod(wrong)).allowed
    assert not (await harness.guarded_pod(wrong)).allowed


async def test_the_guard_does_not_deny_a_claim_that_a_later_webhook_added() -> None:
    own = pod({}, resourceClaims=[{"name": "own", "resourceClaimTemplateName": "gpu"}])
    pools = [{"driver": "gpu.nvidia.com", "nodeSelector": {}}]
    settings = configuration(
        {"placement": "bridge", "ownedPools": pools, "admission": {"everyPod": True}}
    )
    cluster_facts = facts({"drivers": [{"name": "gpu.nvidia.com", "devices": 8}]})
    harness = build_harness(recent((settings,), (cluster_facts,), (live(settings),)))
    assert (await harness.pod(own)).patch
    response = await harness.guarded_pod(own)
    assert response.allowed
    assert response.warnings == []
