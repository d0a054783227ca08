"""A pod that is created and the answer: the table, and what holds beside it."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from dra.names import ORIGINAL_ANNOTATION
from registration.admission_codes import TEMPLATE_LATER
from tests.tables import Plain, cases
from tests.webhook.admission.harness import ENFORCE, Known, Town, pod, review
from translate.changes.patch import restored
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.resource_quotas import ResourceQuota

pytestmark = pytest.mark.asyncio
CASES = cases(Path(__file__).parent / "cases" / "pods.yaml")
# A plugin serves the name, and the class is there to take over.
FACTS = {
    "classes": [{"name": "gpu.nvidia.com", "drivers": ["gpu.nvidia.com"], "devices": 8}],
    "names": [{"name": "nvidia.com/gpu", "nodes": 0}],
}


def asked_for(case: Plain) -> Plain:
    if "limits" in case:
        return pod(case["limits"])
    given = case["pod"]
    metadata = {"name": "p", "namespace": "team", **given.get("metadata", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": given["spec"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_the_table_of_pods(case: Plain) -> None:
    town = Town(Known(namespaces={"team": case.get("labels", ENFORCE)}))
    town.decides(case.get("configuration", {}), case.get("facts", FACTS))
    town.known.ranges = msgspec.convert(case.get("ranges", []), tuple[LimitRange, ...])
    town.known.held = msgspec.convert(case.get("quotas", []), tuple[ResourceQuota, ...])
    before = asked_for(case)
    answer = await town.pod(before, **case.get("request", {}))
    assert (answer.allowed, answer.status.get("code")) == (case["allowed"], case.get("code"))
    assert answer.reply.outcome == case.get("outcome", answer.reply.outcome)
    if "claims" in case:
        claims = [each["name"] for each in answer.after["spec"]["resourceClaims"]]
        assert claims == case["claims"]
    else:
        assert not answer.patch
    if "warnings" in case and not case.get("loosely"):
        begun = [w.startswith(b) for w, b in zip(answer.warnings, case["warnings"], strict=True)]
        assert all(begun), answer.warnings
    elif "warnings" in case:
        assert answer.warnings[0].startswith(case["warnings"][0]), answer.warnings
    elif answer.reply.outcome == "allowed":
        assert answer.warnings == []
    for each in case.get("message", []):
        assert each in answer.status["message"]
    if "resources" in case:
        resources = answer.after["spec"]["containers"][0]["resources"]
        assert {k: v for k, v in resources.items() if k != "claims"} == case["resources"]
    # And the same once more, by memory.
    again = await town.pod(before, **case.get("request", {}))
    assert again == answer


async def test_the_answer_says_in_the_audit_log_what_was_done() -> None:
    town = Town()
    town.decides({}, FACTS)
    answer = await town.pod(pod({"nvidia.com/gpu": 1}))
    given = town.known.given()
    assert given is not None
    claim = answer.after["spec"]["resourceClaims"][0]
    assert answer.audit == {
        "outcome": "translated",
        "findings": "TolerationAdded",
        "templates": claim["resourceClaimTemplateName"],
        "facts": given.digest,
    }
    assert [name for _, name in town.store.held] == [claim["resourceClaimTemplateName"]]


async def test_a_dry_run_gets_the_same_answer_and_nothing_is_made() -> None:
    town = Town()
    tried = await town.pod(pod({"nvidia.com/gpu": 1}), dryRun=True)
    assert town.store.held == {}
    assert "create" not in town.store.calls
    done = await town.pod(pod({"nvidia.com/gpu": 1}))
    assert tried == done
    assert len(town.store.held) == 1


async def test_a_dry_run_tells_of_a_taken_template_too() -> None:
    town = Town()
    await town.pod(pod({"nvidia.com/gpu": 1}))
    (held,) = town.store.held.values()
    spec: Plain = held["spec"]
    spec["spec"]["devices"]["requests"][0]["exactly"]["count"] = 8
    town.clock.goes(minutes=5)
    tried = await town.pod(pod({"nvidia.com/gpu": 1}), dryRun=True)
    town.clock.goes(minutes=5)
    real = await town.pod(pod({"nvidia.com/gpu": 1}))
    assert tried == real
    assert real.status["code"] == 403
    assert (
        "TemplateTaken: spec.resourceClaims: ResourceClaimTemplate team/" in real.status["message"]
    )
    assert "kubectl delete resourceclaimtemplate -n team drawbridge-" in real.status["message"]


async def test_a_template_that_cannot_be_made_now_lets_the_pod_in() -> None:
    town = Town()
    town.store.fails = True
    answer = await town.pod(pod({"nvidia.com/gpu": 1}))
    assert answer.allowed
    assert answer.patch
    assert TEMPLATE_LATER.name in answer.reply.codes
    town.store.fails = False
    assert TEMPLATE_LATER.name not in (await town.pod(pod({"nvidia.com/gpu": 1}))).reply.codes


async def test_a_slow_api_server_is_waited_for_no_longer_than_said() -> None:
    town = Town()
    town.store.open.clear()
    answer = await town.admission.pods(review(pod({"nvidia.com/gpu": 1})), 0.01)
    assert answer.outcome == "translated"
    assert TEMPLATE_LATER.name in answer.codes
    town.store.open.set()
    await town.templates.close()


async def test_a_field_that_the_api_server_drops_refuses_the_pod() -> None:
    town = Town()
    town.store.drops = ("capacity",)
    answer = await town.pod(pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 8000}))
    assert answer.status["code"] == 422
    assert (
        "ClaimFieldDropped: spec.spec.devices.requests[0].exactly.capacity"
        in answer.status["message"]
    )
    assert town.store.held == {}, "a template that takes whole devices must not stay behind"


async def test_several_templates_are_made_at_once() -> None:
    town = Town()
    town.store.open.clear()
    asked = asyncio.create_task(town.pod(pod({"nvidia.com/gpu": 40})))
    for _ in range(5):
        await asyncio.sleep(0)
    assert town.store.calls == ["create", "create"], "the second does not wait for the first"
    town.store.open.set()
    claims = (await asked).after["spec"]["resourceClaims"]
    assert [each["name"] for each in claims] == ["drawbridge", "drawbridge-2"]
    names = {("team", each["resourceClaimTemplateName"]) for each in claims}
    assert set(town.store.held) == names


async def test_a_namespace_that_stays_unknown_refuses_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook.admission.handler._STEP", 1e-9)
    answer = await Town().pod(pod({"nvidia.com/gpu": 1}), namespace="nowhere")
    assert answer.status["code"] == 503
    assert "namespace nowhere is not known here yet; try again" in answer.status["message"]


async def test_a_namespace_that_was_made_this_moment_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("webhook.admission.handler._STEP", 1e-9)
    town = Town()
    asked = []

    def namespace(name: str) -> dict[str, str] | None:
        asked.append(name)
        return ENFORCE if len(asked) > 3 else None

    monkeypatch.setattr(town.known, "namespace", namespace)
    assert (await town.pod(pod({"nvidia.com/gpu": 1}))).reply.outcome == "translated"


async def test_without_facts_ever_read_nothing_is_let_in() -> None:
    town = Town()
    town.known.by = None
    answer = await town.pod(pod({"nvidia.com/gpu": 1}))
    assert (answer.allowed, answer.status["code"]) == (False, 503)


async def test_a_second_webhook_that_adds_a_container_gets_a_second_claim() -> None:
    town = Town()
    first = (await town.pod(pod({"nvidia.com/gpu": 1}))).after
    added = {"name": "side", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    changed = json.loads(json.dumps(first))
    changed["spec"]["containers"].append(added)
    second = (await town.pod(changed)).after
    names = [each["name"] for each in second["spec"]["resourceClaims"]]
    assert names == ["drawbridge", "drawbridge-2"]
    assert second["spec"]["containers"][0] == first["spec"]["containers"][0]
    assert not (await town.pod(second)).patch
    back: Plain = restored(second)
    assert [each.get("resources") for each in back["spec"]["containers"]] == [
        pod({"nvidia.com/gpu": 1})["spec"]["containers"][0]["resources"],
        added["resources"],
    ]
    assert "resourceClaims" not in back["spec"]


async def test_what_a_limit_range_leaves_is_no_new_asking() -> None:
    town = Town()
    limit = {"type": "Container", "max": {"nvidia.com/gpu": 8}, "default": {"nvidia.com/gpu": 0}}
    town.known.ranges = [msgspec.convert({"spec": {"limits": [limit]}}, LimitRange)]
    asked = pod({"nvidia.com/gpu": "2"})
    after = (await town.pod(asked)).after
    none = {"nvidia.com/gpu": "0"}
    resources = after["spec"]["containers"][0]["resources"]
    assert (resources["limits"], resources["requests"]) == (none, none)
    assert not (await town.pod(after)).patch
    assert restored(after) == asked
    again = await town.pod(asked, operation="UPDATE", old=after)
    assert again.after == after


async def test_a_copied_pod_passes_unchanged() -> None:
    town = Town()
    first = (await town.pod(pod({"nvidia.com/gpu": 1}))).after
    copied = {**first, "metadata": {**first["metadata"], "name": "copy"}}
    answer = await town.pod(copied)
    assert answer.allowed
    assert not answer.patch


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "[]",
        "no json",
        "[" * 5000,
        '[{"op":"replace","path":"/spec/containers","value":[]}]',
        '[{"op":"add","path":"/metadata/finalizers","value":["x/y"]}]',
        '[{"op":"add","path":"/x","value":"\\ud800"}]',
        '[{"op":"remove","path":"/metadata"}]',
    ],
)
async def test_a_forged_way_back_changes_no_translation(forged: str) -> None:
    honest, town = pod({"nvidia.com/gpu": 1}), Town()
    lying = pod({"nvidia.com/gpu": 1})
    lying["metadata"]["annotations"] = {ORIGINAL_ANNOTATION: forged}
    answers = [await town.pod(each) for each in (honest, lying)]
    assert answers[0].after["spec"] == answers[1].after["spec"]


async def test_what_does_not_fit_is_told_by_a_command() -> None:
    town = Town()
    containers = [
        {
            "name": f"c{i}",
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "env": [
                {"name": "CUDA_VISIBLE_DEVICES", "value": "v" * 300},
                {"name": "NCCL_IB_HCA", "value": "=mlx5_0\n\x7f\u00e4"},
            ],
        }
        for i in range(16)
    ]
    many = pod(containers=containers)
    answer = await town.pod(many)
    assert answer.reply.outcome == "translated"
    assert answer.warnings[0].startswith("translated: nvidia.com/gpu: 1 of container c0, ")
    assert answer.warnings[-1] == "all of it: kubectl drawbridge explain p -n team"


async def test_what_is_left_of_a_quota_is_looked_at_for_a_remembered_pod_too() -> None:
    town = Town()
    devices = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"

    def used(amount: int) -> ResourceQuota:
        plain = {"spec": {"hard": {devices: 2}}, "status": {"used": {devices: amount}}}
        return msgspec.convert(plain, ResourceQuota)

    outcomes = []
    for amount in (0, 1, 2, 1):
        town.known.held = [used(amount)]
        outcomes.append((await town.pod(pod({"nvidia.com/gpu": 1}))).reply.outcome)
    assert outcomes == ["translated", "translated", "denied", "translated"]
    assert town.memory.misses == 1


async def test_what_there_is_to_say_of_other_webhooks_is_said_of_translated_pods() -> None:
    town = Town()
    town.decides({}, FACTS)
    about = TEMPLATE_LATER.at("", "another webhook adds devices after us")
    town.known.told = (about,)
    lines = [(await town.pod(pod(each))).warnings for each in ({"nvidia.com/gpu": 1}, {"cpu": 1})]
    assert any("another webhook adds devices" in each for each in lines[0])
    assert lines[1] == []


async def test_a_template_that_is_refused_lets_the_pod_in_and_says_why() -> None:
    town = Town()
    town.decides({}, FACTS)
    town.store.refuses = "403 Forbidden: exceeded quota: objects"
    for dry in (False, True):
        answer = await town.pod(pod({"nvidia.com/gpu": 1}), dryRun=dry)
        assert answer.allowed
        assert answer.after["spec"]["resourceClaims"]
        assert answer.reply.outcome == "translated"
        (line,) = [each for each in answer.warnings if each.startswith("TemplateRefused: ")]
        assert "exceeded quota: objects" in line
