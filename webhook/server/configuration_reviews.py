"""Review the configuration in a process of its own, which ends with the review.

To judge a configuration takes CEL and the finding codes of all packages, which the webhook does not
load: administrators change it a few times a year.
"""

import contextlib
from typing import Final

from drawbridge.process import review
from drawbridge.process.fair_turns import FairTurns, NoTurnError, TurnKey
from webhook.admission.protocols import WorkerError
from webhook.admission.replies import Reply, reply_unreviewed
from webhook.server.worker_process import WorkerProcess

_UNREVIEWED: Final = "too many large objects are in review; the configuration was not checked"
_MODULE: Final = "webhook.judging.configuration"
# Each has a body of a ConfigMap in memory.
MAX_WAITING: Final = 16


class ConfigurationReviews:
    """Reviews the configuration, one at a time."""

    def __init__(self) -> None:
        self._turns = FairTurns(MAX_WAITING)

    async def review(self, body: bytes, seconds: float | None = None, peer: str = "") -> Reply:
        """Handle the review of the ConfigMap with the configuration.

        One that cannot be reviewed now is allowed: a correction must not wait.
        """
        del seconds  # the caller stops waiting, which ends the process
        try:
            async with (
                self._turns.take(TurnKey("", peer)),
                contextlib.aclosing(WorkerProcess(preload=_MODULE)) as worker,
            ):
                reply = await worker.run_named(f"{_MODULE}:review_configuration", body)
        except (NoTurnError, WorkerError):
            reply = None
        if isinstance(reply, Reply):
            return reply
        return reply_unreviewed(review.read_uid(body), _UNREVIEWED)
