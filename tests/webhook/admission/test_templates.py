"""The template cache creates templates once, and trusts their status for a while."""

import asyncio

import pytest

from drawbridge.finding import Finding, Severity
from drawbridge.names import USED_ANNOTATION
from drawbridge.translate.changes.template import ClaimTemplate, make_template
from tests.tables import YamlValue
from tests.webhook.admission.harness import Clock, MemoryTemplates
from webhook.admission.protocols import TemplateState, TemplateStatus, await_states
from webhook.admission.templates import MAX_AHEAD, TemplateCache
from webhook.server.template_store import read_watched_template, reduce_template

pytestmark = pytest.mark.asyncio


def build_template(count: int = 1, **exactly: YamlValue) -> ClaimTemplate:
    wanted = {"deviceClassName": "gpu.nvidia.com", "count": count, **exactly}
    return make_template({"devices": {"requests": [{"name": "gpu", "exactly": wanted}]}})


# A template is tried before it is created.
CREATED = ["dry-run", "create"]
NAMED = {"name": build_template().name}


def in_team(template: YamlValue) -> YamlValue:
    """Return the object of a template in the namespace of the tests."""
    return {**template, "metadata": {**template["metadata"], "namespace": "team"}}


class TemplateHarness:
    """A template cache over a fake store."""

    def __init__(self) -> None:
        self.store = MemoryTemplates()
        self.clock = Clock()
        self.templates = TemplateCache(self.store, self.clock, self.clock.elapsed)

    async def ensure(
        self, template: ClaimTemplate, namespace: str = "team", seconds: float = 5
    ) -> TemplateState:
        """Ensure a template."""
        (state,) = await await_states(
            [self.templates.ensure(namespace, template, seconds, dry_run=False)]
        )
        return state

    async def preview(self, template: ClaimTemplate) -> TemplateState:
        """Return what `ensure` would find, without creating the template."""
        (state,) = await await_states([self.templates.ensure("team", template, 5, dry_run=True)])
        return state

    async def run_background(self) -> None:
        """Run all background tasks."""
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_template_is_created_once_and_then_trusted() -> None:
    harness = TemplateHarness()
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED
    assert await harness.ensure(build_template()) is TemplateStatus.PRESENT
    assert harness.store.calls == CREATED
    (made,) = harness.store.stored.values()
    metadata: YamlValue = made["metadata"]
    assert metadata["namespace"] == "team"
    assert metadata["labels"] == {"app.kubernetes.io/managed-by": "drawbridge"}
    assert "annotations" not in metadata, "the controller records the first use"


async def test_an_expired_status_is_read_again() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    harness.clock.advance(seconds=31)
    assert await harness.ensure(build_template()) is TemplateStatus.PRESENT
    assert harness.store.calls == [*CREATED, "dry-run", "read"]


async def test_no_status_is_trusted_longer_after_a_step_back_of_the_wall_clock() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    harness.store.stored.clear()
    harness.clock.step(hours=-1)
    harness.clock.advance(seconds=31)
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_a_deleted_template_is_created_again() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    harness.store.stored.clear()
    harness.clock.advance(seconds=31)
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_a_watched_template_needs_no_request() -> None:
    harness = TemplateHarness()
    harness.store.server.put(in_team(build_template().object))
    harness.store.deliver()
    assert await harness.ensure(build_template()) is TemplateStatus.PRESENT
    harness.clock.advance(minutes=59)
    await harness.run_background()
    assert set(harness.store.calls) <= {"merge"}


def leave_out(harness: TemplateHarness) -> None:
    """Keep of templates only that they exist."""
    harness.store.watch.decode = lambda raw: reduce_template(read_watched_template(raw))


async def test_a_template_that_is_left_out_is_read_once_for_each_version() -> None:
    harness = TemplateHarness()
    leave_out(harness)
    harness.store.server.put(in_team(build_template().object))
    harness.store.deliver()
    for _ in range(3):
        harness.clock.advance(minutes=1)
        assert await harness.ensure(build_template()) is TemplateStatus.PRESENT
    assert harness.store.calls == ["read"]
    harness.store.server.put(in_team({**build_template(8).object, "metadata": NAMED}))
    harness.store.deliver()
    for _ in range(3):
        harness.clock.advance(minutes=1)
        assert await harness.ensure(build_template()) is TemplateStatus.CONFLICT
    assert harness.store.calls == ["read", "read"]


async def test_a_template_that_is_left_out_is_not_created_on_dry_run() -> None:
    harness = TemplateHarness()
    leave_out(harness)
    harness.store.server.put(in_team(build_template().object))
    harness.store.deliver()
    assert await harness.preview(build_template()) is TemplateStatus.PRESENT
    assert harness.store.calls == ["read"]


