"""Probes of the claim fields that the API server stores."""

import asyncio
import contextlib
import copy
import datetime as dt
import itertools
from collections.abc import AsyncIterator, Callable

import pytest

from controller.field_probe import (
    COMPARED_RUNS,
    ENOUGH_REFUSALS,
    FIELD_PROBES,
    FieldProbeReconciler,
    ProbedServer,
    ServerSupport,
    infer_gates,
)
from controller.protocols import Unstructured
from controller.watched_objects import PartialObject
from drawbridge.api_error import ApiError
from drawbridge.dra.gates import Gates
from drawbridge.facts.gather import describe_cluster
from drawbridge.facts.model import GATE_OF_FIELD, Cluster
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeClock, FakeReporter
from tests.tables import every_row

ALL = tuple(sorted(FIELD_PROBES))


class Scene:
    """A reconciler with a server that drops some fields and rejects invalid objects."""

    def __init__(self, *dropped: str, version: str = "1.36") -> None:
        self.templates, self.reporter = MemoryStore(PartialObject), FakeReporter()
        self.version = version
        self.templates.admit = lambda value: drop_fields(value, dropped)
        self.clock, self.connections = FakeClock(), 0
        self.start(None)

    def start(self, published: Cluster | None) -> None:
        """Begin a term after these facts were published."""

        async def read_published() -> Cluster | None:
            return published

        self.reconciler = FieldProbeReconciler(
            self._connect, read_published, self.reporter, self.clock.elapsed
        )

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[ProbedServer]:
        self.connections += 1
        yield ProbedServer(self.templates, self._version)

    async def _version(self) -> str:
        return self.version

    def reconcile(self) -> tuple[str, ...]:
        """Run the reconciler once and return the stored fields."""
        asyncio.run(self.reconciler.reconcile())
        assert self.reconciler.support is not None
        return self.reconciler.support.stored_fields


def invalid(message: str) -> ApiError:
    return ApiError(422, "Invalid", message)


def drop_fields(value: Unstructured, dropped: tuple[str, ...]) -> Unstructured:
    """Drop fields and validate, as the API server does."""
    devices = value["spec"]["spec"]["devices"]
    for request in devices["requests"]:
        for field in dropped:
            part, _, name = field.rpartition(".")
            (request.get(part, {}) if part else request).pop(name, None)
        if "exactly" not in request and "firstAvailable" not in request:
            raise invalid("requests[0]: exactly one of `exactly` or `firstAvailable`")
        if request.get("exactly", {}).get("adminAccess"):
            raise invalid("adminAccess: admin access to devices requires the label")
    for constraint in devices.get("constraints", ()):
        if "constraints.distinctAttribute" in dropped:
            constraint.pop("distinctAttribute", None)
        if not constraint.keys() & {"matchAttribute", "distinctAttribute"}:
            raise invalid("constraints[0].matchAttribute: Required value")
    return value


def test_a_server_with_all_features_stores_all_fields() -> None:
    assert Scene().reconcile() == ALL


@every_row("field", ALL)
def test_a_dropped_field_is_detected(field: str) -> None:
    assert Scene(field).reconcile() == tuple(name for name in ALL if name != field)


def test_probes_store_nothing() -> None:
    scene = Scene()
    scene.reconcile()
    assert scene.templates.objects == {}
    assert {verb for verb, _ in scene.templates.requests} == {"dry-run"}


def test_admin_access_in_a_labelled_namespace_is_stored() -> None:
    scene = Scene()
    scene.templates.admit = copy.deepcopy
    assert "exactly.adminAccess" in scene.reconcile()


def test_a_changed_result_calls_the_listener() -> None:
    scene, results = Scene(), []
    scene.reconciler.listener = lambda: results.append(scene.reconciler.support)
    assert scene.reconcile() == ALL
    scene.reconcile()
    assert len(results) == 1
    scene.templates.admit = lambda value: drop_fields(value, ("exactly.capacity",))
    assert "exactly.capacity" not in scene.reconcile()
    scene.version = "1.35"
    scene.reconcile()
    assert [each and each.version for each in results] == ["1.36", "1.36", "1.35"]


