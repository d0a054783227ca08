"""Rights follow what is installed: no account has a right that it cannot use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manifests import rendering
from tests.manifests.rendering import Json

PARTS: Json = {"judge": {"enabled": True}, "scheduler": {"enabled": True}}


def list_rights(objects: list[Json], resource: str) -> Iterator[tuple[str, str]]:
    """Return the accounts that have rights on a resource, with the verbs."""
    roles = {(each["kind"], each["metadata"]["name"]): each for each in objects if "rules" in each}
    for binding in (each for each in objects if "roleRef" in each):
        role = roles.get((binding["roleRef"]["kind"], binding["roleRef"]["name"]))
        for rule in (role or {}).get("rules", ()):
            if resource in rule["resources"]:
                for subject in binding["subjects"]:
                    yield from ((subject["name"], verb) for verb in rule["verbs"])


def list_names(objects: list[Json], kind: str) -> set[str]:
    return {each["metadata"]["name"] for each in objects if each["kind"] == kind}


@pytest.mark.parametrize("mode", ["cert-manager", "secret"])
def test_without_managed_certificates_no_account_has_a_right_on_secrets(
    mode: str, tmp_path: Path
) -> None:
    objects = rendering.render_chart({**PARTS, "tls": {"mode": mode}}, tmp_path)
    assert not list(list_rights(objects, "secrets"))
    policies = list_names(objects, "ValidatingAdmissionPolicy")
    assert policies == {"drawbridge-controller-webhooks"}


def test_with_managed_certificates_each_account_reads_its_secret(tmp_path: Path) -> None:
    objects = rendering.render_chart(PARTS, tmp_path)
    rights = set(list_rights(objects, "secrets"))
    readers = {f"drawbridge-{each}" for each in ("controller", "webhook", "judge", "scheduler")}
    assert {name for name, verb in rights if verb == "watch"} == readers
    assert {name for name, verb in rights if verb == "create"} == {"drawbridge-controller"}
    policies = list_names(objects, "ValidatingAdmissionPolicy")
    assert policies == {"drawbridge-controller-webhooks", "drawbridge-controller-secrets"}


@pytest.mark.parametrize("enabled", [False, True])
def test_only_with_the_scheduler_the_controller_keeps_a_fence_of_rules(
    enabled: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    objects = rendering.render_chart({"scheduler": {"enabled": enabled}}, tmp_path)
    for resource in (
        "devicetaintrules",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ):
        verbs = {verb for name, verb in list_rights(objects, resource) if "controller" in name}
        assert bool(verbs) is enabled
    # It reads with native placement whether the scheduler runs, and gives nodes back.
    leases = {verb for name, verb in list_rights(objects, "leases") if "controller" in name}
    assert leases == {"create", "get", "patch", "update"}


def test_a_role_that_is_left_out_is_bound_to_nobody(tmp_path: Path) -> None:
    for mode in ("managed", "secret"):
        objects = rendering.render_chart({**PARTS, "tls": {"mode": mode}}, tmp_path)
        for kind in ("Role", "ClusterRole"):
            bound = {
                each["roleRef"]["name"]
                for each in objects
                if each["kind"] == f"{kind}Binding" and each["roleRef"]["kind"] == kind
            }
            ours = {name for name in bound if not name.startswith("system:")}
            assert ours <= list_names(objects, kind)
