"""What a ResourceQuota lets a namespace have."""

from drawbridge.models.quotas import ModelQuota, read_quota


def test_a_fraction_of_a_limit_is_not_enough_for_a_unit() -> None:
    hard = {"requests.nvidia.com/gpu": "7500m", "pods": "3"}
    quota = read_quota({"metadata": {"namespace": "team"}, "spec": {"hard": hard}})
    assert quota == ModelQuota("team", 3, {"nvidia.com/gpu": 7})
