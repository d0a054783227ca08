"""A generated claim that lacks what the template of its pod says is reported on the pod."""

import asyncio
import copy
from typing import Any

import pytest

from controller import changed_claims
from controller.changed_claims import ChangedClaimReconciler, ClaimSources
from controller.device_users import read_device_pod, read_watched_claim
from controller.watched_objects import PartialObject
from drawbridge.agreement.owned_templates import LARGEST_TEMPLATE
from drawbridge.agreement.template_objects import build_object
from drawbridge.api_error import ApiError
from drawbridge.ledger.generated_claims import POD_CLAIM
from drawbridge.names import RULES_ANNOTATION
from drawbridge.translate.changes.template import make_template
from tests.cluster.memory_store import MemoryStore
from tests.controller.harness import FakeReporter

FULL: Any = {"deviceClassName": "share", "capacity": {"requests": {"memory": "8Gi"}}}
MADE = make_template({"devices": {"requests": [{"name": "gpu", "exactly": FULL}]}})
SPEC: Any = MADE.object["spec"]
FIELD = "spec.devices.requests[0].exactly.capacity"
WAITED_RUNS = 12


class Scene:
    """A reconciler over the objects of a namespace."""

    def __init__(self) -> None:
        self.claims = MemoryStore(None, decode=read_watched_claim)
        self.pods = MemoryStore(None, decode=read_device_pod)
        self.templates, self.reporter = MemoryStore(PartialObject), FakeReporter()
        self.has_pods = True
        self.start()

    def start(self) -> None:
        """Begin a term."""
        sources = ClaimSources(self.claims, self.pods, self.templates, lambda: self.has_pods)
        self.reconciler = ChangedClaimReconciler(sources, self.claims, self.reporter)
        self.claims.subscribe(self.reconciler.claim_changed)

    def put_template(self, name: str = MADE.name, **more: Any) -> None:  # noqa: ANN401  # JSON
        """Store a template with the content of ours, or with more."""
        stored = copy.deepcopy(build_object(MADE, "ml"))
        stored["metadata"] = {**copy.deepcopy(stored["metadata"]), "name": name}  # type: ignore[dict-item]
        self.templates.put({**stored, **more})

    def put_pod(self, name: str = "p", template: str = MADE.name) -> str:
        """Store a pod with a claim of a template; return its uid."""
        claims = [{"name": "drawbridge", "resourceClaimTemplateName": template}]
        containers = [{"name": "main", "resources": {"claims": [{"name": "drawbridge"}]}}]
        spec = {"resourceClaims": claims, "containers": containers}
        return self.pods.put({"metadata": {"name": name, "namespace": "ml"}, "spec": spec}).uid

    def put_claim(self, uid: str, name: str = "p", *, lost: bool = True, **metadata: Any) -> None:  # noqa: ANN401  # JSON
        """Store the claim of a pod with this uid, without its capacity."""
        spec = copy.deepcopy(SPEC["spec"])
        if lost:
            del spec["devices"]["requests"][0]["exactly"]["capacity"]
        owner = {"kind": "Pod", "name": name, "uid": uid, "controller": True}
        named: Any = {"name": f"{name}-drawbridge", "namespace": "ml", "ownerReferences": [owner]}
        named["annotations"] = {POD_CLAIM: "drawbridge"}
        self.claims.put({"metadata": {**named, **metadata}, "spec": spec})

    def run(self, times: int = 1) -> list[str]:
        """Run the reconciler, and return the messages of all findings."""
        for _ in range(times):
            asyncio.run(self.reconciler.reconcile())
        assert {*self.reporter.codes} <= {"ClaimChanged"}
        return [each.message for each in self.reporter.findings]

    @property
    def reads(self) -> int:
        """How often claims were read from the API server."""
        return len(self.claims.requests)


def test_a_claim_that_lacks_a_field_is_reported_once_on_its_pod() -> None:
    scene = Scene()
    scene.put_template()
    uid = scene.put_pod()
    scene.put_claim(uid)
    (message,) = scene.run(2)
    assert message == (
        f"ResourceClaim ml/p-drawbridge does not have {FIELD} as ResourceClaimTemplate "
        f"{MADE.name} says"
    )
    (finding,), ((_, reference),) = scene.reporter.findings, scene.reporter.reported
    assert finding.path == FIELD
    assert (reference.kind, reference.name, reference.namespace) == ("Pod", "p", "ml")
    assert reference.uid == uid
    scene.put_claim(uid, finalizers=["a"])
    assert len(scene.run()) == 1


@pytest.mark.parametrize("lost", [True, False])
def test_claims_of_one_content_are_read_once(lost: bool) -> None:  # noqa: FBT001  # a table
    scene = Scene()
    scene.put_template()
    for name in ("p", "q", "r"):
        scene.put_claim(scene.put_pod(name), name, lost=lost)
    assert (len(scene.run()), scene.reads) == (3 if lost else 0, 1)
    scene.put_claim(scene.put_pod("s"), "s", lost=not lost)
    assert (len(scene.run()), scene.reads) == (3 if lost else 1, 2)