async def test_a_template_that_is_left_out_and_deleted_is_created_again() -> None:
    harness = TemplateHarness()
    leave_out(harness)
    harness.store.server.put(in_team(build_template().object))
    harness.store.deliver()
    await harness.ensure(build_template())
    harness.store.stored.clear()
    harness.store.watch.remove(build_template().name, "team")
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_a_watched_deletion_takes_effect_at_once() -> None:
    harness = TemplateHarness()
    harness.store.watch.put(in_team(build_template().object))
    await harness.ensure(build_template())
    harness.store.watch.remove(build_template().name, "team")
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_different_content_is_a_conflict_until_it_is_deleted() -> None:
    harness = TemplateHarness()
    other = {
        **build_template(8).object,
        "metadata": {"name": build_template().name, "namespace": "team"},
    }
    harness.store.server.put(other)
    assert await harness.ensure(build_template()) is TemplateStatus.CONFLICT
    calls = len(harness.store.calls)
    assert await harness.ensure(build_template()) is TemplateStatus.CONFLICT
    assert len(harness.store.calls) == calls
    harness.store.stored.clear()
    harness.clock.advance(seconds=3)
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_a_watched_change_is_a_conflict_at_once() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    other: YamlValue = in_team(build_template(8).object)
    other["metadata"]["name"] = build_template().name
    harness.store.watch.put(other)
    assert await harness.ensure(build_template()) is TemplateStatus.CONFLICT


async def test_concurrent_callers_share_one_request() -> None:
    harness = TemplateHarness()
    harness.store.unblocked.clear()
    tasks = [asyncio.create_task(harness.ensure(build_template())) for _ in range(20)]
    await harness.run_background()
    harness.store.unblocked.set()
    assert await asyncio.gather(*tasks) == [TemplateStatus.CREATED] * 20
    assert harness.store.calls == CREATED


async def test_a_caller_that_times_out_does_not_cancel_the_request() -> None:
    harness = TemplateHarness()
    harness.store.unblocked.clear()
    patient = asyncio.create_task(harness.ensure(build_template()))
    assert await harness.ensure(build_template(), seconds=0.01) is TemplateStatus.PENDING
    given_up = asyncio.create_task(harness.ensure(build_template()))
    await harness.run_background()
    given_up.cancel()
    harness.store.unblocked.set()
    assert await patient is TemplateStatus.CREATED


async def test_api_errors_give_a_pending_status() -> None:
    harness = TemplateHarness()
    harness.store.is_failing = True
    assert await harness.ensure(build_template()) is TemplateStatus.PENDING
    assert await harness.preview(build_template()) is TemplateStatus.PENDING
    harness.store.is_failing = False
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_a_rejection_is_reported_with_its_reason_and_retried() -> None:
    harness = TemplateHarness()
    harness.store.refusal = "exceeded quota: objects"
    for state in (
        await harness.ensure(build_template()),
        await harness.preview(build_template()),
    ):
        assert isinstance(state, Finding)
        assert (state.code, state.severity) == ("TemplateRefused", Severity.WARNING)
        assert build_template().name in state.message
        assert "exceeded quota: objects" in state.message
    assert harness.store.calls == ["dry-run"]
    harness.store.refusal = ""
    harness.clock.advance(seconds=3)
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


@pytest.mark.parametrize(
    ("exactly", "dropped"),
    [
        ({"capacity": {"requests": {"memory": "1Gi"}}}, "capacity"),
        ({"tolerations": [{"key": "a", "operator": "Exists"}]}, "tolerations"),
        ({"adminAccess": True}, "adminAccess"),
    ],
)
async def test_a_dropped_field_is_reported_and_no_template_is_left_behind(
    exactly: YamlValue, dropped: str
) -> None:
    harness = TemplateHarness()
    harness.store.dropped_fields = (dropped,)
    for ask in (
        harness.ensure(build_template(**exactly)),
        harness.preview(build_template(**exactly)),
    ):
        answer = await ask
        assert isinstance(answer, Finding)
        assert answer.code == "ClaimFieldDropped"
        assert answer.path == f"spec.spec.devices.requests[0].exactly.{dropped}"
        assert dropped in answer.message
    assert harness.store.stored == {}


async def test_a_template_that_a_policy_would_change_is_not_left_behind() -> None:
    harness = TemplateHarness()

    def add_label(template: YamlValue) -> YamlValue:
        template["spec"]["metadata"] = {"labels": {"team": "x"}}
        return template

    stores, harness.store.server.admit = harness.store.server.admit, add_label
    for _ in range(2):
        for ask in (harness.ensure(build_template()), harness.preview(build_template())):
            answer = await ask
            assert isinstance(answer, Finding)
            assert (answer.code, answer.path) == ("TemplateChanged", "spec.metadata")
        harness.clock.advance(seconds=3)
    assert harness.store.calls == ["dry-run"] * 2
    assert harness.store.stored == {}
    harness.store.server.admit = stores
    assert await harness.ensure(build_template()) is TemplateStatus.CREATED


