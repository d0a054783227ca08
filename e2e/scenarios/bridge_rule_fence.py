"""Scenarios: owned nodes without the taint, whose devices the API server keeps from others."""

import contextlib
import json
import signal
from collections.abc import Iterator
from functools import partial

import yaml

from e2e.bridge.placement import FENCE, HEADER, BridgeStage, bridge_fields, bridge_scenario
from e2e.controlplane.client import ApiError
from e2e.installed.configuring import configure_and_wait
from e2e.installed.installation import NAMESPACE
from e2e.nodes.fleet import NodePlan
from e2e.scenarios.admission_scope import CONFIGURATION
from e2e.scenarios.bridge import told
from e2e.scenarios.bridge_switching import DEFAULT
from e2e.scenarios.objects import JSON, claim_spec, request, taint_rules_path
from e2e.scenarios.owned_pools import EXAMPLES, POLICIES, daemon_set, has_synced, taints
from e2e.scenarios.stage import LABEL

GPU = "gpu.nvidia.com"
SHAPE = "lab-2g2n"
POLICY = f"{POLICIES}/validatingadmissionpolicies"
BINDING = f"{POLICIES}/validatingadmissionpolicybindings"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
# Two settle times, and until the controller has run again.
SWITCH_SECONDS = 90.0


@contextlib.contextmanager
def fenced_by_rules(stage: BridgeStage) -> Iterator[None]:
    """Ask for the fence of rules, until the end of the block."""
    cluster = stage.placement.cluster
    before = stage.client.get(CONFIGURATION)["data"]["config.yaml"]
    configure_and_wait(cluster, f"{HEADER}{bridge_fields(fence='rules')}")
    try:
        yield
    finally:
        configure_and_wait(cluster, before)


def create_policy(stage: BridgeStage) -> None:
    """Install the policy of the examples, for the installation of the rig."""
    text = (EXAMPLES / "owned-devices-policy.yaml").read_text("utf-8")
    policy, binding = yaml.safe_load_all(text.replace("drawbridge-system", NAMESPACE))
    stage.cluster_object(POLICY, policy)
    stage.cluster_object(BINDING, binding)


def delete_policy(stage: BridgeStage) -> None:
    """Remove both objects."""
    for collection in (POLICY, BINDING):
        stage.client.delete(f"{collection}/drawbridge-owned-devices", grace=None)


def is_open(stage: BridgeStage, node: str) -> bool:
    """Whether pods without devices can use a node."""
    return FENCE not in taints(stage, node)


def guarded_pools(stage: BridgeStage, node: str) -> list[str]:
    """Return the pools of a node that the policy names."""
    try:
        spec = stage.client.get(f"{POLICY}/drawbridge-owned-devices")["spec"]
    except ApiError as problem:
        if problem.code != 404:
            raise
        return []
    (pools,) = (each["expression"] for each in spec["variables"] if each["name"] == "pools")
    return [each for each in json.loads(pools) if each.endswith(f"/{node}")]


def rules_of(stage: BridgeStage, node: str) -> list[JSON]:
    """Return the rules that taint the devices of a node."""
    rules = stage.client.get(taint_rules_path(stage.version))["items"]
    return [each for each in rules if each["spec"]["deviceSelector"].get("pool") == node]


def says(stage: BridgeStage, text: str) -> bool:
    """Whether the controller reports why the nodes have their taint."""
    notes = (each.get("note", "") for each in stage.client.get(EVENTS)["items"])
    return any("fence: rules" in note and text in note for note in notes)


def open_node(stage: BridgeStage) -> str:
    """Add a node with two GPUs, and wait until it is open."""
    node = stage.node("a", SHAPE, {GPU: "full"}).name
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    stage.wait("the node is open", partial(is_open, stage, node), SWITCH_SECONDS)
    return node


@bridge_scenario("full", since="1.36")
def rules_replace_the_taint_for_pods_without_devices(stage: BridgeStage) -> None:
    """DaemonSets stay, and only the allocator gives out devices, also to claims that tolerate."""
    create_policy(stage)
    with fenced_by_rules(stage):
        node = open_node(stage)
        daemon_set(stage, "agent")
        stage.wait("it has a pod", partial(has_synced, stage, "agent", 1))
        (agent,) = stage.client.get(stage.pod_path(), labelSelector="app=agent")["items"]
        stage.wait_running(agent["metadata"]["name"])
        assert len(rules_of(stage, node)) == 1
        stage.pod("theirs", templates={"gpu": "gpu"}, **DEFAULT)
        stage.wait_unschedulable("theirs")
        _add_rival(stage, "opens")
        refused = partial(refuses, stage, "opens")
        stage.wait("the API server refuses its allocation", refused)
        for name in ("ours", "second"):
            stage.run_pod(name, templates={"gpu": "gpu"})
        owned = stage.get_claim(stage.generated_claim("ours"))["status"]["allocation"]
        stage.claim("second", claim_spec(request("gpu", GPU)))
        text = _refusal(stage, "second", owned)
        assert "only the scheduler drawbridge allocates" in text, text
        for name in ("theirs", "opens"):
            claim = stage.get_claim(stage.generated_claim(name))
            assert "allocation" not in claim.get("status", {}), claim
        stage.client.delete(stage.path("daemonsets", "agent", "/apis/apps/v1"), grace=None)
        # The rule alone opens nothing, and the controller makes it again.
        (rule,) = rules_of(stage, node)
        stage.client.delete(f"{taint_rules_path(stage.version)}/{rule['metadata']['name']}")
        stage.wait("the rule is back", partial(rules_of, stage, node), SWITCH_SECONDS)
        assert is_open(stage, node)


