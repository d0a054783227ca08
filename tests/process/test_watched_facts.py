"""The published facts: why a process has none, and which it has."""

import logging
from pathlib import Path

import pytest

from drawbridge.agreement.published_facts import FactsConfigMap, build_data_key
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from drawbridge.facts.model import Facts, ResourceFacts
from drawbridge.facts.serialized import encode_facts, facts_hash
from drawbridge.process import metrics
from drawbridge.process.watched_facts import WatchedFacts
from tests.cluster.fake.api import FakeApi

SYSTEM = "drawbridge-system"
CONFIG_MAP = f"ConfigMap {SYSTEM}/drawbridge-facts"


@pytest.mark.asyncio
async def test_facts_that_cannot_be_read_are_not_called_unpublished(tmp_path: Path) -> None:
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        watched = WatchedFacts(session, SYSTEM)
        not_yet = f"no facts: the controller has not published {CONFIG_MAP} yet"
        assert watched.find_missing() == (not_yet,)
        newer = {"current": f"sha256:{'a' * 64}", f"facts-{'a' * 16}.json": '{"later": 1}'}
        name, version = (SYSTEM, "drawbridge-facts"), ("uid", "1")
        cached = CachedObject(*name, *version, b"", FactsConfigMap(newer))
        watched._on_config_map(None, cached)  # noqa: SLF001  # as its watch tells it
        (missing,) = watched.find_missing()
        assert missing.startswith(f"no facts: {CONFIG_MAP} cannot be read: data.facts-aaaaaaaaaaaa")
        assert "later" in missing
        assert good() == 0


def good() -> float | None:
    return metrics.FACTS.get_sample_value("drawbridge_facts_good")


@pytest.mark.asyncio
async def test_facts_with_other_counts_are_no_news(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "drawbridge.process.watched_facts")
    async with FakeApi() as api, await Session.open(str(api.kubeconfig(tmp_path / "c"))) as session:
        watched, told = WatchedFacts(session, SYSTEM), list[int]()
        before: CachedObject[FactsConfigMap] | None = None
        watched.subscribe(lambda: told.append(1))
        for nodes in (1, 2, 3):
            facts = Facts(names=(ResourceFacts("nvidia.com/gpu", nodes=nodes),))
            digest = facts_hash(facts)
            data = {"current": digest, build_data_key(digest): encode_facts(facts).decode()}
            after = CachedObject(SYSTEM, "f", "uid", f"{nodes}", b"", FactsConfigMap(data))
            watched._on_config_map(before, after)  # noqa: SLF001  # as its watch tells it
            before = after
        assert good() == 1
        wrong = {"current": f"sha256:{'a' * 64}"}
        after = CachedObject(SYSTEM, "f", "uid", "4", b"", FactsConfigMap(wrong))
        watched._on_config_map(before, after)  # noqa: SLF001  # as its watch tells it
        assert (good(), watched.facts is None) == (0, False)
        watched._on_config_map(after, before)  # noqa: SLF001  # as its watch tells it
        assert good() == 1
        watched._on_config_map(before, None)  # noqa: SLF001  # as its watch tells it
        assert (good(), watched.facts is None) == (0, False)
    assert len(told) == 4
    informed = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
    assert informed == ["facts in use"]