async def test_a_preview_creates_no_template() -> None:
    harness = TemplateHarness()
    assert await harness.preview(build_template()) is TemplateStatus.PENDING
    assert harness.store.stored == {}
    await harness.ensure(build_template())
    assert await harness.preview(build_template()) is TemplateStatus.PRESENT


def mark_used(harness: TemplateHarness) -> None:
    """Record the first use as the controller does, and deliver it by the watch."""
    (stored,) = harness.store.stored.values()
    metadata = {**stored["metadata"], "annotations": {USED_ANNOTATION: "2026-11-20T12:00:00Z"}}
    harness.store.server.put({**stored, "metadata": metadata})
    harness.store.deliver()


async def test_a_template_without_a_recorded_use_is_not_renewed() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    harness.store.deliver()
    for _ in range(3):
        harness.clock.advance(hours=25)
        await harness.ensure(build_template())
    await harness.run_background()
    assert harness.store.calls == CREATED


async def test_use_is_recorded_once_an_hour_in_the_background() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    mark_used(harness)
    for _ in range(3):
        harness.clock.advance(minutes=25)
        await harness.ensure(build_template())
    await harness.run_background()
    assert harness.store.calls.count("merge") == 1
    (made,) = harness.store.stored.values()
    metadata: YamlValue = made["metadata"]
    assert metadata["annotations"][USED_ANNOTATION] == "2026-11-20T13:15:00Z"


async def test_a_failed_use_record_is_ignored() -> None:
    harness = TemplateHarness()
    await harness.ensure(build_template())
    mark_used(harness)
    harness.store.server.requests.clear()
    harness.clock.advance(hours=2)
    harness.store.is_failing = True
    assert await harness.ensure(build_template()) is TemplateStatus.PRESENT
    await harness.run_background()
    assert harness.store.calls == ["merge"]


async def test_an_invalid_use_annotation_is_ignored() -> None:
    harness = TemplateHarness()
    template = in_team(build_template().object)
    template["metadata"]["annotations"] = {USED_ANNOTATION: "yesterday", "a": "b"}
    harness.store.watch.put(template)
    assert await harness.ensure(build_template()) is TemplateStatus.PRESENT
    await harness.run_background()


async def test_the_templates_that_no_pod_uses_are_bounded_in_each_namespace() -> None:
    harness = TemplateHarness()
    states = [await harness.ensure(build_template(count)) for count in range(1, 301)]
    assert states.count(TemplateStatus.CREATED) == MAX_AHEAD
    assert states.count(TemplateStatus.PENDING) == 300 - MAX_AHEAD
    assert len(harness.store.stored) == MAX_AHEAD
    other = await harness.ensure(build_template(), "other")
    assert other is TemplateStatus.CREATED
    assert await harness.ensure(build_template(1)) is TemplateStatus.PRESENT
    harness.clock.step(hours=-1)
    harness.clock.advance(seconds=31)
    assert await harness.ensure(build_template(301)) is TemplateStatus.CREATED


async def test_the_bound_holds_for_concurrent_requests() -> None:
    harness = TemplateHarness()
    states = await asyncio.gather(*(harness.ensure(build_template(i)) for i in range(1, 101)))
    assert states.count(TemplateStatus.CREATED) == MAX_AHEAD


async def test_a_template_that_is_refused_takes_no_room() -> None:
    harness = TemplateHarness()
    harness.store.refusal = "a policy"
    for count in range(1, MAX_AHEAD + 1):
        assert isinstance(await harness.ensure(build_template(count)), Finding)
    harness.store.refusal = ""
    assert await harness.ensure(build_template(100)) is TemplateStatus.CREATED


async def test_a_used_or_deleted_template_makes_room() -> None:
    harness = TemplateHarness()
    for count in range(1, MAX_AHEAD + 1):
        await harness.ensure(build_template(count))
    harness.store.deliver()
    assert await harness.ensure(build_template(100)) is TemplateStatus.PENDING
    (name, *_) = (key[1] for key in harness.store.stored)
    await harness.store.touch("team", name, {"drawbridge.dev/used": "2026-11-20T12:00:00Z"})
    harness.store.deliver()
    assert await harness.ensure(build_template(100)) is TemplateStatus.CREATED
    harness.clock.advance(seconds=31)
    for namespace, deleted in tuple(harness.store.watch.objects):
        harness.store.watch.remove(deleted, namespace)
    assert await harness.ensure(build_template(101)) is TemplateStatus.CREATED
