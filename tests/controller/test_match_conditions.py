"""The conditions of our webhook: what is applied, and what is told while they are not ours."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from cel import Environment
from cel.library.versions import libraries
from cel.types import DYN
from config.model import Configuration, LabelSelector, Legacy, Scope
from config.string_formats import NetworkName, ResourceName
from controller.match_conditions import ConditionsDuty
from controller.watched_objects import Named
from dra.names import POD_WEBHOOK, WEBHOOK_CONFIGURATION
from registration.match_conditions import ASKS, applied, conditions, inactive
from tests.controller.harness import Ears, Kind
from tests.tables import Plain
from tests.translate.test_interest import PODS as ANY_PODS
from tests.translate.test_interest import pods
from translate.interest import covers, interest

USUAL = Configuration()
OURS = conditions(interest(USUAL))
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


def asks(text: str = OURS[POD_WEBHOOK][ASKS]) -> dict[str, str]:
    return {"name": ASKS, "expression": text}


def test_only_our_condition_of_our_webhook_is_applied() -> None:
    assert applied(live(asks()), OURS) is None
    change = applied(live(), OURS)
    assert change is not None
    assert change["webhooks"] == [{"name": POD_WEBHOOK, "matchConditions": [asks()]}]
    assert set(change["metadata"]) == {"name"}


def test_a_webhook_that_is_not_there_is_not_made_and_told() -> None:
    without = live(name="other.drawbridge.dev")
    assert applied(without, OURS) is None
    (found,) = inactive(without, USUAL)
    assert (found.code, found.path) == ("NameNotActive", "webhooks")
    assert "no webhook pods.drawbridge.dev" in found.message
    assert "Apply the manifests" in found.remedy


def test_without_any_condition_every_pod_comes() -> None:
    assert inactive(live(), NETWORKED) == ()
    assert inactive(live(asks()), USUAL) == ()


def test_a_condition_that_is_not_ours_names_what_was_configured() -> None:
    (found,) = inactive(live(asks("false")), NETWORKED)
    assert (found.code, found.path) == ("NameNotActive", "webhooks[1].matchConditions")
    assert f"its condition {ASKS} is another than ours" in found.message
    assert found.message.endswith("configured names that may not be active: default/a")


def test_a_condition_of_somebody_else_may_keep_pods_away() -> None:
    (found,) = inactive(live(asks(), {"name": "mine", "expression": "false"}), USUAL)
    assert "condition mine is not ours and may keep pods from us" in found.message


CHOOSING = Configuration(scope=Scope(namespace_selector=LabelSelector()))
LABEL = "drawbridge.dev/translate"
NOT_OFF = {"key": LABEL, "operator": "NotIn", "values": ["off"]}
NARROW: tuple[Plain, ...] = (
    {"matchExpressions": [{"key": LABEL, "operator": "Exists"}, NOT_OFF]},
    {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["enforce"]}]},
    {"matchLabels": {LABEL: "enforce"}},
)
WIDE: tuple[Plain, ...] = ({"matchExpressions": [NOT_OFF]}, {"matchLabels": {"team": "a"}}, {})


@pytest.mark.parametrize("selector", NARROW)
def test_namespaces_that_are_chosen_but_never_sent_are_told(selector: Plain) -> None:
    held = live(asks())
    held["webhooks"][1]["namespaceSelector"] = selector
    (finding,) = inactive(held, CHOOSING)
    assert (finding.code, finding.path) == ("NameNotActive", "webhooks[1].namespaceSelector")
    assert "scope.namespaceSelector" in finding.message
    assert "Exists" in finding.remedy
    assert inactive(held, USUAL) == ()


@pytest.mark.parametrize("selector", WIDE)
def test_namespaces_that_are_chosen_and_sent_are_nothing_to_tell(selector: Plain) -> None:
    held = live(asks())
    held["webhooks"][1]["namespaceSelector"] = selector
    assert inactive(held, CHOOSING) == ()


def test_without_the_configuration_nothing_is_active() -> None:
    (found,) = inactive(None, USUAL)
    assert "there is no MutatingWebhookConfiguration drawbridge" in found.message


CEL = Environment({"object": DYN}, libraries("1.36", stored=True)).compile(OURS[POD_WEBHOOK][ASKS])


def sent(pod: Plain) -> bool:
    """What the API server decides of a pod, which always has a spec and metadata."""
    whole = {"metadata": pod.get("metadata") or {}, "spec": pod.get("spec") or {}}
    found = CEL.evaluate({"object": whole}).value
    assert isinstance(found, bool)
    return found


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


def typed(pod: Plain) -> bool:
    """Whether the API server can decode a pod; what it cannot never comes to conditions."""
    try:
        msgspec.convert(pod, _Pod)
    except msgspec.ValidationError:
        return False
    return True


def test_the_condition_says_of_every_pod_of_the_tables_what_interest_says() -> None:
    found = [pod for pod in pods() if typed(pod)]
    assert len(found) > 200
    for pod in found:
        assert sent(pod) == covers(pod, interest(USUAL)), pod


@given(ANY_PODS)
@settings(max_examples=150, deadline=None)
def test_the_condition_never_fails_and_says_what_interest_says(pod: Plain) -> None:
    assert sent(pod) == covers(pod, interest(USUAL))


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
def test_what_is_missing_or_null_is_nothing_and_no_error(pod: Plain) -> None:
    assert not sent(pod)


def test_a_large_pod_is_far_from_the_budget_of_conditions() -> None:
    limits = dict.fromkeys(("cpu", "memory", "ephemeral-storage", "a.kubernetes.io/b"), "1")
    one = {"name": "a", "resources": {"limits": limits, "requests": limits}}
    notes = {f"example.com/note-{i}": "x" for i in range(500)}
    pod = {"metadata": {"annotations": notes, "labels": notes}, "spec": {"containers": [one] * 500}}
    # One expression may cost a million, all conditions of a webhook a quarter of ten millions.
    assert CEL.evaluate({"object": pod}).cost < 500_000
    # The API server allows a text of any length; the bytes go over the wire with every change.
    assert len(OURS[POD_WEBHOOK][ASKS]) < 4000


def test_the_condition_is_written_once_and_told_until_then() -> None:
    webhooks, ears = Kind(Named), Ears()
    webhooks.put(live(asks("false")))
    duty = ConditionsDuty(
        webhooks, lambda: webhooks.objects["", WEBHOOK_CONFIGURATION], lambda: USUAL, ears
    )
    asyncio.run(duty.step())
    assert ears.codes == ["NameNotActive"]
    assert webhooks.asked == [("apply", WEBHOOK_CONFIGURATION)]
    assert ears.levels == {("conditions", "inactive"): 1}
    asyncio.run(duty.step())
    assert webhooks.asked == [("apply", WEBHOOK_CONFIGURATION)]
    assert len(ears.codes) == 1
    assert ears.levels == {("conditions", "inactive"): 0}
