"""Review the configuration in a copy of this process, which ends with the review.

To judge a configuration takes CEL and the finding codes of all packages, which the webhook does not
load: administrators change it a few times a year. The copy imports them.
"""

import importlib
import pickle
from typing import Final

from drawbridge.process import review
from drawbridge.process.fair_turns import FairTurns, NoTurnError, TurnKey
from drawbridge.process.forked import ForkEndedError, ForkLimits, ForkRefusedError, run_forked
from webhook.admission.replies import Reply, reply_unreviewed

_UNREVIEWED: Final = "too many large objects are in review; the configuration was not checked"
_MODULE: Final = "webhook.judging.configuration"
# Each has a body of a ConfigMap in memory.
MAX_WAITING: Final = 16
# Longer than any API server waits: then the caller ends the copy.
_LIMITS: Final = ForkLimits(seconds=60.0, cpu_seconds=20)


class ConfigurationReviews:
    """Reviews the configuration, one at a time."""

    def __init__(self) -> None:
        self._turns = FairTurns(MAX_WAITING)

    async def review(self, body: bytes, seconds: float, peer: str = "") -> Reply:
        """Handle the review of the ConfigMap with the configuration.

        One that cannot be reviewed now is allowed: a correction must not wait.
        """
        del seconds
        try:
            async with self._turns.take(TurnKey("", peer)):
                reply: Reply = pickle.loads(  # noqa: S301  # our own
                    await run_forked(lambda: _review_as_copy(body), _LIMITS)
                )
        except (NoTurnError, ForkEndedError, ForkRefusedError):
            return reply_unreviewed(review.read_uid(body), _UNREVIEWED)
        return reply


def _review_as_copy(body: bytes) -> bytes:
    return pickle.dumps(importlib.import_module(_MODULE).review_configuration(body))
