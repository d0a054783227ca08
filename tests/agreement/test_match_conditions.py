"""The plan of changes to the match conditions of the webhooks, and the condition of the guard."""
# ruff: noqa: D102  # a fake of the tests

import functools
import itertools
from collections.abc import Mapping
from typing import Any, Final

import pytest

from drawbridge.agreement.match_conditions import (
    CONDITION_NAME,
    GUARD_KIND,
    KIND,
    TRANSITION_NAME,
    derive_conditions,
    derive_widest_conditions,
    plan_applies,
)
from drawbridge.cel import Environment, Program
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.types import DYN
from drawbridge.config.model import Admission, Configuration, Legacy, Placement
from drawbridge.config.string_formats import FindingCode, NetworkName, ResourceName
from drawbridge.documents.patch import apply_edits
from drawbridge.names import GUARD_WEBHOOK, POD_WEBHOOK
from drawbridge.translate.context import TranslationContext
from drawbridge.translate.interest import CONTAINERS, covers, derive_interest
from drawbridge.translate.pods import translate
from tests.tables import YamlValue, every_row
from tests.translate.test_interest import GROUPS, pods

USUAL = Configuration()
EVERY = Configuration(admission=Admission(every_pod=True))
BRIDGE = Configuration(placement=Placement.BRIDGE)
SILENT = Configuration(findings={FindingCode("NetworkUnknown"): "off"})  # type: ignore[dict-item]  # as it is loaded
NETWORKED = Configuration(
    legacy=Legacy(networks={NetworkName("default/a"): ResourceName("intel.com/vf")})
)
Plan = tuple[dict[str, Any], ...]


class LiveWebhooks:
    """The two webhook configurations, as server-side apply changes them."""

    def __init__(self, *, ca: str = "Q0E=") -> None:
        client = {"clientConfig": {"caBundle": ca}}
        self.mutating: dict[str, Any] = {"webhooks": [{"name": POD_WEBHOOK, **client}]}
        self.validating: dict[str, Any] = {
            "webhooks": [
                {"name": "workloads.drawbridge.dev", "matchConditions": [{"name": "other"}]},
                {"name": GUARD_WEBHOOK, "failurePolicy": "Ignore", **client},
            ]
        }

    def plan(self, configuration: Configuration, *, guard_served: bool = True) -> Plan:
        return plan_applies(
            self.mutating, self.validating, configuration, guard_served=guard_served
        )

    def apply(self, change: dict[str, Any]) -> None:
        target = self.mutating if change["kind"] == KIND else self.validating
        (changed,) = change["webhooks"]
        for webhook in target["webhooks"]:
            if webhook["name"] == changed["name"]:
                webhook.update(changed)

    def reach(self, configuration: Configuration) -> None:
        for step in self.plan(configuration):
            self.apply(step)

    def conditions(self, name: str) -> dict[str, str]:
        live = [*self.mutating["webhooks"], *self.validating["webhooks"]]
        (webhook,) = (each for each in live if each["name"] == name)
        return {each["name"]: each["expression"] for each in webhook.get("matchConditions") or ()}

    @property
    def guard(self) -> dict[str, Any]:
        guard: dict[str, Any] = self.validating["webhooks"][1]
        return guard


def selects(conditions: dict[str, str], pod: YamlValue) -> bool:
    value = {"object": {"metadata": pod.get("metadata") or {}, "spec": pod.get("spec") or {}}}
    return all(compiled(text).evaluate(value).value for text in conditions.values())


@functools.cache
def compiled(text: str) -> Program:
    return Environment({"object": DYN}, libraries("1.36", stored=True)).compile(text)


