"""The API server refuses the mirrored quota: what is reported, and when it is written again."""

import pytest

from controller.mirrored_quota import RECOUNT
from controller.protocols import Unstructured
from drawbridge.api_error import ApiError
from drawbridge.names import MIRRORED_QUOTA
from tests.controller.test_quota_mirror import GPUS, LIMIT, PODS, TEAM, Scene


class RefusedScene(Scene):
    """A scene in which writes can be refused."""

    def __init__(self) -> None:
        super().__init__({"quotas": {"team": LIMIT}})
        self.code = 0  # of the answers, if not 0
        self.only = ""  # what a refused write has
        self.quotas.before_write = self._refuse

    def _refuse(self, _verb: str, value: Unstructured) -> None:
        if self.code and self.only in str(value):
            raise ApiError(self.code, "Reason", "a policy of others")

    def run_for(self, seconds: int, *, fails: bool | None = None) -> None:
        """Run once a second; `fails` is whether the last run fails."""
        failed = False
        for _ in range(seconds):
            self.seconds += 1
            failed = False
            try:
                self.reconcile()
            except ApiError:
                failed = True
        assert fails in (None, failed)


def test_a_refused_quota_is_reported_once_and_written_again_later_and_later() -> None:
    scene = RefusedScene()
    scene.code = 403
    scene.run_for(1, fails=True)
    scene.run_for(59)
    assert len(scene.writes) == 5  # then after 2, 4, 8 and 16 seconds
    assert scene.reporter.codes == ["QuotaRefused"]
    assert scene.reporter.findings[0].object == f"ResourceQuota/{MIRRORED_QUOTA}"
    assert scene.reporter.reported[0][1].name == MIRRORED_QUOTA
    scene.limit("team", {PODS: [12, 0]})
    scene.run_for(1, fails=True)
    assert len(scene.writes) == 6  # another write may be accepted
    scene.code = 0
    scene.run_for(3)
    assert scene.quotas.objects[TEAM, MIRRORED_QUOTA]["spec"]["hard"][GPUS] == "12"
    assert scene.reporter.codes == ["QuotaRefused", "QuotaMirrored"]


def test_limits_that_are_refused_for_a_time_get_one_recount_once_they_are_accepted() -> None:
    scene = RefusedScene()
    scene.run_for(5)
    scene.limit("team", {PODS: [12, 0]})
    scene.code = 403
    scene.run_for(20)
    assert len(scene.writes) == 2 + 4  # then after 2, 4 and 8 seconds
    scene.code = 0
    scene.run_for(20)
    assert len(scene.writes) == 6 + 2
    assert scene.reporter.counts["quota", "recounted"] == 2


@pytest.mark.parametrize("code", [409, 429, 500])
def test_a_quota_that_can_be_written_by_a_retry_is_not_reported_and_does_not_wait(
    code: int,
) -> None:
    scene = RefusedScene()
    scene.code = code
    scene.run_for(5, fails=True)
    assert len(scene.writes) == 5
    assert scene.reporter.codes == []


def test_a_refused_recount_is_reported_and_not_requested_again() -> None:
    scene = RefusedScene()
    scene.reconcile()
    scene.code, scene.only = 403, RECOUNT
    scene.run_for(60, fails=False)
    assert len(scene.writes) == 2
    assert scene.reporter.codes == ["QuotaMirrored", "QuotaRefused", "QuotaMirrored"]


def test_a_quota_that_may_not_be_deleted_is_reported_and_waits() -> None:
    scene = RefusedScene()
    scene.run_for(5)
    written = len(scene.writes)
    scene.quotas.remove("team", TEAM)
    scene.code = 403
    scene.run_for(60)
    assert len(scene.writes) == written + 5
    assert scene.reporter.codes == ["QuotaMirrored", "QuotaRefused"]
