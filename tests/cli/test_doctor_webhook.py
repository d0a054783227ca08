"""What `drawbridge doctor` says of the webhook for pods."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drawbridge.agreement.match_conditions import derive_widest_conditions
from tests.cli.installed_api import SYSTEM, bundle, deployment, namespace, registration
from tests.cli.test_doctor import DENIAL, UNREACHABLE, doctor, refusing, with_condition
from tests.cluster.fake.api import FakeApi
from tests.cluster.fake.kinds import JSON

GUARDED = DENIAL.replace("pods.", "guard.")
UNTRUSTED = UNREACHABLE.replace("connection refused", "tls: failed to verify certificate: x509...")


@pytest.mark.parametrize(
    ("reason", "part"),
    [(UNREACHABLE, "NetworkPolicy"), (UNTRUSTED, "unknown authority"), (UNTRUSTED, "has expired")],
)
def test_the_remedy_says_why_the_webhook_is_not_reachable(
    tmp_path: Path, reason: str, part: str
) -> None:
    def fail(api: FakeApi) -> None:
        api.on_write = refusing(reason)

    (line,) = doctor(tmp_path, "-o", "json", change=fail).of("webhook")
    assert part in line["remedy"]


@pytest.mark.parametrize(
    ("on_write", "message"),
    [
        (None, "koordinator.sh/gpu-core is admitted unchanged (dry run)"),
        (refusing(GUARDED), "nvidia.com/gpu is denied by guard.drawbridge.dev only (dry run)"),
        (
            refusing(GUARDED, only="koordinator"),
            "koordinator.sh/gpu-core is denied by guard.drawbridge.dev only (dry run)",
        ),
    ],
)
def test_a_webhook_that_is_not_called_is_shown_by_what_became_of_a_pod(
    tmp_path: Path, on_write: Callable[[str, JSON], JSON] | None, message: str
) -> None:
    def change(api: FakeApi) -> None:
        api.on_write = on_write

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("webhook")
    assert line["message"] == f"namespace team-a: a pod that requests {message}"


def test_the_reason_is_shown_if_the_api_server_removes_the_claims_of_a_pod(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        api.on_write = refusing(f"{GUARDED} TranslationChanged: the claims are gone")

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("webhook")
    assert line["code"] == "WebhookNotTried"
    assert line["message"].endswith("TranslationChanged: the claims are gone")


def test_the_conditions_of_the_manifests_are_no_problem_and_not_those_of_the_configuration(
    tmp_path: Path,
) -> None:
    (widest,) = derive_widest_conditions().values()
    live = with_condition(registration(bundle(300)), widest)
    (line,) = doctor(tmp_path, "-o", "json", change=lambda api: api.put(live)).of(
        "webhook registration"
    )
    assert line["message"].endswith("no controller has narrowed the match conditions yet")


def test_the_installation_is_found_without_the_registration_of_pods(tmp_path: Path) -> None:
    def move_and_remove(api: FakeApi) -> None:
        for live in (deployment("drawbridge-webhook"), deployment("drawbridge-controller")):
            api.put({**live, "metadata": {**live["metadata"], "namespace": "elsewhere"}})
            api.remove("Deployment", live["metadata"]["name"], SYSTEM)
        for live in api.all("ValidatingWebhookConfiguration"):
            for webhook in live["webhooks"]:
                webhook["clientConfig"]["service"]["namespace"] = "elsewhere"
            api.put(live)
        api.remove("MutatingWebhookConfiguration", "drawbridge")

    (line,) = doctor(tmp_path, "-o", "json", change=move_and_remove).of("replicas")
    assert line["message"] == "ready: drawbridge-webhook 2 of 2, drawbridge-controller 2 of 2"


def test_a_missing_registration_is_an_error_while_namespaces_depend_on_it(tmp_path: Path) -> None:
    def remove(api: FakeApi) -> None:
        api.remove("MutatingWebhookConfiguration", "drawbridge")

    def remove_and_opt_out(api: FakeApi) -> None:
        remove(api)
        api.put(namespace("team-a", "report"))

    diagnosis = doctor(tmp_path, "-o", "json", change=remove)
    (line,) = diagnosis.of("webhook")
    assert line["message"].startswith("pods of team-a are not translated: Mutating")
    assert diagnosis.codes == ["NameNotActive", "WebhookNotCalled"]
    without = doctor(tmp_path, "-o", "json", change=remove_and_opt_out)
    assert without.codes == ["NameNotActive"]


def leave_out(*names: str) -> Callable[[FakeApi], None]:
    """Return what lets the API server call no webhook for pods of these namespaces."""

    def change(api: FakeApi) -> None:
        live = registration(bundle(300))
        requirements = live["webhooks"][0]["namespaceSelector"]["matchExpressions"]
        requirement = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": names}
        live["webhooks"][0]["namespaceSelector"]["matchExpressions"] = [*requirements, requirement]
        api.put(live)
        api.put(namespace("a-first", "enforce"))

    return change


def test_namespaces_that_the_webhook_leaves_out_are_named_and_not_tried(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path, change=leave_out("a-first"))
    assert "in scope, but not called for: a-first; the selectors of webhook" in diagnosis.out
    assert "namespace team-a: translates" in diagnosis.out


def test_without_a_namespace_that_the_webhook_is_called_for_it_is_not_tried(tmp_path: Path) -> None:
    diagnosis = doctor(tmp_path, change=leave_out("a-first", "team-a"))
    assert "in scope, but not called for: a-first, team-a; the selectors" in diagnosis.out
    assert (
        "the API server does not call the webhook for pods of any namespace in scope"
        in diagnosis.out
    )


def test_a_namespace_in_report_mode_is_called_for(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        leave_out("a-first")(api)
        api.put(namespace("team-a", "report"))

    (line,) = doctor(tmp_path, "-o", "json", change=change).of("webhook")
    assert line["message"] == "no namespace is in mode enforce"


def test_a_webhook_for_labelled_pods_is_not_tried(tmp_path: Path) -> None:
    def change(api: FakeApi) -> None:
        live = registration(bundle(300))
        live["webhooks"][0]["objectSelector"] = {"matchLabels": {"team.example.com/pilot": "1"}}
        api.put(live)

    diagnosis = doctor(tmp_path, change=change)
    assert "the objectSelector of the webhook does not select the sample pod" in diagnosis.out
    assert "not called for" not in diagnosis.out
