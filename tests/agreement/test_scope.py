"""The scope decision: which pods are translated."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from drawbridge.agreement.scope import (
    Mode,
    PodMetadata,
    PodOwner,
    ScopeRule,
    decide_namespace_scope,
    decide_pod_scope,
    find_root_owner,
    is_opted_out,
    is_rolled_out,
)
from drawbridge.agreement.webhook_selectors import PodWebhook, read_pod_webhook
from drawbridge.config.label_selectors import selector_matches
from drawbridge.config.model import LabelRequirement, LabelSelector, Operator, Rollout, Scope
from drawbridge.config.string_formats import LabelKey, LabelValue
from drawbridge.names import TRANSLATE_LABEL
from tests.tables import YamlValue, every_row

HASH = {"pod-template-hash": "6b7f5c4d9"}


def owned_pod(kind: str, name: str, labels: dict[str, str] | None = None) -> PodMetadata:
    return PodMetadata(labels=labels, owner_references=(PodOwner(kind, name, controller=True),))


@every_row(
    ("pod", "expected"),
    [
        (PodMetadata("web"), "team/Pod/web"),
        (PodMetadata(generate_name="job-"), "team/Pod/job-"),
        (owned_pod("ReplicaSet", "web-6b7f5c4d9", HASH), "team/Deployment/web"),
        (owned_pod("ReplicaSet", "web-a-6b7f5c4d9", HASH), "team/Deployment/web-a"),
        # A ReplicaSet without a Deployment: its pods have no hash, or another one.
        (owned_pod("ReplicaSet", "web-6b7f5c4d9"), "team/ReplicaSet/web-6b7f5c4d9"),
        (owned_pod("ReplicaSet", "web", HASH), "team/ReplicaSet/web"),
        (owned_pod("Job", "report-29384750"), "team/CronJob/report"),
        (owned_pod("Job", "report-2938"), "team/Job/report-2938"),
        (owned_pod("Job", "29384750"), "team/Job/29384750"),
        (owned_pod("StatefulSet", "db"), "team/StatefulSet/db"),
        (owned_pod("DaemonSet", "agent"), "team/DaemonSet/agent"),
        (
            PodMetadata(owner_references=(PodOwner("A", "a"), PodOwner("B", "b", controller=True))),
            "team/B/b",
        ),
        (PodMetadata(owner_references=(PodOwner("A", "a"), PodOwner("B", "b"))), "team/A/a"),
        (PodMetadata("x", owner_references=()), "team/Pod/x"),
        (
            owned_pod("ReplicaSet", "web-5d4f8", {"rollouts-pod-template-hash": "5d4f8"}),
            "team/Rollout/web",
        ),
        (
            owned_pod("Job", "a-workers-0", {"jobset.sigs.k8s.io/jobset-name": "a"}),
            "team/JobSet/a",
        ),
        (
            owned_pod("StatefulSet", "a-0", {"leaderworkerset.sigs.k8s.io/name": "a"}),
            "team/LeaderWorkerSet/a",
        ),
        (
            owned_pod("Job", "a-launcher", {"training.kubeflow.org/job-name": "a"}),
            "team/MPIJob/a",
        ),
        (
            owned_pod("MPIJob", "a", {"training.kubeflow.org/job-name": "a"}),
            "team/MPIJob/a",
        ),
        # The mirror of a static pod.
        (replace(owned_pod("Node", "node-1"), name="agent-node-1"), "team/Pod/agent-node-1"),
        (
            owned_pod("PyTorchJob", "a", {"training.kubeflow.org/job-name": "a"}),
            "team/PyTorchJob/a",
        ),
    ],
)
def test_the_root_owner_is_derived_from_the_pod(pod: PodMetadata, expected: str) -> None:
    assert find_root_owner("team", pod) == expected


@given(st.text(max_size=40), st.integers(0, 100), st.integers(0, 100))
def test_an_owner_stays_in_a_growing_rollout(name: str, percent: int, other: int) -> None:
    less, more = sorted((percent, other))
    assert not is_rolled_out(name, less) or is_rolled_out(name, more)
    assert is_rolled_out(name, 100)
    assert not is_rolled_out(name, 0)


def test_a_rollout_includes_about_its_share() -> None:
    names = [f"team/Deployment/web-{i}" for i in range(2000)]
    for percent in (1, 10, 30, 70):
        share = sum(is_rolled_out(each, percent) for each in names) / 20
        assert abs(share - percent) < 4


def test_a_rollout_is_the_same_on_every_replica() -> None:
    # Fixed values: another choice in a new release would change which pods are translated.
    chosen = [i for i in range(40) if is_rolled_out(f"team/Deployment/web-{i}", 20)]
    assert chosen == [0, 11, 25, 26, 29, 30]


@every_row(
    ("labels", "mode", "rule"),
    [
        ({}, Mode.OFF, ScopeRule.NOT_OPTED_IN),
        ({TRANSLATE_LABEL: "enforce"}, Mode.ENFORCE, ScopeRule.NAMESPACE_LABEL),
        ({TRANSLATE_LABEL: "report"}, Mode.REPORT, ScopeRule.NAMESPACE_LABEL),
        ({TRANSLATE_LABEL: "off"}, Mode.OFF, ScopeRule.NAMESPACE_LABEL),
        ({TRANSLATE_LABEL: "Enforce"}, Mode.OFF, ScopeRule.NAMESPACE_LABEL),
        ({TRANSLATE_LABEL: ""}, Mode.OFF, ScopeRule.NAMESPACE_LABEL),
        ({"tier": "gpu"}, Mode.ENFORCE, ScopeRule.SELECTOR),
        ({"tier": "gpu", TRANSLATE_LABEL: "off"}, Mode.OFF, ScopeRule.NAMESPACE_LABEL),
        ({"tier": "gpu", TRANSLATE_LABEL: "report"}, Mode.REPORT, ScopeRule.NAMESPACE_LABEL),
    ],
)
def test_the_label_decides_before_the_selector(
    labels: dict[str, str], mode: Mode, rule: ScopeRule
) -> None:
    selector = LabelSelector({LabelKey("tier"): LabelValue("gpu")})
    decision = decide_namespace_scope("team", labels, Scope(namespace_selector=selector))
    assert (decision.mode, decision.rule) == (mode, rule)
    unknown = labels.get(TRANSLATE_LABEL) not in {None, *Mode}
    assert [each.code for each in decision.findings] == ["ScopeLabelUnknown"] * unknown


def test_kube_system_is_out_of_scope_for_every_label() -> None:
    scope = Scope(namespace_selector=LabelSelector())
    decision = decide_namespace_scope("kube-system", {TRANSLATE_LABEL: "enforce"}, scope)
    assert decision == (Mode.OFF, ScopeRule.EXCLUDED, ())


def requirement(operator: str, *values: str) -> LabelSelector:
    texts = tuple(map(LabelValue, values))
    return LabelSelector(
        match_expressions=(LabelRequirement(LabelKey("k"), Operator(operator), texts),)
    )


@every_row(
    ("selector", "labels", "expected"),
    [
        (LabelSelector(), {}, True),
        (requirement("In", "a", "b"), {"k": "b"}, True),
        (requirement("In", "a", "b"), {"k": "c"}, False),
        (requirement("In", "a"), {}, False),
        (requirement("NotIn", "a"), {"k": "b"}, True),
        (requirement("NotIn", "a"), {"k": "a"}, False),
        (requirement("NotIn", "a"), {}, True),
        (requirement("Exists"), {"k": ""}, True),
        (requirement("Exists"), {}, False),
        (requirement("DoesNotExist"), {}, True),
        (requirement("DoesNotExist"), {"k": ""}, False),
    ],
)
def test_selectors_match_as_in_kubernetes(
    selector: LabelSelector, labels: dict[str, str], expected: YamlValue
) -> None:
    assert selector_matches(selector, labels) is expected


def test_a_pod_can_only_opt_out() -> None:
    assert is_opted_out(PodMetadata(labels={TRANSLATE_LABEL: "off"}))
    assert not is_opted_out(PodMetadata(labels={TRANSLATE_LABEL: "report"}))
    assert not is_opted_out(PodMetadata())


@every_row(
    ("label", "pod", "mode", "rule"),
    [
        ("enforce", PodMetadata(name="a"), Mode.ENFORCE, ScopeRule.NAMESPACE_LABEL),
        ("report", PodMetadata(name="a"), Mode.REPORT, ScopeRule.NAMESPACE_LABEL),
        ("off", PodMetadata(name="a"), Mode.OFF, ScopeRule.NAMESPACE_LABEL),
        (None, PodMetadata(name="a"), Mode.OFF, ScopeRule.NOT_OPTED_IN),
        ("enforce", PodMetadata(labels={TRANSLATE_LABEL: "off"}), Mode.OFF, ScopeRule.POD_LABEL),
        (None, PodMetadata(labels={TRANSLATE_LABEL: "enforce"}), Mode.OFF, ScopeRule.NOT_OPTED_IN),
    ],
)
def test_the_mode_of_a_pod_is_that_of_its_namespace_unless_it_opts_out(
    label: str | None, pod: PodMetadata, mode: Mode, rule: ScopeRule
) -> None:
    labels = {} if label is None else {TRANSLATE_LABEL: label}
    assert decide_pod_scope("team", labels, pod, Scope()) == (mode, rule)


def test_a_pod_that_is_not_rolled_out_is_off() -> None:
    labels = {TRANSLATE_LABEL: "enforce"}
    none, everyone = (Scope(rollout=Rollout(percent=each)) for each in (0, 100))
    pod = PodMetadata(name="a")
    assert decide_pod_scope("team", labels, pod, none) == (Mode.OFF, ScopeRule.ROLLOUT)
    assert decide_pod_scope("team", labels, pod, everyone).mode is Mode.ENFORCE


def register(**selectors: YamlValue) -> PodWebhook:
    """Return a live webhook with these selectors."""
    return read_pod_webhook({"webhooks": [{"name": "pods.drawbridge.dev", **selectors}]})


EXCLUDING = {
    "matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["team"]}
    ]
}


@every_row(
    ("webhook", "rule"),
    [
        (None, ScopeRule.NAMESPACE_LABEL),  # not known
        (register(), ScopeRule.NAMESPACE_LABEL),
        (PodWebhook(), ScopeRule.NOT_CALLED),  # not installed
        (register(namespaceSelector=EXCLUDING), ScopeRule.NOT_CALLED),
    ],
)
def test_pods_that_the_api_server_does_not_send_are_off(
    webhook: PodWebhook | None, rule: ScopeRule
) -> None:
    labels, pod = {TRANSLATE_LABEL: "enforce"}, PodMetadata(name="a")
    mode = Mode.OFF if rule is ScopeRule.NOT_CALLED else Mode.ENFORCE
    assert decide_pod_scope("team", labels, pod, Scope(), webhook) == (mode, rule)
    assert decide_namespace_scope("team", labels, Scope(), webhook)[:2] == (mode, rule)
    # Only what would be translated can be missed.
    assert decide_pod_scope("team", {}, pod, Scope(), webhook).rule is ScopeRule.NOT_OPTED_IN


def test_the_labels_of_pods_leave_out_no_namespace() -> None:
    labels, webhook = {TRANSLATE_LABEL: "enforce"}, register(objectSelector={"matchLabels": HASH})
    assert decide_namespace_scope("team", labels, Scope(), webhook).mode is Mode.ENFORCE
    left_out, sent = (
        decide_pod_scope("team", labels, PodMetadata("a", labels=each), Scope(), webhook)
        for each in ({}, HASH)
    )
    assert left_out == (Mode.OFF, ScopeRule.NOT_CALLED)
    assert sent.mode is Mode.ENFORCE


def test_the_generated_name_of_a_pod_does_not_change_its_rollout() -> None:
    created = PodMetadata(generate_name="web-")
    stored = PodMetadata(name="web-x7f2p", generate_name="web-")
    assert find_root_owner("team", created) == find_root_owner("team", stored)
