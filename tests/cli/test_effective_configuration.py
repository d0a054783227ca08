"""Commands about a live cluster use its configuration, as the webhook does."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.installed_api import DAY, facts_map, lease
from tests.cli.running import command, on_api
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.configuration import accept

HEAD = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
# A resource name that only the configuration defines.
RENAMES = f"{HEAD}legacy: {{renames: {{example.com/card: nvidia.com/gpu}}}}\n"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: train}
spec: {containers: [{name: main, resources: {limits: {example.com/card: 1}}}]}
"""
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
}
MISSING = "ConfigurationNotRead"


def registered(
    namespace: str = "drawbridge-system", kind: str = "MutatingWebhookConfiguration"
) -> dict[str, Any]:
    service = {"name": "drawbridge-webhook", "namespace": namespace}
    webhook = {
        "name": "pods.drawbridge.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "clientConfig": {"service": service},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "drawbridge"},
        "webhooks": [webhook],
    }


def settings(text: str = RENAMES, namespace: str = "drawbridge-system") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "drawbridge-config", "namespace": namespace},
        "data": {"config.yaml": text},
    }


def on(
    folder: Path, *objects: dict[str, Any], words: tuple[str, ...] = (), forbidden: str = ""
) -> tuple[int, str, str]:
    """Translate the pod on a cluster with these objects."""

    def prepare(api: FakeApi) -> None:
        if forbidden:
            api.fail(403, times=9, part=forbidden)

    words = ("translate", "--exit-code", "-f", "-", "--context", *words)
    return on_api(folder, (CLASS, *objects), *words, stdin=POD, prepare=prepare)


def test_the_configuration_of_the_cluster_is_used(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(RENAMES)
    here = on(tmp_path, registered(), settings(), facts_map())
    assert here == on(tmp_path, words=("--config", str(file)))
    assert here[0] == 1
    assert "resourceClaimTemplateName" in here[1]


def test_a_configuration_file_takes_precedence(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(HEAD)
    code, out, err = on(tmp_path, registered(), settings(), words=("--config", str(file)))
    assert (code, out) == (0, POD)
    assert "[DeviceUnknown]" in err


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_it_is_read_from_the_namespace_of_a_webhook_registration(tmp_path: Path, kind: str) -> None:
    left = registered("elsewhere", f"{kind}WebhookConfiguration")
    code, _, err = on(tmp_path, left, settings(namespace="elsewhere"))
    assert (code, MISSING in err) == (1, False)


def test_it_is_read_from_the_default_namespace_without_access_to_registrations(
    tmp_path: Path,
) -> None:
    objects = (registered(), settings())
    code, _, err = on(tmp_path, *objects, forbidden="mutatingwebhookconfigurations")
    assert (code, MISSING in err) == (1, False)


@pytest.mark.parametrize("installed", ["drawbridge-system", "elsewhere"])
@pytest.mark.parametrize(
    ("leases", "scheduler"),
    [
        ((lease(-DAY, name="drawbridge-scheduler"),), "schedulerName: drawbridge"),
        ((lease(DAY, name="drawbridge-scheduler"),), "BridgeSchedulerMissing"),
        ((), "BridgeSchedulerMissing"),
    ],
)
def test_a_translation_uses_the_scheduler_of_the_cluster_only_while_it_runs(
    tmp_path: Path, leases: tuple[dict[str, Any], ...], scheduler: str, installed: str
) -> None:
    pools = "ownedPools: [{driver: gpu.nvidia.com, nodeSelector: {}}]\n"
    bridge = settings(f"{RENAMES}placement: bridge\n{pools}", namespace=installed)
    here = [{**each, "metadata": {**each["metadata"], "namespace": installed}} for each in leases]
    code, out, err = on(tmp_path, registered(installed), bridge, *here)
    assert (code, scheduler in out + err) == (1, True), err


def test_without_drawbridge_in_the_cluster_the_defaults_are_used(tmp_path: Path) -> None:
    code, out, err = on(tmp_path)
    assert (code, out, MISSING in err) == (0, POD, False)


def test_a_forbidden_configuration_is_a_warning(tmp_path: Path) -> None:
    code, out, err = on(tmp_path, registered(), settings(), forbidden="configmaps")
    assert (code, out) == (0, POD)
    assert f"[{MISSING}]" in err
    assert "using the defaults" in err


def test_the_edited_configuration_is_not_told_to_be_the_one_in_use(tmp_path: Path) -> None:
    code, out, err = on(tmp_path, registered(), settings(), forbidden="drawbridge-config-in-use")
    assert code == 1
    assert "resourceClaimTemplateName" in out
    edited = "ConfigMap drawbridge-system/drawbridge-config is used, which may differ from what is"
    assert err.count(edited) == 1
    assert f"[{MISSING}]" not in err


def test_a_missing_configuration_is_a_warning(tmp_path: Path) -> None:
    code, _, err = on(tmp_path, registered())
    assert code == 0
    assert "ConfigMap drawbridge-system/drawbridge-config with the key config.yaml not found" in err


def test_the_configuration_in_use_is_used_while_another_one_is_refused(tmp_path: Path) -> None:
    wrong = f"{HEAD}placement: natve\n"
    code, out, err = on(tmp_path, registered(), settings(wrong), accept(RENAMES, offered=wrong))
    assert code == 1
    assert "resourceClaimTemplateName" in out
    assert "drawbridge-config-in-use" in err
    assert "[ConfigurationRejected]" in err
    assert "natve" in err
    used, _, err = on(tmp_path, registered(), settings(wrong), accept(RENAMES))
    assert (used, "ConfigurationRejected" in err) == (1, False)


def test_an_invalid_configuration_prints_no_manifests(tmp_path: Path) -> None:
    code, out, err = on(tmp_path, registered(), settings(f"{HEAD}placment: native\n"))
    assert (code, out) == (2, "")
    assert "drawbridge-system/drawbridge-config:3: error" in err


def test_an_unreachable_cluster_is_reported_once(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\n")
    words = ("translate", "-f", "-", "--kubeconfig", str(config), "--context")
    code, out, err = command(*words, stdin=POD)
    assert (code, out) == (2, "")
    assert err.count("error:") == 1


def test_facts_use_the_configuration_of_the_cluster(tmp_path: Path) -> None:
    code, _, err = on_api(tmp_path, (CLASS, registered()), "config", "facts")
    assert code == 0
    assert f"[{MISSING}]" in err
