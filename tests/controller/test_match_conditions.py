"""The match conditions of the webhook: application, findings and their CEL expression."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from controller.match_conditions import LiveWebhooks, MatchConditionReconciler
from controller.protocols import Gauge, Unstructured
from controller.reconcile import run_reconciler
from controller.reconcilers import SCHEDULES
from controller.watched_objects import PartialObject
from drawbridge.agreement.match_conditions import (
    CONDITION_NAME,
    GUARD_KIND,
    KIND,
    REGISTERED,
    build_conditions,
    derive_widest_conditions,
    find_inactive,
    plan_applies,
)
from drawbridge.api_error import ApiError
from drawbridge.cel import Environment
from drawbridge.cel.library.versions import libraries
from drawbridge.cel.types import DYN
from drawbridge.config.model import (
    Admission,
    Configuration,
    LabelSelector,
    Legacy,
    Placement,
    Scope,
)
from drawbridge.config.string_formats import DriverName, NetworkName, ObjectName, ResourceName
from drawbridge.config.target import Target
from drawbridge.names import GUARD_WEBHOOK, POD_WEBHOOK, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION
from drawbridge.translate.interest import covers, derive_interest
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter
from tests.tables import YamlValue
from tests.thorough import drawn
from tests.translate.test_interest import PODS as ANY_PODS
from tests.translate.test_interest import pods

USUAL = Configuration()
OURS = build_conditions(derive_interest(USUAL))
NETWORKED = Configuration(
    legacy=Legacy(networks={NetworkName("default/a"): ResourceName("intel.com/vf")})
)


def live(*held: dict[str, str], name: str = POD_WEBHOOK) -> dict[str, Any]:
    return {
        "metadata": {"name": WEBHOOK_CONFIGURATION, "uid": "1"},
        "webhooks": [
            {"name": "updates.drawbridge.dev", "matchConditions": [{"name": "is-translated"}]},
            {"name": name, "clientConfig": {"caBundle": "Q0E="}, "matchConditions": [*held]},
        ],
    }


def validating(name: str) -> dict[str, Any]:
    """Return a validating webhook configuration that needs no change; its guard fails already."""
    guard = {
        "name": GUARD_WEBHOOK,
        "failurePolicy": "Fail",
        "clientConfig": {"caBundle": "Q0E="},
        "matchConditions": [asks(OURS[GUARD_WEBHOOK][CONDITION_NAME])],
    }
    webhooks = [
        guard if each == GUARD_WEBHOOK else {"name": each} for each in REGISTERED[GUARD_KIND, name]
    ]
    return {"metadata": {"name": name, "uid": name}, "webhooks": webhooks}


def asks(text: str = OURS[POD_WEBHOOK][CONDITION_NAME]) -> dict[str, str]:
    return {"name": CONDITION_NAME, "expression": text}


def test_only_the_own_condition_of_the_own_webhook_is_applied() -> None:
    assert not plan_applies(live(asks()), None, USUAL, guard_served=False)
    (change,) = plan_applies(live(), None, USUAL, guard_served=False)
    assert change["webhooks"] == [{"name": POD_WEBHOOK, "matchConditions": [asks()]}]
    assert set(change["metadata"]) == {"name"}


def test_a_missing_webhook_is_reported_and_not_created() -> None:
    without = live(name="other.drawbridge.dev")
    assert not plan_applies(without, None, USUAL, guard_served=False)
    (finding,) = find_inactive(without, USUAL)
    assert (finding.code, finding.path) == ("NameNotActive", "webhooks")
    assert "webhook pods.drawbridge.dev is missing" in finding.message
    assert "Apply the installation manifests" in finding.remedy


def test_without_conditions_every_pod_is_sent() -> None:
    assert find_inactive(live(), NETWORKED) == ()
    assert find_inactive(live(asks()), USUAL) == ()


def test_the_condition_of_the_manifests_is_reported_only_if_every_pod_is_wanted() -> None:
    (widest,) = derive_widest_conditions().values()
    assert find_inactive(live(asks(widest)), USUAL) == ()
    every = Configuration(admission=Admission(every_pod=True))
    (finding,) = find_inactive(live(asks(widest)), every)
    assert "has a different expression" in finding.message


def test_a_different_condition_is_reported_with_the_configured_names() -> None:
    (finding,) = find_inactive(live(asks("false")), NETWORKED)
    assert (finding.code, finding.path) == ("NameNotActive", "webhooks[1].matchConditions")
    assert f"condition {CONDITION_NAME} has a different expression" in finding.message
    assert finding.message.endswith("configured names that may be inactive: default/a")


def test_the_names_of_targets_are_configured_names() -> None:
    target = Target(
        driver=DriverName("fpga.example.com"),
        class_=ObjectName("fpga.example.com"),
        resources=(ResourceName("example.com/fpga"),),
    )
    (finding,) = find_inactive(live(asks("false")), Configuration(targets=(target,)))
    assert finding.message.endswith("configured names that may be inactive: example.com/fpga")


def test_an_additional_condition_is_reported() -> None:
    (finding,) = find_inactive(live(asks(), {"name": "mine", "expression": "false"}), USUAL)
    assert "condition mine is not managed by Drawbridge and may exclude pods" in finding.message


CHOOSING = Configuration(scope=Scope(namespace_selector=LabelSelector()))
LABEL = "drawbridge.dev/translate"
NOT_OFF = {"key": LABEL, "operator": "NotIn", "values": ["off"]}
NARROW: tuple[YamlValue, ...] = (
    {"matchExpressions": [{"key": LABEL, "operator": "Exists"}, NOT_OFF]},
    {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["enforce"]}]},
    {"matchLabels": {LABEL: "enforce"}},
)
WIDE: tuple[YamlValue, ...] = ({"matchExpressions": [NOT_OFF]}, {"matchLabels": {"team": "a"}}, {})


@pytest.mark.parametrize("selector", NARROW)
def test_selected_namespaces_that_the_webhook_excludes_are_reported(selector: YamlValue) -> None:
    held = live(asks())
    held["webhooks"][1]["namespaceSelector"] = selector
    (finding,) = find_inactive(held, CHOOSING)
    assert (finding.code, finding.path) == ("NameNotActive", "webhooks[1].namespaceSelector")
    assert "scope.namespaceSelector" in finding.message
    assert "Exists" in finding.remedy
    assert find_inactive(held, USUAL) == ()


@pytest.mark.parametrize("selector", WIDE)
def test_selected_namespaces_that_the_webhook_includes_are_not_reported(
    selector: YamlValue,
) -> None:
    held = live(asks())
    held["webhooks"][1]["namespaceSelector"] = selector
    assert find_inactive(held, CHOOSING) == ()


def test_a_missing_webhook_configuration_is_reported() -> None:
    (finding,) = find_inactive(None, USUAL)
    assert "MutatingWebhookConfiguration drawbridge does not exist" in finding.message
    assert "Apply the installation manifests" in finding.remedy


BRIDGE = Configuration(placement=Placement.BRIDGE)
CEL = {
    configuration.placement: Environment({"object": DYN}, libraries("1.36", stored=True)).compile(
        build_conditions(derive_interest(configuration))[POD_WEBHOOK][CONDITION_NAME]
    )
    for configuration in (USUAL, BRIDGE)
}


def sent(pod: YamlValue, configuration: Configuration = USUAL) -> bool:
    """Evaluate the condition; on the API server a pod always has a spec and metadata."""
    whole = {"metadata": pod.get("metadata") or {}, "spec": pod.get("spec") or {}}
    selected = CEL[configuration.placement].evaluate({"object": whole}).value
    assert isinstance(selected, bool)
    return selected


class _Resources(msgspec.Struct, frozen=True):
    limits: dict[str, object] | None = None
    requests: dict[str, object] | None = None


class _Container(msgspec.Struct, frozen=True):
    resources: _Resources = _Resources()


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, object] | None = None
    labels: dict[str, object] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


def is_decodable(pod: YamlValue) -> bool:
    """Whether the API server can decode a pod; conditions never see other pods."""
    try:
        msgspec.convert(pod, _Pod)
    except msgspec.ValidationError:
        return False
    return True


def test_the_condition_matches_the_pods_of_the_tables_as_interest_does() -> None:
    decodable = [pod for pod in pods() if is_decodable(pod)]
    assert len(decodable) > 200
    for pod in decodable:
        for configuration in (USUAL, BRIDGE):
            interest = derive_interest(configuration)
            assert sent(pod, configuration) == covers(pod, interest), pod


@given(ANY_PODS)
@settings(max_examples=drawn(30, thorough=150))
def test_the_condition_never_fails_and_matches_as_interest_does(pod: YamlValue) -> None:
    for configuration in (USUAL, BRIDGE):
        assert sent(pod, configuration) == covers(pod, derive_interest(configuration))


@pytest.mark.parametrize(
    ("claims", "selected"),
    [
        ([{"name": "own", "resourceClaimName": "gpu"}], True),
        ([{"name": "own", "resourceClaimTemplateName": "gpu"}], True),
        ([], False),
        (None, False),
    ],
)
def test_the_condition_of_bridge_placement_selects_pods_with_claims(
    claims: YamlValue, *, selected: bool
) -> None:
    pod: YamlValue = {"spec": {"containers": [{"name": "main"}], "resourceClaims": claims}}
    assert sent(pod, BRIDGE) is selected
    assert not sent(pod, USUAL)


@pytest.mark.parametrize(
    "pod",
    [
        {"spec": {"containers": None, "initContainers": None, "resourceClaims": None}},
        {"metadata": {"annotations": None, "labels": None}},
        {"spec": {"containers": [{"name": "a"}, {"name": "b", "resources": {}}]}},
        {"spec": {"containers": [{"resources": {"limits": None, "requests": None}}]}},
        {"spec": {"resourceClaims": [{"name": "own", "resourceClaimName": "mine"}]}},
    ],
    ids=["null-lists", "null-maps", "no-resources", "null-amounts", "own-claims"],
)
def test_missing_and_null_fields_do_not_match_and_do_not_fail(pod: YamlValue) -> None:
    assert not sent(pod)


def test_a_large_pod_stays_within_the_cost_budget() -> None:
    limits = dict.fromkeys(("cpu", "memory", "ephemeral-storage", "a.kubernetes.io/b"), "1")
    container = {"name": "a", "resources": {"limits": limits, "requests": limits}}
    notes = {f"example.com/note-{i}": "x" for i in range(500)}
    pod = {
        "metadata": {"annotations": notes, "labels": notes},
        "spec": {"containers": [container] * 500},
    }
    # The limit is 1,000,000 for one expression and 2,500,000 for all conditions of a webhook.
    for condition in CEL.values():
        assert condition.evaluate({"object": pod}).cost < 500_000
    # The API server does not limit the length, but every update transfers the text.
    assert len(OURS[POD_WEBHOOK][CONDITION_NAME]) < 4000


ROLLED_OUT: dict[str, Any] = {
    "metadata": {"generation": 1},
    "spec": {"template": {"metadata": {"annotations": {"drawbridge.dev/serves": "guard"}}}},
    "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2},
}


class WebhookStore(MemoryStore[PartialObject]):
    """Merges applied webhooks by name, as the API server does."""

    async def apply(self, value: Unstructured, namespace: str = "") -> Unstructured:
        """Apply the fields of the named webhooks."""
        held = self.objects[namespace, value["metadata"]["name"]]
        changes = {each["name"]: each for each in value["webhooks"]}
        merged = [{**each, **changes.get(each["name"], {})} for each in held["webhooks"]]
        return await super().apply({**value, "webhooks": merged}, namespace)


class Scene:
    """A reconciler over both webhook configurations."""

    def __init__(self, *held: dict[str, str]) -> None:
        self.applied: list[str] = []
        self.written: Unstructured = {}
        self.error: ApiError | None = None  # of the next write
        self.stores = {KIND: WebhookStore(PartialObject), GUARD_KIND: WebhookStore(PartialObject)}
        self.stores[KIND].put(live(*held))
        self.stores[GUARD_KIND].put(validating(WEBHOOK_CONFIGURATION))
        for kind, store in self.stores.items():
            store.before_write = partial(self._note_write, kind)
        self.deployment: dict[str, Any] | None = ROLLED_OUT
        self.reporter = FakeReporter()
        self.namespaces: dict[str, dict[str, str]] = {}
        webhooks = LiveWebhooks(
            self._read_mutating,
            self._read_validating,
            self._read_deployment,
            lambda: self.namespaces,
        )
        self.reconciler = MatchConditionReconciler(
            self.stores, webhooks, lambda: USUAL, self.reporter
        )

    def _note_write(self, kind: str, verb: str, written: Unstructured) -> None:
        self.applied.append(f"{verb} {kind}")
        self.written = written
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _read_mutating(self) -> Unstructured | None:
        return self.stores[KIND].objects.get(("", WEBHOOK_CONFIGURATION))

    def _read_validating(self, name: str) -> Unstructured | None:
        return self.stores[GUARD_KIND].objects.get(("", name))

    async def _read_deployment(self) -> Unstructured | None:
        return self.deployment

    def put_guard(self, ca: str) -> None:
        """Store the guard as the manifests ship it, with a certificate authority."""
        stored = validating(WEBHOOK_CONFIGURATION)
        guard = {"name": GUARD_WEBHOOK, "failurePolicy": "Ignore", "clientConfig": {"caBundle": ca}}
        others = [each for each in stored["webhooks"] if each["name"] != GUARD_WEBHOOK]
        self.stores[GUARD_KIND].put({**stored, "webhooks": [*others, guard]})

    def reconcile(self) -> list[str]:
        """Run once and return the writes."""
        self.applied.clear()
        asyncio.run(self.reconciler.reconcile())
        return [*self.applied]

    @property
    def guard(self) -> dict[str, Any]:
        """The guard as it is stored."""
        webhooks = self.stores[GUARD_KIND].objects["", WEBHOOK_CONFIGURATION]["webhooks"]
        (guard,) = (each for each in webhooks if each["name"] == GUARD_WEBHOOK)
        return {**guard}


def test_an_inactive_condition_is_reported_and_applied_once() -> None:
    scene = Scene(asks("false"))
    guard = f"apply {GUARD_KIND}"
    assert scene.reconcile() == [guard, f"apply {KIND}", guard]
    assert scene.reporter.codes == ["NameNotActive"]
    assert scene.reporter.gauges == {Gauge.MATCH_CONDITIONS_INACTIVE: 1}
    assert scene.reconcile() == []
    assert len(scene.reporter.codes) == 1
    assert scene.reporter.gauges == {Gauge.MATCH_CONDITIONS_INACTIVE: 0}


def test_namespaces_in_scope_that_the_webhook_leaves_out_are_reported_together() -> None:
    scene = Scene(asks())
    (stored,) = scene.stores[KIND].objects.values()
    requirement = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["d"]}
    selector = {"matchExpressions": [requirement]}
    webhooks = [{**each, "namespaceSelector": selector} for each in stored["webhooks"]]
    scene.stores[KIND].put({**stored, "webhooks": webhooks})
    modes = {"a": "enforce", "b": "report", "c": "off", "d": "enforce"}
    scene.namespaces = {name: {TRANSLATE_LABEL: mode} for name, mode in modes.items()}
    scene.reconcile()
    (told,) = scene.reporter.findings
    assert told.code == "NameNotActive"
    assert told.message.startswith("in scope, but not called for: a, b; the selectors of webhook")
    assert scene.reporter.gauges == {Gauge.MATCH_CONDITIONS_INACTIVE: 1}


def test_a_missing_configuration_is_reported_once_until_it_is_there_again() -> None:
    scene = Scene()
    (stored,) = scene.stores[KIND].objects.values()
    for _ in range(2):
        scene.stores[KIND].objects.clear()
        for _ in range(3):
            assert scene.reconcile() == []
        scene.stores[KIND].put(stored)
        scene.reconcile()
    assert scene.reporter.codes == ["NameNotActive"] * 2


def test_the_changes_are_applied_in_the_order_of_the_plan() -> None:
    scene = Scene(asks("false"))
    scene.put_guard("Q0E=")
    guard, pods = f"apply {GUARD_KIND}", f"apply {KIND}"
    assert scene.reconcile() == [guard, pods, guard]
    assert scene.guard["failurePolicy"] == "Fail"
    assert len(scene.guard["matchConditions"]) == 1


# The caBundle of the guard, the Deployment of the webhook, and the resulting failurePolicy.
POLICIES: dict[str, tuple[str, dict[str, Any] | None, str]] = {
    "a certificate and a complete rollout": ("Q0E=", ROLLED_OUT, "Fail"),
    "no certificate": ("", ROLLED_OUT, "Ignore"),
    "no Deployment": ("Q0E=", None, "Ignore"),
    "an older version": ("Q0E=", {**ROLLED_OUT, "spec": {}}, "Ignore"),
}


@pytest.mark.parametrize("case", POLICIES.values(), ids=POLICIES)
def test_the_guard_fails_only_once_it_can_deny_no_pod_by_mistake(
    case: tuple[str, dict[str, Any] | None, str],
) -> None:
    ca, deployment, policy = case
    scene = Scene(asks())
    scene.deployment = deployment
    scene.put_guard(ca)
    scene.reconcile()
    assert scene.guard["failurePolicy"] == policy
    assert scene.guard["matchConditions"]


class RolloutClock:
    """A virtual clock: at a second, the rollout of the webhook completes. No event tells of it."""

    def __init__(self, scene: Scene, second: float) -> None:
        self._scene = scene
        self._second = second
        self.seconds = 0.0

    def now(self) -> float:
        """Return the virtual time."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Advance; ends the run once the guard fails, or after ten virtual minutes."""
        self.seconds += seconds
        if self.seconds >= self._second:
            self._scene.deployment = ROLLED_OUT
        if self._scene.guard["failurePolicy"] == "Fail" or self.seconds > 600:
            raise asyncio.CancelledError

    async def wait_for(self, event: asyncio.Event, seconds: float) -> None:
        """Advance by the whole time, because no event comes."""
        assert not event.is_set()
        await self.sleep(seconds)


@pytest.mark.parametrize("second", [0.6, 4, 61, 300])
def test_the_guard_fails_seconds_after_the_rollout_without_any_event(second: float) -> None:
    scene = Scene(asks())
    scene.put_guard("Q0E=")
    scene.deployment = {**ROLLED_OUT, "status": {**ROLLED_OUT["status"], "updatedReplicas": 1}}
    clock = RolloutClock(scene, second)
    schedule = SCHEDULES["conditions"]
    run = run_reconciler(
        scene.reconciler, asyncio.Event(), schedule, lambda _, error: check_no(error), clock
    )
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run)
    assert scene.guard["failurePolicy"] == "Fail"
    assert clock.seconds < second + 10


def check_no(error: Exception | None) -> None:
    assert error is None


def test_the_guard_keeps_failing_during_the_next_rollout() -> None:
    scene = Scene(asks())
    scene.put_guard("Q0E=")
    scene.reconcile()
    status = {**ROLLED_OUT["status"], "updatedReplicas": 1}
    scene.deployment = {**ROLLED_OUT, "status": status}
    assert scene.reconcile() == []
    assert scene.guard["failurePolicy"] == "Fail"
