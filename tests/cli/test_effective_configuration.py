"""Commands about a live cluster follow its own configuration, as admission does."""

import asyncio
import io
from pathlib import Path
from typing import Any

from cli.main import dispatch
from cli.streams import Streams
from tests.cluster.fake.api import FakeApi

HEAD = "apiVersion: drawbridge.dev/v1alpha1\nkind: Configuration\n"
# A name that nothing but the configuration knows.
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


def registered(namespace: str = "drawbridge-system") -> dict[str, Any]:
    service = {"name": "drawbridge-webhook", "namespace": namespace}
    webhook = {
        "name": "pods.drawbridge.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "clientConfig": {"service": service},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
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


def command(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = dispatch(words, Streams(io.BytesIO(POD.encode()), out, err), "drawbridge")
    return code, out.getvalue(), err.getvalue()


def on(
    folder: Path, *objects: dict[str, Any], words: tuple[str, ...] = (), forbidden: str = ""
) -> tuple[int, str, str]:
    """Translate the pod on a cluster with these objects."""

    async def play() -> tuple[int, str, str]:
        async with FakeApi() as api:
            for each in (CLASS, *objects):
                api.put(each)
            if forbidden:
                api.fail(403, times=9, part=forbidden)
            access = ("--kubeconfig", str(api.kubeconfig(folder / "config")))
            return await asyncio.to_thread(
                command, "translate", "-f", "-", "--context", *access, *words
            )

    return asyncio.run(play())


def test_the_configuration_of_the_cluster_counts(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(RENAMES)
    here = on(tmp_path, registered(), settings())
    assert here == on(tmp_path, words=("--config", str(file)))
    assert here[0] == 1
    assert "resourceClaimTemplateName" in here[1]


def test_a_file_that_is_named_counts_instead(tmp_path: Path) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(HEAD)
    code, out, err = on(tmp_path, registered(), settings(), words=("--config", str(file)))
    assert (code, out) == (0, POD)
    assert "[DeviceUnknown]" in err


def test_it_is_read_where_the_webhook_says_that_it_is_installed(tmp_path: Path) -> None:
    code, _, err = on(tmp_path, registered("elsewhere"), settings(namespace="elsewhere"))
    assert (code, MISSING in err) == (1, False)


def test_it_is_read_at_its_usual_place_where_registrations_may_not_be_read(tmp_path: Path) -> None:
    objects = (registered(), settings())
    code, _, err = on(tmp_path, *objects, forbidden="mutatingwebhookconfigurations")
    assert (code, MISSING in err) == (1, False)


def test_without_drawbridge_in_the_cluster_the_defaults_count(tmp_path: Path) -> None:
    code, out, err = on(tmp_path)
    assert (code, out, MISSING in err) == (0, POD, False)


def test_what_may_not_be_read_is_told(tmp_path: Path) -> None:
    code, out, err = on(tmp_path, registered(), settings(), forbidden="configmaps")
    assert (code, out) == (0, POD)
    assert f"[{MISSING}]" in err
    assert "the defaults count" in err


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    code, _, err = on(tmp_path, registered())
    assert code == 0
    assert "there is no ConfigMap drawbridge-system/drawbridge-config with config.yaml" in err


def test_one_that_is_refused_leaves_everything_as_it_is(tmp_path: Path) -> None:
    code, out, err = on(tmp_path, registered(), settings(f"{HEAD}placment: native\n"))
    assert (code, out) == (2, POD)
    assert "drawbridge-system/drawbridge-config:3: error" in err


def test_a_cluster_that_cannot_be_reached_is_told_once(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\n")
    code, out, err = command("translate", "-f", "-", "--kubeconfig", str(config), "--context")
    assert (code, out) == (2, POD)
    assert err.count("error:") == 1


def test_facts_are_those_of_the_configuration_of_the_cluster(tmp_path: Path) -> None:
    async def play() -> tuple[int, str, str]:
        async with FakeApi() as api:
            for each in (CLASS, registered()):
                api.put(each)
            return await asyncio.to_thread(
                command, "facts", "--kubeconfig", str(api.kubeconfig(tmp_path / "config"))
            )

    code, _, err = asyncio.run(play())
    assert code == 1
    assert f"[{MISSING}]" in err
