"""A judgement in a copy of a process has a clock, which ends the search on a node."""

import pytest

from drawbridge.judge.judgement import judge_subject
from drawbridge.judge.subject import claim_subject
from tests.judge.fleets import FLEETS, claim, context
from tests.tables import YamlValue

# Too few devices have the same model, which takes a search to find.
ASKED: YamlValue = {
    "requests": [{"name": f"r{number}", "class": "gpu"} for number in range(12)],
    "match": ["gpu.example.com/model"],
}


def test_a_search_that_the_clock_ends_is_a_warning_and_never_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drawbridge.solver.meter._INTERVAL", 1)
    of, subject = context(FLEETS["two products"]), claim_subject(claim(ASKED))
    decided = judge_subject(subject, of)
    of = context(FLEETS["two products"])
    times = iter(range(1000))
    of.caches.become_copy(lambda _: None, lambda: float(next(times)))
    late = judge_subject(subject, of)
    assert "JudgementIncomplete" in [each.code for each in late]
    assert "JudgementIncomplete" not in [each.code for each in decided]
