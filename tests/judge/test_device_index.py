"""Alike nodes are judged once, and the result is that of judging each node."""

import random

import pytest

from drawbridge.cel.dra import Selectors
from drawbridge.dra.claim import Claim
from drawbridge.finding import Severity
from drawbridge.judge.context import JudgeCaches, JudgeContext
from drawbridge.judge.devices.proof import EMPTY, MAX_KINDS, ProofOutcome, prove, reads_of_claims
from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import claim_subject
from drawbridge.solver.answers import Solution
from drawbridge.solver.solve import solve
from tests.judge.fleets import claim, context
from tests.tables import YamlValue, every_row
from tests.thorough import drawn

ROOT = "resource.kubernetes.io/pcieRoot"
UUID = 'device.attributes["gpu.example.com"].uuid {} "{}"'
NODES = MAX_KINDS + 40


def unique_fleet(nodes: int) -> YamlValue:
    """Nodes whose two devices have a UUID each."""
    return {
        "nodes": {
            f"n{node}": {
                "gpu": {
                    "count": 2,
                    "attributes": [{"uuid": f"u-{node}-{number}"} for number in range(2)],
                }
            }
            for node in range(nodes)
        }
    }


UNIQUE = context(unique_fleet(NODES))


def kinds(asked: Claim, of: JudgeContext) -> int:
    """The number of nodes that are solved for a claim."""
    return len(of.index.representatives(reads_of_claims([asked], of)))


def test_nodes_are_alike_if_the_claim_does_not_read_what_differs() -> None:
    assert kinds(claim({"requests": [{"class": "gpu"}]}), UNIQUE) == 1
    read = {"requests": [{"class": "gpu", "where": UUID.format("!=", "x")}]}
    assert kinds(claim(read), UNIQUE) == NODES


def test_a_constraint_tells_nodes_apart_by_the_pattern_of_values_only() -> None:
    def rooted(*roots: str) -> YamlValue:
        return {"gpu": {"count": 2, "attributes": {"model": "m"}, "roots": list(roots)}}

    fleet = {"nodes": {"a": rooted("r0", "r1"), "b": rooted("r2", "r3"), "c": rooted("r4", "r4")}}
    constrained = {
        "requests": [{"class": "gpu", "count": 2}],
        "constraints": [{"matchAttribute": ROOT}],
    }
    assert kinds(claim(constrained), context(fleet)) == 2
    assert judge_subject(claim_subject(claim(constrained)), context(fleet)) == ()
    del fleet["nodes"]["c"]
    (finding,) = judge_subject(claim_subject(claim(constrained)), context(fleet))
    assert finding.code == "ConstraintNeverMet"


@pytest.mark.parametrize("uuid", ["u-0-0", f"u-{NODES - 1}-1"])
def test_a_device_that_is_one_of_many_is_found(uuid: str) -> None:
    short = {"requests": [{"class": "gpu", "where": UUID.format("==", uuid)}]}
    assert judge_subject(claim_subject(claim(short)), UNIQUE) == ()


def test_a_device_that_nobody_publishes_is_refused_however_many_there_are() -> None:
    short = {"requests": [{"class": "gpu", "where": UUID.format("==", "u-0-2")}]}
    (finding,) = judge_subject(claim_subject(claim(short)), UNIQUE)
    assert (finding.code, finding.severity) == ("DeviceNeverMatches", Severity.ERROR)


def test_two_devices_of_different_nodes_are_refused_and_two_of_one_node_are_not() -> None:
    def both(uuid: str, other: str) -> YamlValue:
        wanted = [{"class": "gpu", "where": UUID.format("==", each)} for each in (uuid, other)]
        return {"requests": wanted}

    assert judge_subject(claim_subject(claim(both("u-7-0", "u-7-1"))), UNIQUE) == ()
    (finding,) = judge_subject(claim_subject(claim(both("u-7-0", "u-8-1"))), UNIQUE)
    assert (finding.code, finding.severity) == ("DevicesNeverTogether", Severity.ERROR)


def test_more_kinds_of_nodes_than_are_solved_refuse_nothing() -> None:
    # The term cannot be narrowed, because it reads two attributes.
    text = f"{UUID.format('==', 'u-290-0')} || {UUID.format('==', 'x')} && device.driver == 'x'"
    (finding,) = judge_subject(
        claim_subject(claim({"requests": [{"class": "gpu", "where": text}]})), UNIQUE
    )
    assert finding.severity is Severity.WARNING
    assert f"more than {MAX_KINDS} kinds of nodes" in finding.message


def random_fleet(draw: random.Random) -> YamlValue:
    """Many nodes of a few kinds, which differ in every way that a claim can see."""
    kinds_of_nodes = [
        {
            "count": draw.randint(1, 4),
            "attributes": {"model": draw.choice("ab"), "index": draw.randint(0, 1)},
            "capacity": {"memory": draw.choice(("16Gi", "80Gi"))},
            "roots": draw.sample(["r0", "r1", "r2"], 2),
            "shared": draw.random() < 0.3,
        }
        for _ in range(4)
    ]
    return {
        "nodes": {
            f"n{number}": {
                name: draw.choice(kinds_of_nodes)
                for name in draw.choice((("gpu",), ("nic",), ("gpu", "nic")))
            }
            for number in range(30)
        }
    }


def random_claim(draw: random.Random) -> Claim:
    """A claim near the limits of such a fleet."""
    requests = []
    for _ in range(draw.randint(1, 2)):
        name = draw.choice(("gpu", "nic"))
        request: YamlValue = {"class": name, "count": draw.randint(1, 4)}
        if draw.random() < 0.5:
            request["where"] = draw.choice(
                (
                    f'device.attributes["{name}.example.com"].model == "a"',
                    f'device.attributes["{name}.example.com"].index == 1',
                    f'device.capacity["{name}.example.com"].memory.compareTo(quantity("40Gi")) > 0',
                )
            )
        requests.append(request)
    kind = draw.choice(("matchAttribute", "distinctAttribute"))
    return claim(
        {"requests": requests, "constraints": [{kind: ROOT}] if draw.random() < 0.6 else []}
    )


@every_row("seed", range(drawn(20, thorough=40)))
def test_the_proof_over_kinds_of_nodes_is_the_proof_over_all_nodes(seed: int) -> None:
    draw = random.Random(seed)
    of = context(random_fleet(draw), caches=JudgeCaches(Selectors()))
    for _ in range(5):
        asked = random_claim(draw)
        answers = solve(of.relaxed, EMPTY, [asked], of.nodes, ids=lambda: "share").values()
        possible = any(isinstance(each, Solution) for each in answers)
        expected = ProofOutcome.POSSIBLE if possible else ProofOutcome.IMPOSSIBLE
        assert prove([asked], of).outcome is expected
