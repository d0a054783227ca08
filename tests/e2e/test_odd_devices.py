"""Kubernetes' own CEL admits each translated selector, and fails on no device."""

import json
import subprocess
from pathlib import Path

from tests.translate import odd_devices


def test_kubernetes_evaluates_selectors_on_devices_with_missing_and_other_attributes(
    oracle: Path,
) -> None:
    questions = [
        {
            "device": {"driver": "any.example.com", **device},
            "expression": expression,
            "list_attributes": "on",
        }
        for expression in odd_devices.expressions()
        for device in odd_devices.devices(expression, lists=True)
    ]
    done = subprocess.run(  # noqa: S603  # built from this repository
        [oracle, "cel"],
        input="\n".join(map(json.dumps, questions)).encode(),
        capture_output=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions) > 300
    for question, answer in zip(questions, answers, strict=True):
        assert answer["admitted"], (question, answer)
        assert answer["result"] in (True, False), (question, answer)