MEMBERS = [case["pod"] for case in GROUPS if isinstance(case["pod"], dict)]
PLAIN = {"spec": {"containers": [{"name": "web"}]}}
LEGACY = {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
TRANSLATED: Final = {
    "metadata": {"annotations": {"drawbridge.dev/original": "[]"}},
    "spec": {
        "containers": [{"name": "a", "resources": {"claims": [{"name": "drawbridge"}]}}],
        "resourceClaims": [{"name": "drawbridge", "resourceClaimTemplateName": "drawbridge-0"}],
    },
}
NETWORK = {
    "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "default/a"}},
    "spec": {"containers": [{"name": "a"}]},
}


@every_row(
    ("first", "then"), list(itertools.permutations((USUAL, EVERY, SILENT, NETWORKED, BRIDGE), 2))
)
def test_the_guard_never_selects_a_pod_that_the_webhook_for_pods_does_not_get(
    first: Configuration, then: Configuration
) -> None:
    live = LiveWebhooks()
    live.reach(first)
    for change in live.plan(then):
        live.apply(change)
        for pod in (PLAIN, LEGACY, NETWORK, MEMBERS[1], without_claims(TRANSLATED)):
            guarded = selects(live.conditions(GUARD_WEBHOOK), pod)
            assert selects(live.conditions(POD_WEBHOOK), pod) >= guarded
    assert live.conditions(GUARD_WEBHOOK) == derive_conditions(then)[GUARD_WEBHOOK]
    assert live.conditions(POD_WEBHOOK) == derive_conditions(then)[POD_WEBHOOK]
    assert not live.plan(then)


@pytest.mark.parametrize("configuration", [USUAL, SILENT, NETWORKED, BRIDGE])
def test_manifests_that_are_applied_again_exclude_no_pod_that_a_configuration_needs(
    configuration: Configuration,
) -> None:
    live = LiveWebhooks()
    live.reach(configuration)
    needed = live.conditions(POD_WEBHOOK)
    live.mutating["webhooks"][0]["matchConditions"] = as_listed(derive_widest_conditions())
    for pod in (PLAIN, LEGACY, NETWORK, *MEMBERS, *itertools.islice(pods(), 200)):
        assert selects(live.conditions(POD_WEBHOOK), pod) >= selects(needed, pod), pod
    assert not selects(live.conditions(POD_WEBHOOK), PLAIN)
    assert kinds(live.plan(configuration)) == [KIND] * (configuration != BRIDGE)
    live.reach(configuration)
    assert live.conditions(POD_WEBHOOK) == needed


def as_listed(conditions: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": text} for name, text in conditions.items()]


@pytest.mark.parametrize("done", range(4))
def test_an_interrupted_plan_continues(done: int) -> None:
    live = LiveWebhooks()
    live.reach(USUAL)
    for change in live.plan(SILENT)[:done]:
        live.apply(change)
    live.reach(NETWORKED)
    assert not live.plan(NETWORKED)
    assert TRANSITION_NAME not in live.conditions(GUARD_WEBHOOK)


@pytest.mark.parametrize("configuration", [USUAL, BRIDGE], ids=["native", "bridge"])
def test_the_webhook_for_pods_gets_the_pods_of_interest(configuration: Configuration) -> None:
    conditions = derive_conditions(configuration)[POD_WEBHOOK]
    interest = derive_interest(configuration)
    for pod in (PLAIN, LEGACY, *MEMBERS):
        assert selects(conditions, pod) == covers(pod, interest), pod


def test_the_guard_gets_no_member_without_devices() -> None:
    conditions = derive_conditions(BRIDGE)[GUARD_WEBHOOK]
    assert not any(selects(conditions, pod) for pod in MEMBERS)


def kinds(plan: Plan) -> list[str]:
    return [each["kind"] for each in plan]


def test_wider_conditions_reach_the_webhook_for_pods_first() -> None:
    live = LiveWebhooks()
    live.reach(USUAL)
    assert kinds(live.plan(EVERY)) == [KIND, GUARD_KIND]


def test_narrower_conditions_reach_the_guard_first() -> None:
    live = LiveWebhooks()
    live.reach(EVERY)
    assert kinds(live.plan(USUAL)) == [GUARD_KIND, KIND]


def test_different_conditions_reach_the_guard_in_two_steps() -> None:
    live = LiveWebhooks()
    live.reach(USUAL)
    assert kinds(live.plan(SILENT)) == [GUARD_KIND, KIND, GUARD_KIND]


def test_the_guard_does_not_fail_without_a_ca_bundle() -> None:
    live = LiveWebhooks(ca="")
    live.reach(USUAL)
    assert live.guard["failurePolicy"] == "Ignore"
    live.guard["clientConfig"]["caBundle"] = "Q0E="
    live.reach(USUAL)
    assert live.guard["failurePolicy"] == "Fail"
    live.guard["clientConfig"]["caBundle"] = ""
    live.reach(USUAL)
    assert live.guard["failurePolicy"] == "Ignore"


def test_the_guard_does_not_fail_while_the_webhook_for_pods_does_not() -> None:
    live = LiveWebhooks()
    (pods,) = live.mutating["webhooks"]
    for policy in ("Ignore", "Fail", "Ignore"):
        pods["failurePolicy"] = policy
        live.reach(USUAL)
        assert live.guard["failurePolicy"] == policy
    pods["failurePolicy"] = "Fail"
    live.reach(USUAL)
    pods["failurePolicy"] = "Ignore"
    for change in live.plan(SILENT):
        assert change["webhooks"][0].get("failurePolicy", "Ignore") == "Ignore"


def test_the_guard_does_not_fail_while_a_replica_does_not_serve_it() -> None:
    live = LiveWebhooks()
    for change in live.plan(USUAL, guard_served=False):
        live.apply(change)
    assert live.conditions(GUARD_WEBHOOK)
    assert live.guard["failurePolicy"] == "Ignore"
    live.reach(USUAL)
    assert live.guard["failurePolicy"] == "Fail"
    assert not live.plan(USUAL, guard_served=False)


def test_the_guard_does_not_fail_before_it_has_its_conditions() -> None:
    live = LiveWebhooks()
    for change in live.plan(USUAL):
        fails = live.guard["failurePolicy"] == "Fail"
        assert not fails or CONDITION_NAME in live.conditions(GUARD_WEBHOOK)
        live.apply(change)


def test_missing_webhooks_are_not_added() -> None:
    assert not plan_applies(None, None, USUAL, guard_served=True)
    assert not plan_applies({"webhooks": []}, {"webhooks": []}, USUAL, guard_served=True)
    live = LiveWebhooks()
    assert kinds(plan_applies(live.mutating, None, USUAL, guard_served=True)) == [KIND]
    (change,) = plan_applies(None, live.validating, USUAL, guard_served=True)
    assert change["webhooks"][0]["failurePolicy"] == "Ignore"


GUARD = Environment({"object": DYN}, libraries("1.36", stored=True)).compile(
    derive_conditions(USUAL)[GUARD_WEBHOOK][CONDITION_NAME]
)


def guarded(pod: YamlValue) -> bool:
    value = {"metadata": pod.get("metadata") or {}, "spec": pod.get("spec") or {}}
    selected = GUARD.evaluate({"object": value}).value
    assert isinstance(selected, bool)
    return selected


def without_claims(pod: YamlValue) -> YamlValue:
    """Return a pod as an API server without DynamicResourceAllocation stores it."""
    spec = {name: value for name, value in pod["spec"].items() if name != "resourceClaims"}
    for part in CONTAINERS:
        if part in spec:
            spec[part] = [_without_claims(each) for each in spec[part]]
    return {**pod, "spec": spec}


def _without_claims(container: YamlValue) -> YamlValue:
    resources = container.get("resources") or {}
    kept = {name: value for name, value in resources.items() if name != "claims"}
    return {**container, "resources": kept}


def without_marks(pod: YamlValue) -> YamlValue:
    """Return a pod without the annotations and claims of a translation."""
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    kept = {key: text for key, text in notes.items() if not key.startswith("drawbridge.dev/")}
    spec = {name: value for name, value in pod["spec"].items() if name != "resourceClaims"}
    return {"metadata": {**pod["metadata"], "annotations": kept}, "spec": spec}


def test_the_guard_gets_legacy_pods_but_no_pods_that_are_completely_translated() -> None:
    untouched = 0
    for pod in pods():
        translation = translate(pod, TranslationContext())
        if not translation.edits:
            continue
        assert guarded(pod), pod
        after: YamlValue = apply_edits(pod, translation.edits)
        # Some annotations and labels stay, because other tools read them.
        assert guarded(after) == covers(without_marks(after), derive_interest(USUAL)), after
        if not guarded(after):
            untouched += 1
            assert guarded(without_claims(after))
    assert untouched > 100


@pytest.mark.parametrize(
    ("part", "claims", "is_guarded"),
    [
        ("containers", [{"name": "drawbridge"}], False),
        ("initContainers", [{"name": "drawbridge"}], False),
        ("containers", [], True),
        ("containers", None, True),
    ],
)
def test_the_guard_gets_a_translated_pod_if_no_container_has_a_claim(
    part: str, claims: YamlValue, *, is_guarded: bool
) -> None:
    spec = {"containers": [{"name": "b"}], part: [{"name": "a", "resources": {"claims": claims}}]}
    assert guarded({**TRANSLATED, "spec": spec}) == is_guarded
    assert not guarded({"spec": spec})