def test_what_only_one_of_several_servers_stores_does_not_count() -> None:
    scene, results = Scene(), []
    scene.reconciler.listener = lambda: results.append(scene.reconciler.support)
    answers = itertools.cycle([True, False, False, True, True])

    def admit(value: Unstructured) -> Unstructured:
        is_old = next(answers)
        scene.version = "1.35" if is_old else "1.36"
        return drop_fields(value, ("exactly.capacity", "exactly.tolerations") if is_old else ())

    scene.templates.admit = admit
    for _ in range(3 * COMPARED_RUNS):
        scene.reconcile()
    assert len(results) < COMPARED_RUNS
    settled = len(results)
    for _ in range(3 * COMPARED_RUNS):
        assert "exactly.capacity" not in scene.reconcile()
    assert len(results) == settled
    assert scene.reconciler.support is not None
    assert scene.reconciler.support.version == "1.35"


def test_what_a_server_begins_to_store_counts_after_some_runs() -> None:
    scene = Scene("exactly.capacity", version="1.35")
    scene.reconcile()
    scene.templates.admit, scene.version = lambda value: drop_fields(value, ()), "1.36"
    for _ in range(COMPARED_RUNS - 1):
        assert "exactly.capacity" not in scene.reconcile()
    assert scene.reconcile() == ALL
    assert scene.reconciler.support is not None
    assert scene.reconciler.support.version == "1.36"


def test_each_run_has_a_new_connection() -> None:
    """A load balancer selects an API server for a connection, and not for a request."""
    scene = Scene()
    for runs in (1, 2):
        scene.reconcile()
        assert scene.connections == runs


def test_a_new_leader_counts_what_was_published_as_a_run() -> None:
    """It may meet only the newer one of two API servers at first."""
    scene = Scene()
    scene.start(Cluster("1.35", keeps=("exactly.tolerations", "exactly.adminAccess")))
    for _ in range(COMPARED_RUNS - 1):
        assert scene.reconcile() == ("exactly.adminAccess", "exactly.tolerations")
        assert scene.reconciler.support is not None
        assert scene.reconciler.support.version == "1.35"
    assert scene.reconcile() == ALL
    assert scene.reconciler.support.version == "1.36"


def test_a_field_that_an_older_leader_did_not_probe_counts_at_once() -> None:
    """It has published the default of the gate."""
    scene = Scene()
    scene.start(describe_cluster(Gates(), [name for name in ALL if name != "exactly.tolerations"]))
    assert "exactly.tolerations" in scene.reconcile()


def test_a_new_leader_finds_that_a_published_field_is_dropped() -> None:
    scene = Scene("exactly.capacity", version="1.35")
    scene.start(Cluster("1.36", keeps=ALL))
    assert scene.reconcile() == tuple(name for name in ALL if name != "exactly.capacity")
    assert scene.reconciler.support is not None
    assert scene.reconciler.support.version == "1.35"


def test_what_was_published_is_no_answer_to_a_probe_that_is_refused() -> None:
    scene = Scene()
    scene.start(Cluster("1.36", keeps=ALL))
    scene.templates.before_write = refuse_alternatives(403, DENIED)
    fail(scene, ENOUGH_REFUSALS - 1)
    assert scene.reconciler.support is None
    assert scene.reconcile() == tuple(name for name in ALL if name != "firstAvailable")


def test_a_finding_is_reported_once_and_again_when_it_comes_back() -> None:
    scene = Scene(version="1.39")
    for version, runs in (("1.39", 2), ("1.36", 1), ("1.39", COMPARED_RUNS)):
        scene.version = version
        for _ in range(runs):
            scene.reconcile()
    assert scene.reporter.codes == ["ServerVersionUnknown"] * 2


def failing_with(code: int, message: str = "no") -> Callable[[str, Unstructured], None]:
    def fail(_verb: str, _value: Unstructured) -> None:
        raise ApiError(code, "Rejected", message)

    return fail


@pytest.mark.parametrize("code", [0, 403, 429, 500])
def test_a_failed_request_raises_and_the_next_run_probes_again(code: int) -> None:
    scene = Scene()
    scene.templates.before_write = failing_with(code)
    with pytest.raises(ApiError):
        scene.reconcile()
    assert scene.reconciler.support is None
    scene.templates.before_write = lambda _verb, _value: None
    assert scene.reconcile() == ALL


