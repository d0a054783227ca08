"""What `drawbridge doctor` says of the registered webhooks."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.agreement.match_conditions import REGISTERED
from drawbridge.names import POD_WEBHOOK
from tests.cli.installed_api import ROOT, deployment, register_all
from tests.cli.test_doctor import Line, doctor, switch_off
from tests.cluster.fake.api import FakeApi
from tests.tables import read_yaml_documents

VALIDATING = "ValidatingWebhookConfiguration"
MANIFESTS = ("base/admission-pods", "base/admission-workloads", "components/judge/judge-webhooks")


def _registration(folder: Path, change: Callable[[FakeApi], object]) -> list[Line]:
    return doctor(folder, "-o", "json", change=change).of("webhook registration")


def _lose(api: FakeApi, name: str, *webhooks: str) -> None:
    """Remove webhooks of a ValidatingWebhookConfiguration, or the whole of it."""
    register_all(api)
    api.put(deployment("drawbridge-judge"))
    if not webhooks:
        api.remove(VALIDATING, name)
        return
    (live,) = (each for each in api.all(VALIDATING) if each["metadata"]["name"] == name)
    live["webhooks"] = [each for each in live["webhooks"] if each["name"] not in webhooks]
    api.put(live)


def test_each_webhook_that_is_switched_off_is_named(tmp_path: Path) -> None:
    (line,) = _registration(tmp_path, switch_off("guard.drawbridge.dev"))
    assert line["message"] == "webhook guard.drawbridge.dev: switched off"


@pytest.mark.parametrize(
    ("configuration", "webhooks"),
    [
        ("drawbridge", ["guard.drawbridge.dev"]),
        ("drawbridge", []),
        ("drawbridge-judge", ["claims.judge.drawbridge.dev", "pods.judge.drawbridge.dev"]),
        ("drawbridge-judge", []),
    ],
)
def test_webhooks_that_are_missing_are_named(
    tmp_path: Path, configuration: str, webhooks: list[str]
) -> None:
    missing = ", ".join(webhooks or REGISTERED[VALIDATING, configuration])
    (line,) = _registration(tmp_path, lambda api: _lose(api, configuration, *webhooks))
    assert line["code"] == "NameNotActive"
    told = f"{VALIDATING}/{configuration}: missing {missing}, so the API server does not call"
    assert line["message"].startswith(told)


def test_the_webhook_for_updates_is_missed(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        (live,) = api.all("MutatingWebhookConfiguration")
        live["webhooks"] = [each for each in live["webhooks"] if each["name"] == POD_WEBHOOK]
        api.put(live)

    (line,) = _registration(tmp_path, change)
    assert "missing updates.drawbridge.dev" in line["message"]


def test_what_may_not_be_read_of_the_webhooks_is_not_ok(tmp_path: Path) -> None:
    def close(api: FakeApi) -> None:
        api.fail(403, part="validatingwebhookconfigurations", times=99)

    lines = doctor(tmp_path, "-o", "json", change=close).lines
    assert "webhook registration" not in {each["check"] for each in lines}
    (unread,) = (each for each in lines if each["code"] == "NotChecked")
    told = "webhook registration: you may not get validatingwebhookconfigurations"
    assert unread["message"] == told


def test_the_manifests_have_the_webhooks_that_are_expected() -> None:
    texts = ((ROOT / f"manifests/{name}.yaml").read_text("utf-8") for name in MANIFESTS)
    values = [value for text in texts for value in read_yaml_documents(text)]
    listed = {
        (each["kind"], each["metadata"]["name"]): tuple(entry["name"] for entry in each["webhooks"])
        for each in values
    }
    key = ("MutatingWebhookConfiguration", "drawbridge")
    assert listed == REGISTERED | {key: (POD_WEBHOOK, *REGISTERED[key])}
