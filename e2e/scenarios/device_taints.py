"""Scenario: the device taint eviction controller evicts whom `drawbridge simulate` names."""

import json
import os
import random
import re
import time
from functools import partial

from e2e.controlplane.client import ApiError
from e2e.installed.installation import Installation, installed
from e2e.installed.kubectl import CommandResult
from e2e.runner import print_line
from e2e.scenarios.objects import JSON, claim_spec, request, taint_rules_path
from e2e.scenarios.registry import scenario
from e2e.scenarios.stage import Stage

GPU = "gpu.nvidia.com"
# The nightly run and a release try more.
ROUNDS, PODS = int(os.environ.get("DRAWBRIDGE_E2E_ROUNDS", "25")), 12
KEYS, VALUES, EFFECTS = ("a", "b"), ("", "x", "y"), ("NoExecute", "NoExecute", "NoSchedule")
TOLERATED = ("NoExecute", "NoExecute", "NoSchedule", "")
# How long all others must stay.
QUIET_SECONDS = 1.5
# Beyond the end of a round.
LATER = 3600
_EVICTED = re.compile(r"Pod/([^/]+)/([^:]+): evicted at once")


@scenario("full", since="1.36", rig="installed", needs=("processes",))
def a_taint_evicts_whom_the_simulation_names(stage: Stage) -> None:
    """Drawn rules and tolerations; the named pods go, and all others stay."""
    seed = random.randrange(1_000_000)  # draws cases, and is told
    drawn = random.Random(seed)  # the same
    cluster = installed(stage)
    nodes = [stage.node_name(suffix) for suffix in "ab"]
    for suffix in "ab":
        stage.node(suffix, "dgx-a100", {GPU: "full"})
    for number in range(6):
        tolerations = [_draw_toleration(drawn) for _ in range(number % 3)]
        stage.template(f"t-{number}", claim_spec(request("gpu", GPU, tolerations=tolerations)))
    evicted = 0
    for number in range(ROUNDS):
        _fill(stage, drawn)
        rule = _draw_rule(drawn, number, nodes, stage.version)
        expected, told = _predict(stage, cluster, rule)
        evicted += len(expected)
        stage.client.create(taint_rules_path(stage.version), rule)
        try:
            stage.wait(f"{sorted(expected)} go", partial(_have_left, stage, expected))
            time.sleep(QUIET_SECONDS)
            assert _running(stage) == _all() - expected, (seed, rule, told)
        finally:
            stage.client.delete(_path(stage, rule))
        stage.wait("the rule is gone", partial(_is_gone, stage, rule))
    print_line(f"      {ROUNDS} rules evicted {evicted} pods; seed {seed}")
    assert evicted, f"seed {seed}: no rule evicts"


def _path(stage: Stage, rule: JSON) -> str:
    return f"{taint_rules_path(stage.version)}/{rule['metadata']['name']}"


def _draw_toleration(drawn: random.Random) -> JSON:
    effect, seconds = drawn.choice(TOLERATED), drawn.choice((None, None, 0, LATER))
    operator = drawn.choice(("Exists", "Equal"))
    toleration: JSON = {"key": drawn.choice(KEYS), "operator": operator}
    if operator == "Equal":
        toleration["value"] = drawn.choice(VALUES)
    if effect:
        toleration["effect"] = effect
    if effect == "NoExecute" and seconds is not None:
        toleration["tolerationSeconds"] = seconds
    return toleration


def _draw_rule(drawn: random.Random, number: int, nodes: list[str], version: str) -> JSON:
    taint = {
        "key": drawn.choice(KEYS),
        "value": drawn.choice(VALUES),
        "effect": drawn.choice(EFFECTS),
    }
    selector = {"pool": drawn.choice(nodes)}  # other scenarios have nodes of their own
    if drawn.random() < 0.5:
        selector["driver"] = drawn.choice((GPU, GPU, "gpu.example.com"))
    if drawn.random() < 0.4:
        selector["device"] = f"gpu-{drawn.randrange(8)}"
    return {
        "apiVersion": "/".join(taint_rules_path(version).split("/")[2:4]),
        "kind": "DeviceTaintRule",
        "metadata": {"name": f"taint-{number}"},
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def _fill(stage: Stage, drawn: random.Random) -> None:
    for name in sorted(_all() - _running(stage)):
        stage.wait_gone(stage.pod_path(name))
        stage.pod(name, templates={"gpu": f"t-{drawn.randrange(6)}"})
    stage.wait("all pods run", lambda: _running(stage) == _all(), 60.0)


def _all() -> frozenset[str]:
    return frozenset(f"pod-{number}" for number in range(PODS))


def _running(stage: Stage) -> frozenset[str]:
    pods = stage.client.get(stage.pod_path())["items"]
    return frozenset(
        each["metadata"]["name"]
        for each in pods
        if each["status"].get("phase") == "Running" and "deletionTimestamp" not in each["metadata"]
    )


def _have_left(stage: Stage, names: frozenset[str]) -> bool:
    return not names & _running(stage)


def _predict(
    stage: Stage, cluster: Installation, rule: JSON
) -> tuple[frozenset[str], CommandResult]:
    """Return the pods of the namespace that `drawbridge simulate` says the rule evicts."""
    words = ("simulate", "-f", "-", "--context", "-o", "json")
    ran = cluster.drawbridge(*words, stdin=json.dumps(rule))
    evicted = _EVICTED.findall(ran.err)
    return frozenset(name for namespace, name in evicted if namespace == stage.namespace), ran


def _is_gone(stage: Stage, rule: JSON) -> bool:
    try:
        stage.client.get(_path(stage, rule))
    except ApiError as problem:
        return problem.code == 404
    return False
