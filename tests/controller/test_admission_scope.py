"""The controller decides the scope of each pod with webhooks that it reads once."""

from typing import Any

import pytest

from controller import admission_scope
from controller.admission_scope import AdmissionScope
from drawbridge.config.model import Configuration
from tests.controller.waiting_pods import WEBHOOK, Scene


def test_the_selectors_are_read_once_for_each_version(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    original = admission_scope.read_pod_webhook
    monkeypatch.setattr(
        admission_scope, "read_pod_webhook", lambda live: read.append(live) or original(live)
    )
    scene = Scene()
    webhook = WEBHOOK
    scope = AdmissionScope(scene.namespaces, lambda: webhook, Configuration)
    scene.label("team", "enforce")
    assert [scope.is_enforced("team") for _ in range(3)] == [True] * 3
    webhook = {**WEBHOOK, "webhooks": []}
    assert not scope.is_enforced("team")
    assert read == [WEBHOOK, webhook]
