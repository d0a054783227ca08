"""The facts that the controller publishes, from a watch of their ConfigMap.

Unreadable facts do not replace the last readable ones.
"""

import logging
from collections.abc import Callable
from typing import Final

from drawbridge.agreement.published_facts import (
    FactsConfigMap,
    PublishedFactsError,
    read_current_hash,
    read_facts,
)
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from drawbridge.facts.model import Facts
from drawbridge.names import FACTS_CONFIG_MAP
from drawbridge.process import metrics
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("drawbridge.process.watched_facts")


class WatchedFacts:
    """The current facts and their hash; no facts until the controller has published some."""

    def __init__(self, session: Session, namespace: str) -> None:
        selector = f"metadata.name={FACTS_CONFIG_MAP}"
        self.cache = Cache(
            session, CONFIG_MAPS, FactsConfigMap, namespace=namespace, fields=selector
        )
        self.config_map = FactsConfigMap()
        self.facts: Facts | None = None
        self.digest = ""
        self._name = f"{namespace}/{FACTS_CONFIG_MAP}"
        self._problem = f"the controller has not published ConfigMap {self._name} yet"
        self._listeners: list[Callable[[], None]] = []
        self.cache.subscribe(self._on_config_map)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the facts."""
        self._listeners.append(listener)

    def find_missing(self) -> tuple[str, ...]:
        """Return why there are no facts, or nothing."""
        return () if self.facts is not None else (f"no facts: {self._problem}",)

    def _on_config_map(
        self,
        before: CachedObject[FactsConfigMap] | None,
        after: CachedObject[FactsConfigMap] | None,
    ) -> None:
        if after is None:
            metrics.FACTS_GOOD.set(0)
            text = "facts ConfigMap deleted, the last facts stay in use"
            log_event(_LOG, logging.WARNING, text, config_map=self._name)
            return
        self.config_map = after.value
        try:
            digest = read_current_hash(after.value)
            in_use = self.facts is not None and digest == self.digest
            # Facts with the same hash may have other counts, which messages quote.
            if in_use and before is not None and before.value == after.value:
                return
            facts = read_facts(after.value)
        except PublishedFactsError as error:
            metrics.FACTS_READS.add("error")
            metrics.FACTS_GOOD.set(0)
            self._problem = f"ConfigMap {self._name} cannot be read: {error}"
            text = "facts cannot be read, the last facts stay in use"
            log_event(_LOG, logging.ERROR, text, config_map=self._name, reason=str(error))
            return
        metrics.FACTS_READS.add("success")
        metrics.FACTS_GOOD.set(1)
        if not in_use:
            log_event(_LOG, logging.INFO, "facts in use", hash=digest)
        self.facts, self.digest = facts, digest
        for listener in self._listeners:
            listener()
