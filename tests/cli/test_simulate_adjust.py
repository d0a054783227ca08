"""`drawbridge simulate --adjust`: whether an allocation could grow, and what would have to go."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import command
from tests.cli.simulating import ONLY_N1
from tests.cli.test_simulate_defrag import CLUSTER, node, running

adjust = partial(command, "simulate", "--adjust")
FOUR = "{name: x}, {name: w}, {name: v}, {name: u}"
SHARED = """\
---
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s1}
spec:
  driver: d.io
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: z, allowMultipleAllocations: true, capacity: {memory: {value: 10Gi}}}
"""


def share(name: str, memory: str) -> str:
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec: {{nodeName: n1, resourceClaims: [{{name: g, resourceClaimName: {name}}}]}}
status: {{phase: Running}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, namespace: default}}
spec:
  devices:
    requests:
    - name: r
      exactly: {{deviceClassName: gpu, capacity: {{requests: {{memory: {memory}}}}}}}
status:
  reservedFor: [{{resource: pods, name: {name}, uid: u}}]
  allocation:
    devices:
      results:
      - request: r
        driver: d.io
        pool: n1
        device: z
        shareID: {name}
        consumedCapacity: {{memory: {memory}}}
    nodeSelector: {json.dumps(ONLY_N1)}
"""


@pytest.fixture
def answer(tmp_path: Path) -> Any:  # noqa: ANN401  # a function
    def run(cluster: str, *words: str) -> tuple[int, Any, str]:
        (tmp_path / "cluster.yaml").write_text(cluster)
        code, out, err = adjust(*words, "--cluster", f"{tmp_path}/cluster.yaml", "-o", "json")
        return code, json.loads(out) if out else None, err

    return run


def test_a_claim_that_can_grow_keeps_its_devices(answer: Any) -> None:  # noqa: ANN401
    code, told, _ = answer(CLUSTER + node("n1", FOUR) + running("a", "w"), "a", "--count", "3")
    assert (code, told["fits"], told["keepsDevices"], told["node"]) == (0, True, True, "n1")
    devices = [each["device"] for each in told["allocation"]["devices"]["results"]]
    assert "w" in devices
    assert len(devices) == 3


def test_how_far_a_count_can_grow_and_who_would_have_to_go(answer: Any) -> None:  # noqa: ANN401
    cluster = CLUSTER + node("n1", FOUR) + running("a") + running("b", "w") + running("c", "v")
    code, told, _ = answer(cluster, "default/a", "--count", "3")
    assert (code, told["fits"], told["most"]) == (1, False, "2")
    assert told["without"] == ["default/c"]
    assert told["elsewhere"] == []
    assert told["reasons"]
    code, told, _ = answer(cluster + node("n2", FOUR), "a", "--count", "5")
    assert (code, told["most"], told["without"], told["elsewhere"]) == (1, "2", None, [])
    code, told, _ = answer(cluster + node("n2", FOUR), "a", "--count", "4")
    assert (told["without"], told["elsewhere"]) == (["default/b", "default/c"], ["n2"])


def test_how_far_a_share_can_grow_to_the_mebibyte(answer: Any) -> None:  # noqa: ANN401
    cluster = CLUSTER + SHARED + share("a", "2Gi") + share("b", "3Gi") + share("c", "1537Mi")
    code, told, _ = answer(cluster, "a", "--capacity", "memory=5Gi")
    assert (code, told["keepsDevices"]) == (0, True)
    code, told, _ = answer(cluster, "a", "--capacity", "memory=8Gi")
    assert (code, told["most"], told["without"]) == (1, "5631Mi", ["default/b"])


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ("memory=8", "3400m"),
        ("memory=3500m", "3400m"),
        ("memory=3400000001n", "3400m"),
        ("memory=3500001u", "3400m"),
        ("memory=1e9", "3400e-3"),
    ],
)
def test_how_far_a_fraction_can_grow(answer: Any, asked: str, most: str) -> None:  # noqa: ANN401
    cluster = CLUSTER + SHARED.replace("10Gi", "4") + share("a", "300m") + share("b", "600m")
    code, told, _ = answer(cluster, "a", "--capacity", asked)
    assert (code, told["most"]) == (1, most)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("gone", "--count", "2"), "ResourceClaim default/gone does not exist"),
        (("free", "--count", "2"), "ResourceClaim default/free has no allocation"),
        (("a", "--count", "2", "--request", "q"), "has no request q; it has r"),
        (("a", "--capacity", "memory=much"), "much"),
        (("a", "--capacity", "memory=-1Gi"), "the amount -1Gi of memory is negative"),
        (("a", "--count", "0"), "a request has 1 device at least, not 0"),
        (("a", "--count", "-3"), "a request has 1 device at least, not -3"),
    ],
)
def test_what_cannot_be_answered_is_an_error(
    answer: Any,  # noqa: ANN401
    words: tuple[str, ...],
    text: str,
) -> None:
    free = """\
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: free, namespace: default}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
"""
    code, told, err = answer(CLUSTER + node("n1", FOUR) + running("a") + free, *words)
    (finding,) = told["findings"]
    assert (code, finding["severity"], err) == (2, "error", "")
    assert text in finding["message"]


def test_the_text_says_that_nothing_changes(tmp_path: Path) -> None:
    cluster = CLUSTER + node("n1", FOUR) + running("a") + running("b", "w") + running("c", "v")
    (tmp_path / "cluster.yaml").write_text(cluster)
    code, out, _ = adjust("a", "--count", "3", "--cluster", f"{tmp_path}/cluster.yaml")
    assert code == 1
    assert "default/a: does not fit on n1: at most 2 fits there" in out
    assert "  would fit without default/c\n" in out
    assert "an allocation never changes" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--adjust a", "--adjust needs either --count or --capacity"),
        ("--adjust a --count 2 --capacity m=1", "--adjust needs either --count or --capacity"),
        ("--adjust a --count 2 --preempt", "--preempt has no meaning with --adjust"),
        ("--adjust a --count 2 --more-nodes n1=2", "--more-nodes has no meaning with --adjust"),
        ("--adjust a --count 2 --hold 5m", "--hold has no meaning with --adjust"),
        ("--adjust a --count 2 --defrag", "--defrag has no meaning with --adjust"),
        ("--defrag --allocator-url http://x", "--allocator-url has no meaning with --defrag"),
        ("--hold 5m", "--hold has no meaning without a question that takes it"),
        ("-n team", "--namespace has no meaning without a question that takes it"),
    ],
)
def test_an_option_that_has_no_effect_is_refused(words: str, said: str) -> None:
    code, out, err = command("simulate", *words.split())
    assert (code, out, err) == (2, "", f"simulate: {said}\n")
