"""The packages agree on generated clusters and pods.

What `translate` leaves or prints, `simulate` places on the empty cluster, or a finding of one of
them has the cause, by the table in `causes.yaml`. THOROUGH=1 gives 20,000 cases.
"""

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.checking.findings import check_manifests
from cli.checking.input import of_manifests
from cli.input.live_cluster import as_documents
from drawbridge.agreement.codes import ACCEPTED_NAMES
from drawbridge.config.model import Configuration
from tests.properties.agreement import UNSERVED, Case, PreparedCluster, contradictions
from tests.properties.generated import make_cluster, make_pod
from tests.tables import load_cases
from tests.thorough import drawn

CAUSES: Any = load_cases(Path(__file__).parent / "causes.yaml")
PODS = 14  # for each cluster
BLOCK = 13
CLUSTERS = drawn(26, thorough=1430)
BLOCKS = [range(first, min(first + BLOCK, CLUSTERS)) for first in range(0, CLUSTERS, BLOCK)]


@cache
def cases(seed: int) -> list[Case]:
    on = PreparedCluster(make_cluster(seed))
    return [Case(on, make_pod(seed * PODS + number)) for number in range(PODS)]


@pytest.mark.parametrize("clusters", BLOCKS, ids=lambda block: f"{block[0]}-{block[-1]}")
def test_the_packages_do_not_contradict_each_other(clusters: range) -> None:
    told = []
    for seed in clusters:
        for case in cases(seed):
            where = f"{case.on.cluster.describe()}\n  {case.pod['spec']}"
            told += [f"{text}\n  {where}" for text in contradictions(case, CAUSES)]
    assert not told, "\n".join(told)


def test_check_accepts_the_claims_of_translate() -> None:
    for seed in range(0, CLUSTERS, BLOCK):
        templates = [each for case in cases(seed) for each in case.translated.templates]
        findings = check_manifests(of_manifests(as_documents(templates), Configuration()))
        assert {each.finding.code for each in findings} <= {"NothingToJudge"}


def test_the_cases_are_of_every_kind() -> None:
    """A generator that only makes pods that are refused would show nothing."""
    counts: Counter[str] = Counter()
    for seed in range(min(CLUSTERS, 40)):
        for case in cases(seed):
            counts["placed"] += case.placement.node is not None
            counts["translated"] += bool(case.translated.edits)
            counts["impossible claims"] += bool(case.judged) and case.placement.node is None
            counts["possible claims"] += bool(case.templates) and not case.judged
            counts["unserved"] += any(each.code == UNSERVED for each in case.placement.reasons)
            counts.update(case.codes() & {"LeftToClass", "LeftAsItIs", "LeftToPlugin"})
            counts[case.on.cluster.gates.version] += 1
    assert all(counts[name] >= 5 for name in counts), counts
    assert len(counts) == 12


def test_the_table_names_codes_that_exist() -> None:
    assert {each.partition(",")[0] for each in CAUSES} <= set(ACCEPTED_NAMES)
    for row in CAUSES.values():
        assert set(row) in ({"because"}, {"translate"})
        assert set(row.get("translate", ())) <= set(ACCEPTED_NAMES)