@pytest.mark.parametrize("code", [400, 403, 409, 503])
def test_an_answer_that_is_no_validation_drops_no_field(code: int) -> None:
    """A right that is not there for a moment is a feature that is not there for minutes."""
    scene, refused = Scene(), set[str]()
    admit = scene.templates.admit

    def refuse_each_once(value: Unstructured) -> Unstructured:
        if (text := f"{value['spec']}") in refused:
            return admit(value)
        refused.add(text)
        raise ApiError(code, "Refused", "no")

    scene.templates.admit = refuse_each_once
    for _ in ALL:
        with contextlib.suppress(ApiError):
            scene.reconcile()
    assert scene.reconcile() == ALL
    assert scene.reporter.codes == []


def test_a_run_after_a_failed_one_probes_what_is_left() -> None:
    """An API server that fails often would let no run end."""
    scene, answers = Scene(), itertools.count(1)
    admit = scene.templates.admit

    def fail_each_third(value: Unstructured) -> Unstructured:
        if next(answers) % 3 == 0:
            raise ApiError(503, "ServiceUnavailable", "fault")
        return admit(value)

    scene.templates.admit = fail_each_third
    for _ in range((len(ALL) + 1) // 2):
        assert scene.reconciler.support is None
        with contextlib.suppress(ApiError):
            asyncio.run(scene.reconciler.reconcile())
    assert scene.reconciler.support is not None
    assert scene.reconciler.support.stored_fields == ALL


NO_RIGHT = (
    'resourceclaimtemplates.resource.k8s.io is forbidden: User "system:serviceaccount:a:b" cannot '
    'create resource "resourceclaimtemplates" in API group "resource.k8s.io" in the namespace "a"'
)
DENIED = 'admission webhook "validate.example.com" denied the request: no alternatives'
DENIED_BY_POLICY = "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no alternatives"
REFUSALS = ((400, DENIED), (403, DENIED), (422, DENIED), (422, DENIED_BY_POLICY), (409, "exists"))


def refuse_alternatives(code: int, message: str) -> Callable[[str, Unstructured], None]:
    """Return a policy that refuses the probe of alternatives."""

    def refuse(_verb: str, value: Unstructured) -> None:
        if "firstAvailable" in f"{value['spec']}":
            raise ApiError(code, "Refused", message)

    return refuse


def fail(scene: Scene, times: int) -> None:
    """Run the reconciler so often; each run fails."""
    for _ in range(times):
        with pytest.raises(ApiError):
            scene.reconcile()


@every_row(("code", "message"), REFUSALS)
def test_a_probe_that_admission_always_refuses_keeps_the_last_answer_of_it(
    code: int, message: str
) -> None:
    scene, results = Scene(), []
    scene.reconciler.listener = lambda: results.append(scene.reconciler.support)
    scene.reconcile()
    scene.templates.before_write = refuse_alternatives(code, message)
    fail(scene, ENOUGH_REFUSALS - 1)
    assert scene.reporter.codes == []
    for _ in range(2 * COMPARED_RUNS):
        assert scene.reconcile() == ALL
    assert len(results) == 1
    assert scene.reporter.codes == ["ProbeRefused"]
    assert message in scene.reporter.findings[0].message
    scene.templates.before_write = lambda _verb, _value: None
    scene.templates.admit = lambda value: drop_fields(value, ("firstAvailable",))
    assert "firstAvailable" not in scene.reconcile()
    scene.templates.before_write = refuse_alternatives(code, message)
    fail(scene, ENOUGH_REFUSALS - 1)
    for _ in range(2 * COMPARED_RUNS):
        assert "firstAvailable" not in scene.reconcile()


@every_row(("code", "message"), REFUSALS)
def test_a_new_leader_goes_without_a_field_whose_probe_is_refused_until_it_has_an_answer(
    code: int, message: str
) -> None:
    scene = Scene()
    scene.templates.before_write = refuse_alternatives(code, message)
    fail(scene, ENOUGH_REFUSALS - 1)
    assert scene.reconciler.support is None
    assert scene.reconcile() == tuple(name for name in ALL if name != "firstAvailable")
    assert scene.reporter.codes == ["ProbeRefused"]
    scene.templates.before_write = lambda _verb, _value: None
    assert scene.reconcile() == ALL


def test_a_field_that_is_dropped_counts_while_another_probe_is_refused() -> None:
    scene = Scene()
    scene.reconcile()
    scene.templates.before_write = refuse_alternatives(403, DENIED)
    scene.templates.admit = lambda value: drop_fields(value, ("exactly.tolerations",))
    fail(scene, 1)
    assert scene.reconciler.support is not None
    assert "exactly.tolerations" not in scene.reconciler.support.stored_fields
    assert "firstAvailable" in scene.reconciler.support.stored_fields


def test_a_right_that_is_missing_for_long_says_nothing_about_fields() -> None:
    scene = Scene()
    scene.templates.before_write = failing_with(403, NO_RIGHT)
    fail(scene, 2 * ENOUGH_REFUSALS)
    assert scene.reconciler.support is None
    assert scene.reporter.codes == []
    scene.templates.before_write = lambda _verb, _value: None
    assert scene.reconcile() == ALL


def test_a_first_result_has_no_answer_from_before_an_outage() -> None:
    """The API server can come back with other gates."""
    scene = Scene()
    scene.templates.before_write = refuse_alternatives(503, "no")
    fail(scene, 2)
    scene.templates.before_write = lambda _verb, _value: None
    scene.templates.admit = lambda value: drop_fields(value, ("exactly.capacity",))
    scene.clock.now += dt.timedelta(hours=1)
    assert scene.reconcile() == tuple(name for name in ALL if name != "exactly.capacity")


def test_a_policy_that_refuses_all_probes_is_reported_for_each() -> None:
    scene = Scene()
    scene.templates.before_write = failing_with(422, "a policy")
    fail(scene, ENOUGH_REFUSALS - 1)
    assert scene.reconcile() == ()
    assert set(scene.reporter.codes) == {"ProbeRefused"}


def test_probe_results_override_the_default_gates() -> None:
    scene = Scene("exactly.capacity", "constraints.distinctAttribute", version="1.36")
    scene.reconcile()
    assert scene.reconciler.support is not None
    assert not scene.reconciler.support.gates.consumable_capacity
    assert scene.reconciler.support.gates.prioritized_list


@pytest.mark.parametrize(
    ("version", "assumed", "certain"),
    [
        ("1.36", "1.36", True),
        ("1.39", "1.37", False),
        ("1.30", "1.34", False),
        ("?", "1.34", False),
    ],
)
def test_the_nearest_version_replaces_an_unknown_version(
    version: str,
    assumed: str,
    certain: bool,  # noqa: FBT001  # a table
) -> None:
    gates, is_certain = infer_gates(version)
    assert (gates.version, is_certain) == (assumed, certain)


def test_an_unknown_version_is_reported() -> None:
    scene = Scene(version="1.39")
    scene.reconcile()
    assert scene.reporter.codes == ["ServerVersionUnknown"]


def test_a_new_leader_reports_an_unknown_version_in_its_first_run() -> None:
    """The facts have the version that was assumed."""
    scene = Scene(version="1.39")
    scene.start(Cluster("1.37", keeps=ALL))
    scene.reconcile()
    assert scene.reporter.codes == ["ServerVersionUnknown"]


def test_unknown_versions_of_several_servers_are_one_result() -> None:
    scene, results = Scene(), []
    scene.reconciler.listener = lambda: results.append(scene.reconciler.support)
    for version in ("1.38", "1.39", "1.37") * COMPARED_RUNS:
        scene.version = version
        scene.reconcile()
    assert (len(results), scene.reporter.codes) == (1, ["ServerVersionUnknown"])


def test_every_gated_field_has_a_probe() -> None:
    assert set(FIELD_PROBES) == set(GATE_OF_FIELD)


def test_waiting_returns_the_first_result() -> None:
    async def play() -> ServerSupport:
        scene = Scene()
        waiting = asyncio.create_task(scene.reconciler.wait_for_support())
        await scene.reconciler.reconcile()
        return await waiting

    assert asyncio.run(play()).stored_fields == ALL


@every_row("version", ["1.36", "1.37", "1.39"])
def test_slices_with_groups_count_on_a_cluster_whose_gate_nobody_tells(version: str) -> None:
    gates, _ = infer_gates(version, ())
    assert not gates.ignores_grouped_slices
    assert describe_cluster(gates).feature_gates == gates
    assert ("counts_groups" in describe_cluster(gates).gates) is (version >= "1.37")