def test_a_template_of_others_is_read_once_for_claims_of_one_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, checked = Scene(), list[bytes]()
    check = changed_claims.check_content
    monkeypatch.setattr(
        changed_claims, "check_content", lambda raw: (checked.append(raw), check(raw))[1]
    )
    scene.put_template(spec={"spec": {"devices": {}}})
    for name in ("p", "q", "r"):
        scene.put_claim(scene.put_pod(name), name)
    assert (scene.run(), scene.reads, len(checked)) == ([], 0, 1)
    scene.put_template()
    scene.put_claim(scene.put_pod("s"), "s")
    assert (len(scene.run()), len(checked)) == (1, 2)


def test_a_template_that_is_larger_than_ours_is_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    monkeypatch.setattr(changed_claims, "check_content", None)
    scene.put_template(more="a" * LARGEST_TEMPLATE)
    scene.put_claim(scene.put_pod())
    assert (scene.run(), scene.reads) == ([], 0)


def test_a_claim_that_is_larger_than_a_template_of_ours_is_not_compared() -> None:
    scene = Scene()
    scene.put_template()
    more = "a" * LARGEST_TEMPLATE
    annotations = {POD_CLAIM: "drawbridge", RULES_ANNOTATION: more}
    scene.put_claim(scene.put_pod(), annotations=annotations)
    assert (scene.run(), scene.reads) == ([], 0)


def test_a_comparison_that_raises_does_not_fail_each_run_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.put_template()
    scene.put_claim(scene.put_pod())
    monkeypatch.setattr(scene.claims, "iterate", None)
    for _ in range(WAITED_RUNS):
        with pytest.raises(TypeError):
            scene.run()
    scene.run()


def test_no_run_counts_before_pods_have_been_listed() -> None:
    scene = Scene()
    scene.has_pods = False
    scene.put_template()
    scene.put_claim(scene.put_pod())
    assert scene.run(WAITED_RUNS + 1) == []
    scene.has_pods = True
    assert len(scene.run()) == 1


def test_a_claim_that_others_add_to_is_as_its_template_says() -> None:
    scene = Scene()
    scene.put_template()
    uid = scene.put_pod()
    spec = copy.deepcopy(SPEC["spec"])
    spec["devices"]["requests"][0]["exactly"]["tolerations"] = [{"operator": "Exists"}]
    owner = {"kind": "Pod", "name": "p", "uid": uid, "controller": True}
    metadata: Any = {"name": "c", "namespace": "ml", "ownerReferences": [owner]}
    metadata["annotations"] = {POD_CLAIM: "drawbridge"}
    scene.claims.put({"metadata": metadata, "spec": spec})
    assert (scene.run(), scene.reads) == ([], 1)


@pytest.mark.parametrize("name", ["gpus", "gpus-1a2b3c4d", "drawbridge-1a2b3c4d"])
def test_a_template_whose_name_is_no_hash_says_nothing(name: str) -> None:
    scene = Scene()
    scene.put_template(name)
    scene.put_claim(scene.put_pod(template=name))
    assert (scene.run(), scene.reads) == ([], 0)


def test_a_template_with_the_content_of_others_says_nothing() -> None:
    scene = Scene()
    exactly = {"deviceClassName": "share", "count": 7}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    scene.put_template(spec={"spec": spec})
    scene.put_claim(scene.put_pod())
    assert scene.run() == []


def test_claims_of_earlier_pods_of_users_and_of_the_scheduler_are_not_compared() -> None:
    scene = Scene()
    scene.put_template()
    uid = scene.put_pod()
    scene.put_claim("another")
    scene.run(WAITED_RUNS + 1)
    scene.put_claim(uid, annotations={}, name="plain")
    scene.put_claim(uid, "q", ownerReferences=[{"kind": "PodGroup", "name": "p", "uid": uid}])
    assert (scene.run(), scene.reads) == ([], 0)


def test_a_claim_waits_for_its_pod_and_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    scene.put_claim(scene.put_pod())
    with monkeypatch.context() as patch:
        patch.setattr(scene.pods, "get", lambda *_: None)
        assert scene.run(3) == []
    assert scene.run(3) == []
    scene.put_template()
    assert len(scene.run()) == 1


def test_a_claim_waits_for_a_bounded_time() -> None:
    scene = Scene()
    scene.put_claim("nobody", "p")
    assert scene.run(WAITED_RUNS) == []
    assert not scene.reconciler._left  # noqa: SLF001  # what would grow
    scene.put_claim("nobody", "q")
    scene.claims.remove("q-drawbridge", "ml")
    assert not scene.reconciler._left  # noqa: SLF001


def test_a_new_leader_compares_the_claims_that_are_there() -> None:
    scene = Scene()
    scene.put_template()
    scene.put_claim(scene.put_pod())
    scene.start()
    assert len(scene.run()) == 1


def test_a_claim_that_cannot_be_read_now_is_compared_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    scene.put_template()
    scene.put_claim(scene.put_pod())

    def fail(*_: object, **__: object) -> None:
        raise ApiError(503, "ServiceUnavailable", "no")

    with monkeypatch.context() as patch:
        patch.setattr(scene.claims, "iterate", fail)
        for _ in range(WAITED_RUNS + 1):
            with pytest.raises(ApiError):
                scene.run()
    assert len(scene.run()) == 1