def _add_rival(stage: BridgeStage, pod: str) -> None:
    """Create a pod of the default scheduler whose claim tolerates everything."""
    tolerates = [{"operator": "Exists"}]
    stage.template(f"of-{pod}", claim_spec(request("gpu", GPU, tolerations=tolerates)))
    stage.pod(pod, templates={"gpu": f"of-{pod}"}, **DEFAULT)


def _refusal(stage: BridgeStage, claim: str, allocation: JSON) -> str:
    """Write an allocation as an administrator, and return why the API server refuses it."""
    status = {"status": {"allocation": allocation}}
    try:
        stage.client.patch(f"{stage.claim_path(claim)}/status", status)
    except ApiError as problem:
        return str(problem)
    return ""


def refuses(stage: BridgeStage, pod: str) -> bool:
    """Whether the scheduler of a pod was told who allocates."""
    text = "only the scheduler drawbridge allocates"
    return any(text in each for each in stage.events(pod)) or told(stage, pod, text)


@bridge_scenario("full", since="1.36")
def without_the_policy_nothing_is_allocated_until_the_taint_is_back(stage: BridgeStage) -> None:
    """The allocator stops without the controller, which adds the taint and later removes it."""
    create_policy(stage)
    with fenced_by_rules(stage):
        node = open_node(stage)
        stage.run_pod("before", templates={"gpu": "gpu"})
        controller = stage.placement.cluster.leader.started_process()
        controller.child.send_signal(signal.SIGSTOP)
        try:
            delete_policy(stage)
            stage.pod("without", templates={"gpu": "gpu"})
            nothing = partial(told, stage, "without", "the fence is missing")
            stage.wait("the pod is refused", nothing)
            assert is_open(stage, node)
        finally:
            controller.child.send_signal(signal.SIGCONT)
        stage.wait("the node is closed", lambda: not is_open(stage, node), SWITCH_SECONDS)
        stage.wait("it is reported", partial(says, stage, "does not exist"))
        stage.wait_running("without")
        assert stage.get_pod("before")["status"]["phase"] == "Running"
        create_policy(stage)
        stage.wait("the node is open again", partial(is_open, stage, node), SWITCH_SECONDS)
        stage.delete_pod("without")
        _add_rival(stage, "theirs")
        refused = partial(refuses, stage, "theirs")
        stage.wait("the API server refuses the allocation of others again", refused)
        stage.run_pod("after", templates={"gpu": "gpu"})


@bridge_scenario("full", since="1.36")
def the_taint_returns_before_the_rules_go(stage: BridgeStage) -> None:
    """The fence has no gap when the configuration asks for the taint again."""
    create_policy(stage)
    with fenced_by_rules(stage):
        node = open_node(stage)
        stage.run_pod("before", templates={"gpu": "gpu"})
    stage.wait("the node is closed", lambda: not is_open(stage, node), SWITCH_SECONDS)
    assert guarded_pools(stage, node)
    assert rules_of(stage, node)
    stage.run_pod("after", templates={"gpu": "gpu"})
    stage.wait("no pool is left", lambda: not guarded_pools(stage, node), SWITCH_SECONDS)
    stage.wait("no rule is left", lambda: not rules_of(stage, node))
    assert not is_open(stage, node)


@bridge_scenario("full", since="1.36")
def a_rival_without_rules_gets_no_owned_device(stage: BridgeStage) -> None:
    """Its pods tolerate them: each allocation is refused until it selects another node."""
    create_policy(stage)
    with fenced_by_rules(stage):
        node = open_node(stage)
        other = stage.node_name("b")
        stage.fleet.add_all([NodePlan(other, SHAPE, {GPU: "full"}, {LABEL: stage.name})])
        for number in range(2):
            _add_rival(stage, f"theirs-{number}")
            stage.pod(f"ours-{number}", templates={"gpu": "gpu"})
        for number in range(2):
            assert stage.wait_running(f"ours-{number}")["spec"]["nodeName"] == node
            # The free devices are elsewhere then.
            assert stage.wait_running(f"theirs-{number}")["spec"]["nodeName"] == other
        assert stage.check_allocations() == 2 * 2
        # What is allocated never becomes another device, so only new allocations are looked at.
        owned = stage.get_claim(stage.generated_claim("ours-0"))["status"]["allocation"]
        text = _refusal(stage, stage.generated_claim("theirs-0"), owned)
        words = "cannot be modified" if stage.version == "1.37" else "immutable"
        assert words in text, text


@bridge_scenario("full")
def the_taint_stays_where_the_fence_of_rules_is_not_possible(stage: BridgeStage) -> None:
    """Without the policy, or on a server without rules, the controller says why."""
    node = stage.node("a", SHAPE, {GPU: "full"}).name
    stage.template("gpu", claim_spec(request("gpu", GPU)))
    with_rules = stage.version not in {"1.34", "1.35"}
    if not with_rules:
        create_policy(stage)
    text = "does not exist" if with_rules else "does not serve DeviceTaintRules"
    with fenced_by_rules(stage):
        stage.wait("it is reported", partial(says, stage, text))
        assert not is_open(stage, node)
        stage.run_pod("ours", templates={"gpu": "gpu"})
        assert not guarded_pools(stage, node)
