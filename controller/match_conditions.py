"""Keeps the matchConditions of our webhooks current."""

from collections.abc import Callable, Iterable
from typing import Final

from config.model import Configuration
from controller.protocols import About, Object, Store, Told
from dra.finding import Finding
from dra.names import WEBHOOK_CONFIGURATION
from registration.match_conditions import API_VERSION, KIND, applied, conditions, inactive
from translate.interest import interest

DUTY: Final = "conditions"


class ConditionsDuty:
    """Keeps the conditions of the live webhooks current."""

    name = DUTY

    def __init__(
        self,
        webhooks: Store,
        read: Callable[[], Object | None],
        configuration: Callable[[], Configuration],
        told: Told,
    ) -> None:
        self._webhooks = webhooks
        self._read = read
        self._configuration = configuration
        self._told = told

    async def step(self) -> None:
        """Write what is not as it should be; what may not be active meanwhile is told first."""
        live, configuration = self._read(), self._configuration()
        found = inactive(live, configuration)
        self.tell(found, live)
        self._told.level(DUTY, "inactive", len(found))
        change = applied(live, conditions(interest(configuration))) if live else None
        if change is not None:
            await self._webhooks.apply(change)
            self._told.count(DUTY, "applied")

    def tell(self, findings: Iterable[Finding], live: Object | None) -> None:
        """Tell what is not active, about the object that keeps it from being so."""
        uid = ((live or {}).get("metadata") or {}).get("uid", "")
        for finding in findings:
            about = About(KIND, WEBHOOK_CONFIGURATION, uid=uid, api_version=API_VERSION)
            self._told.say(finding, about, "MatchConditions")
