"""`drawbridge explain` says in which mode a pod is, which rule decided it, and what changes it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.installed_api import config_map, healthy
from tests.cli.running import command, on_api
from tests.cli.test_effective_configuration import registered
from tests.cli.test_explain import LEGACY, NAMESPACE, SCOPE, explained, files, running
from tests.cluster.fake.api import FakeApi
from tests.tables import every_row, read_yaml

UNLABELLED = {**NAMESPACE, "metadata": {"name": "team-a", "labels": {"team": "a"}}}
EXCLUDING = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team-a"]}


def workload(api: str, kind: str) -> dict[str, Any]:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "train", "namespace": "team-a", "uid": "j1"},
        "spec": {"template": {"metadata": {}, "spec": read_yaml(LEGACY)["spec"]}},
    }


def register(*expressions: dict[str, Any]) -> dict[str, Any]:
    """Return a webhook configuration with these requirements on namespaces."""
    webhook = {
        "name": "pods.drawbridge.dev",
        "namespaceSelector": {"matchExpressions": [*expressions]},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "drawbridge"},
        "webhooks": [webhook],
    }


SELECTING = "scope: {namespaceSelector: {matchLabels: {team: a}}}\n"
EXCLUDED = "scope: {excludeNamespaces: [team-a]}\n"


@pytest.mark.parametrize(
    ("name", "settings", "mode", "severities"),
    [
        ("train", "", "off notOptedIn", ["info"]),
        ("train", SELECTING, "enforce namespaceSelector", ["info"]),
        ("train", EXCLUDED, "off excludeNamespaces", ["info"]),
        ("train", "findings: {NotTranslated: warn}\n", "off notOptedIn", ["warning"]),
        ("train", "findings: {NotTranslated: off}\n", "off notOptedIn", []),
        # Admission will translate the pods of a template.
        ("job/train", SELECTING, "enforce namespaceSelector", []),
        ("job/train", EXCLUDED, "off excludeNamespaces", ["info"]),
        ("job/train", "findings: {NotTranslated: warn}\n", "off notOptedIn", ["warning"]),
    ],
)
def test_a_configuration_decides_modes_and_severities(
    name: str, settings: str, mode: str, severities: list[str], tmp_path: Path
) -> None:
    (config := tmp_path / "configuration.yaml").write_text(SCOPE + settings)
    pod = {**read_yaml(LEGACY), "status": {"phase": "Pending"}}
    dump = files(tmp_path, [pod, workload("batch/v1", "Job"), UNLABELLED])
    out = command("explain", name, "-f", dump, "--config", str(config), "-o", "json").out
    done = json.loads(out)
    (told,) = done.get("explained", [done])
    assert f"{told['mode']} {told['rule']}" == mode
    reported = [each for each in told["findings"] if each["code"] == "NotTranslated"]
    assert [each["severity"] for each in reported] == severities


class Case(NamedTuple):
    """A configuration, the labels of a namespace, what the webhook requires, and what is said."""

    settings: str
    labels: dict[str, str]
    required: list[dict[str, Any]]
    mode: str
    why: str
    remedy: str

    @property
    def namespace(self) -> dict[str, Any]:
        """Return the namespace."""
        return {**NAMESPACE, "metadata": {"name": "team-a", "labels": self.labels}}


ENFORCED = {"drawbridge.dev/translate": "enforce"}
CASES = [
    Case(
        "",
        {},
        [],
        "off (namespace not opted in)",
        "its namespace is not opted in",
        "label the namespace with drawbridge.dev/translate=enforce",
    ),
    Case(
        EXCLUDED,
        ENFORCED,
        [],
        "off (scope.excludeNamespaces)",
        "scope.excludeNamespaces names its namespace",
        "take the namespace out of scope.excludeNamespaces",
    ),
    Case(
        "scope: {rollout: {percent: 0}}\n",
        ENFORCED,
        [],
        "off (scope.rollout.percent)",
        "scope.rollout.percent is 0, which does not include %s/train",
        "raise scope.rollout.percent",
    ),
    Case(
        "",
        ENFORCED,
        [EXCLUDING],
        "off (not called by MutatingWebhookConfiguration drawbridge)",
        "the selectors of MutatingWebhookConfiguration drawbridge do not select it",
        "move it to a namespace in scope that the selectors of MutatingWebhookConfiguration"
        " drawbridge select, or change these selectors",
    ),
    Case(
        f"{EXCLUDED[:-2]}, rollout: {{percent: 0}}}}\n",
        {},
        [EXCLUDING],
        "off (scope.excludeNamespaces)",
        "scope.excludeNamespaces names its namespace, and its namespace is not opted in, and"
        " scope.rollout.percent is 0, which does not include %s/train, and the selectors of"
        " MutatingWebhookConfiguration drawbridge do not select it",
        "move it to a namespace in scope that the selectors of MutatingWebhookConfiguration"
        " drawbridge select, or change these selectors, and take the namespace out of"
        " scope.excludeNamespaces, and label the namespace with drawbridge.dev/translate=enforce,"
        " and raise scope.rollout.percent",
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_the_remedy_for_a_template_follows_from_the_rule(tmp_path: Path, case: Case) -> None:
    (config := tmp_path / "configuration.yaml").write_text(SCOPE + case.settings)
    job = workload("batch/v1", "Job")
    dump = files(tmp_path, [job, case.namespace, register(*case.required)])
    out = command("explain", "job/train", "-f", dump, "--config", str(config)).out
    assert f"  mode: {case.mode}\n" in out
    assert f"; {case.why.replace('%s', 'Job')} [NotTranslated]" in out
    assert f"or {case.remedy}" in out


def test_files_may_have_any_webhook_configuration(tmp_path: Path) -> None:
    broken = {**register(), "webhooks": 5}
    out = command("explain", "train", "-f", files(tmp_path, [read_yaml(LEGACY), broken])).out
    assert "requests nvidia.com/gpu" in out


@pytest.mark.parametrize(
    ("percent", "mode"),
    [(0, "off (scope.rollout.percent)"), (1, "enforce (label of the namespace)")],
)
def test_a_template_whose_pods_may_have_another_owner_is_left_out_by_no_percent_only(
    tmp_path: Path, percent: int, mode: str
) -> None:
    (config := tmp_path / "configuration.yaml").write_text(
        f"{SCOPE}scope: {{rollout: {{percent: {percent}}}}}\n"
    )
    dump = files(tmp_path, [workload("kubeflow.org/v1", "Notebook"), NAMESPACE])
    out = command("explain", "notebook/train", "-f", dump, "--config", str(config)).out
    assert f"  mode: {mode}\n" in out


# --- a live cluster ------------------------------------------------------------------------------


def explain_live(
    folder: Path,
    settings: str,
    namespace: dict[str, Any],
    *expressions: dict[str, Any],
    forbidden: str = "",
) -> tuple[str, str]:
    """Return what is printed about a pod of a cluster with this configuration."""

    def prepare(api: FakeApi) -> None:
        healthy(api)
        api.put(config_map("drawbridge-config", {"config.yaml": SCOPE + settings}))
        api.put(namespace)
        live = api.get("mutatingwebhookconfigurations", "drawbridge", "")
        live["webhooks"][0]["namespaceSelector"] = {"matchExpressions": [*expressions]}
        api.put(live)
        api.put({**read_yaml(LEGACY), "status": {"phase": "Pending"}})
        if forbidden:
            api.fail(403, method="GET", part=forbidden, times=9)

    printed = on_api(folder, (), "explain", "train", "-n", "team-a", prepare=prepare)
    return printed.out, printed.err


@pytest.mark.parametrize("case", CASES)
def test_the_configuration_of_the_live_cluster_decides(tmp_path: Path, case: Case) -> None:
    out, err = explain_live(tmp_path, case.settings, case.namespace, *case.required)
    assert f"  mode: {case.mode}\n" in out
    assert f"; {case.why.replace('%s', 'Pod')} [NotTranslated]" in out
    assert f"Only then {case.remedy}" in out
    assert err == ""


def test_a_namespace_that_the_live_configuration_selects_is_enforced(tmp_path: Path) -> None:
    out, _ = explain_live(tmp_path, SELECTING, UNLABELLED)
    assert "  mode: enforce (scope.namespaceSelector)\n" in out
    assert "the API server did not call the webhook" in out


def test_the_policies_of_the_live_cluster_apply(tmp_path: Path) -> None:
    out, _ = explain_live(tmp_path, "findings: {NotTranslated: warn}\n", UNLABELLED)
    assert "warning: Pod/team-a/train: requests nvidia.com/gpu" in out


def test_without_the_webhook_configuration_the_remedy_is_to_install(tmp_path: Path) -> None:
    out = on_api(tmp_path, [read_yaml(LEGACY), NAMESPACE], "explain", "train", "-n", "team-a").out
    assert "webhook pods.drawbridge.dev is not registered" in out
    assert "Only then install Drawbridge, and create the pod again." in out


def test_while_drawbridge_is_switched_off_the_remedy_is_to_switch_it_on(tmp_path: Path) -> None:
    live = register()
    live["webhooks"][0]["matchConditions"] = [{"name": "switched-off", "expression": "false"}]
    chosen = config_map("drawbridge-config", {"config.yaml": SCOPE})
    objects = [read_yaml(LEGACY), NAMESPACE, live, chosen]
    out = on_api(tmp_path, objects, "explain", "train", "-n", "team-a").out
    assert "  mode: off (MutatingWebhookConfiguration drawbridge is switched off)\n" in out
    assert "; Drawbridge is switched off [NotTranslated]" in out
    assert "Only then run `drawbridge on`, and create the pod again." in out


@pytest.mark.parametrize(
    ("settings", "forbidden", "why"),
    [("", "/configmaps", "on request"), ("scope: {ofNextRelease: 1}\n", "", "ofNextRelease")],
)
def test_without_the_configuration_of_the_cluster_the_mode_is_unknown(
    tmp_path: Path, settings: str, forbidden: str, why: str
) -> None:
    out, err = explain_live(tmp_path, settings, UNLABELLED, forbidden=forbidden)
    assert "; whether pods of its namespace are translated is not known, because the" in out
    assert "mode:" not in out
    assert why in err
    assert "using the defaults [ConfigurationNotRead]" in err


def test_a_label_that_keeps_pods_from_being_translated_tells_the_mode_without_the_configuration(
    tmp_path: Path,
) -> None:
    labels = {"drawbridge.dev/translate": "report"}
    namespace = {**NAMESPACE, "metadata": {"name": "team-a", "labels": labels}}
    out, _ = explain_live(tmp_path, "", namespace, forbidden="/configmaps")
    assert "  mode: report (label of the namespace)\n" in out
    assert "its namespace is in report mode [NotTranslated]" in out


def test_without_the_webhook_configuration_its_selectors_are_taken_for_usual(
    tmp_path: Path,
) -> None:
    forbidden = "/mutatingwebhookconfigurations"
    out, err = explain_live(tmp_path, "", UNLABELLED, EXCLUDING, forbidden=forbidden)
    assert "its namespace is not opted in [NotTranslated]" in out
    assert "switched off, or its selectors leave out the pod, is not known [PartUnreadable]" in err
    assert err.count("warning: ") == 1


@every_row("part", ["/configmaps", "/mutatingwebhookconfigurations"])
def test_nobody_needs_the_configuration_while_nothing_is_wrong(part: str, tmp_path: Path) -> None:
    objects = [*running(), registered()]
    code, _, err = explained(tmp_path, objects, "-n", "team-a", forbidden=part)
    assert (code, err) == (0, "")
