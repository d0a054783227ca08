"""The configuration of a process, from a watch of its ConfigMap.

A refused configuration is reported in the log and in a metric, and the last valid one stays in use.
A process without one is not ready.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

import msgspec

from drawbridge.agreement.configuration_in_use import (
    ConfigurationConfigMap,
    ConfigurationReading,
    configuration_hash,
    describe_findings,
    read_in_use,
)
from drawbridge.cluster.cache import Cache
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.session import Session
from drawbridge.cluster.store import CachedObject
from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.names import CONFIGURATION_IN_USE_CONFIG_MAP
from drawbridge.process import metrics
from drawbridge.process.logs import log_event

_LOG: Final = logging.getLogger("drawbridge.process.settings")
_MAX_LOGGED: Final = 50  # findings of one configuration
_CachedConfigMap = CachedObject[ConfigurationConfigMap]


class WatchedConfiguration:
    """The Configuration in one ConfigMap, as the watch shows it."""

    def __init__(
        self,
        session: Session,
        name: str,
        read: Callable[[ConfigurationConfigMap | None], ConfigurationReading],
    ) -> None:
        # RBAC grants one name, and a watch of one name needs the selector.
        fields = f"metadata.name={name}"
        self.cache: Cache[ConfigurationConfigMap] = Cache(
            session, CONFIG_MAPS, ConfigurationConfigMap, namespace=session.namespace, fields=fields
        )
        self.name = name
        self.reading = read(None)
        self._read = read
        self._listeners: list[Callable[[], None]] = []
        self.cache.subscribe(self._on_change)

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _on_change(self, _before: _CachedConfigMap | None, after: _CachedConfigMap | None) -> None:
        self.reading = self._read(None if after is None else after.value)
        for listener in self._listeners:
            listener()


def watch_in_use(session: Session) -> WatchedConfiguration:
    """Watch the configuration that the controller has accepted."""
    return WatchedConfiguration(session, CONFIGURATION_IN_USE_CONFIG_MAP, read_in_use)


class Settings:
    """The configuration that this process uses: the first valid one of these ConfigMaps.

    Without a ConfigMap, it has the default values.
    """

    def __init__(self, watched: Sequence[WatchedConfiguration] = ()) -> None:
        self.current = Configuration()
        self.text = ""
        self.watched = tuple(watched)
        self._loaded = asyncio.Event()
        self._reported: object = None
        self._listeners: list[Callable[[Configuration], None]] = []
        for each in self.watched:
            each.subscribe(self._update)
        if not self.watched:
            self._loaded.set()
            metrics.CONFIGURATION_GOOD.set(1)

    def subscribe(self, listener: Callable[[Configuration], None]) -> Callable[[], None]:
        """Call `listener` with each new configuration; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def run(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Return the watches."""
        return (each.cache.run() for each in self.watched)

    def caches(self) -> Iterable[tuple[str, Cache[ConfigurationConfigMap]]]:
        """Return the caches with the names that metrics use."""
        return ((f"configmaps/{each.name}", each.cache) for each in self.watched)

    async def wait(self) -> None:
        """Wait until there is a configuration."""
        await self._wait_until_synced()
        await self._loaded.wait()

    async def wait_unless_first(self) -> None:
        """Wait until there is a configuration, unless no configuration was ever in use."""
        await self._wait_until_synced()
        if self.watched and self.watched[0].reading.exists:
            await self._loaded.wait()

    async def _wait_until_synced(self) -> None:
        for each in self.watched:
            await each.cache.wait_until_synced()
        self._update()

    def find_missing(self) -> list[str]:
        """Return why there is no configuration; nothing if there is one."""
        if self._loaded.is_set():
            return []
        unsynced = [each for each in self.watched if not each.cache.synced]
        if unsynced:
            return [f"ConfigMap {each.name} is not read: {each.cache.problem}" for each in unsynced]
        reason = self._find_refusal() or describe_findings(self.find_problems())
        return [f"no configuration: {reason}"]

    def find_problems(self) -> tuple[Finding, ...]:
        """Return why configurations are refused.

        The configuration in use may be missing for those who also watch the offered one.
        """
        last = self.watched[-1:]
        return tuple(
            finding
            for setting in self.watched
            if setting.reading.exists or setting in last
            for finding in setting.reading.findings
        )

    def _update(self) -> None:
        if not all(each.cache.synced for each in self.watched):
            return  # the first one may be missing so far
        for watched in self.watched:
            reading = watched.reading
            if reading.configuration is not None:
                self._use(reading.text, reading.configuration)
                break
        self._report(self._find_refusal())

    def _find_refusal(self) -> str:
        """Return what a copy says about a refused configuration."""
        return next(filter(None, (each.reading.refusal for each in self.watched)), "")

    def _use(self, text: str, configuration: Configuration) -> None:
        if self._loaded.is_set() and text == self.text:
            return
        digest = configuration_hash(text)
        metrics.CONFIGURATION_READS.add("success")
        metrics.CONFIGURATION_IN_USE.clear()
        metrics.CONFIGURATION_IN_USE.labels(digest).set(1)
        log_event(_LOG, logging.INFO, "configuration in use", hash=digest)
        self.current, self.text = configuration, text
        self._loaded.set()
        for listener in self._listeners:
            listener(configuration)

    def _report(self, refusal: str) -> None:
        """Report once why the offered configuration, or a copy, is not in use."""
        findings = self.find_problems()
        metrics.CONFIGURATION_GOOD.set(not (findings or refusal))
        if (findings, refusal) == self._reported:
            return
        self._reported = findings, refusal
        state = ", the last valid one stays in use" if self._loaded.is_set() else ""
        if findings:
            metrics.CONFIGURATION_READS.add("error")
        for finding in findings[:_MAX_LOGGED]:
            content = msgspec.to_builtins(finding)
            log_event(_LOG, logging.ERROR, f"configuration rejected{state}", finding=content)
        if refusal and not findings:
            log_event(_LOG, logging.WARNING, f"configuration rejected{state}", reason=refusal)
