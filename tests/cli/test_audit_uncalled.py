"""`drawbridge audit` of a cluster whose installed webhook leaves out a namespace."""

from pathlib import Path

import pytest

from tests.cli.running import on_api
from tests.cli.test_audit import CLASSES, NODES, namespace, pod
from tests.cli.test_explain_modes import EXCLUDING, register
from tests.cluster.fake.api import FakeApi

OBJECTS = [*NODES, *CLASSES, namespace("team-a", "enforce"), pod("team-a", "train")]


@pytest.mark.parametrize("forbidden", [False, True])
def test_pods_of_a_namespace_that_the_live_webhook_leaves_out_stay(
    tmp_path: Path, *, forbidden: bool
) -> None:
    def prepare(api: FakeApi) -> None:
        if forbidden:
            api.fail(403, method="GET", part="/mutatingwebhookconfigurations", times=9)

    objects = [*OBJECTS, register(EXCLUDING)]
    printed = on_api(tmp_path, objects, "audit", prepare=prepare)
    told = "in scope, but not called for: team-a; the selectors of webhook pods.drawbridge.dev"
    assert (told in printed.err) is not forbidden
    assert ("The selectors of the installed webhook leave the pod out" in printed.out) is (
        not forbidden
    )


def test_before_the_installation_the_label_counts(tmp_path: Path) -> None:
    printed = on_api(tmp_path, OBJECTS, "audit")
    assert "not called for" not in printed.err
    assert "1 to translate" in printed.out


def test_pods_stay_while_the_webhook_for_pods_is_missing(tmp_path: Path) -> None:
    missing = {**register(), "webhooks": []}
    printed = on_api(tmp_path, [*OBJECTS, missing], "audit")
    assert "pods.drawbridge.dev is missing in the installed webhook configuration" in printed.out
