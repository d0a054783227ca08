"""A process says which commit it runs, and says so if it does not know."""

import asyncio
import logging
import platform
from pathlib import Path

import pytest

from drawbridge.process import metrics
from drawbridge.process.addresses import Address
from drawbridge.process.build_info import read_build_info, read_commit
from drawbridge.process.run import REFUSED, ProcessOptions, run_process


def test_the_commit_is_what_the_build_wrote(tmp_path: Path) -> None:
    (tmp_path / "commit.txt").write_text("0123abcd-dirty\n")
    assert read_commit(tmp_path / "commit.txt") == "0123abcd-dirty"


def test_a_checkout_does_not_claim_a_commit(tmp_path: Path) -> None:
    assert read_commit(tmp_path / "commit.txt") == "unknown"
    assert read_build_info().commit == "unknown"


def test_a_process_says_what_runs_before_it_needs_a_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = Address("127.0.0.1", 0)
    options = ProcessOptions(health=nowhere, metrics=nowhere, kubeconfig=str(tmp_path / "missing"))
    caplog.set_level(logging.INFO)

    async def serve(*_: object) -> None:
        raise AssertionError("there is no cluster")

    assert asyncio.run(run_process(options, logging.getLogger("test"), serve)) == REFUSED
    first = caplog.records[0]
    assert first.getMessage() == "starting"
    assert vars(first)["fields"] == {
        "version": read_build_info().version,
        "commit": "unknown",
        "python": platform.python_version(),
    }
    labels = vars(first)["fields"]
    assert metrics.REGISTRY.get_sample_value("drawbridge_build_info", labels) == 1
