"""A small sample of the damaged requests that `python -m e2e.damaged` sends."""

import asyncio
from pathlib import Path

from e2e.damaged.play import Outcome, send_cases
from e2e.damaged.process import cluster, started
from tests.cluster.fake.api import FakeApi
from tests.thorough import drawn

SEED, COUNT = 11, drawn(80, thorough=250)


def test_damaged_requests_get_the_right_response_and_the_process_continues(tmp_path: Path) -> None:
    async def run() -> tuple[Outcome, list[str], int | None]:
        async with FakeApi() as api:
            for value in cluster():
                api.put(value)
            kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")
            async with started(tmp_path, kubeconfig) as process:
                outcome = await send_cases(process.target, SEED, COUNT)
                return outcome, process.bugs, process.running.returncode

    outcome, bugs, code = asyncio.run(asyncio.wait_for(run(), 120))
    assert outcome.wrong == []
    assert bugs == []
    assert code is None
    # The sample contains translated pods and most kinds of damage.
    assert outcome.statuses["review with a patch"] > COUNT // 40
    assert len(outcome.kinds) > 12
