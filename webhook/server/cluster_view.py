"""A view of the cluster for admission: watched objects, answered from memory.

Fulfils `webhook.admission.protocols.Known`. An unreadable object does not replace the last good
one.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from cluster.cache import Cache, Kept
from cluster.resources import (
    CONFIG_MAPS,
    LIMIT_RANGES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    RESOURCE_QUOTAS,
    TEMPLATES,
)
from cluster.session import Session
from config.model import Configuration
from dra.finding import Finding
from dra.names import FACTS_CONFIG_MAP, TRANSLATE_LABEL, WEBHOOK_CONFIGURATION
from registration import match_conditions, published_facts
from registration.other_webhooks import others
from runtime import metrics
from runtime.logs import say
from translate.pods import Given, given
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.resource_quotas import ResourceQuota

_LOG: Final = logging.getLogger("webhook.server.cluster_view")
OURS: Final = "app.kubernetes.io/managed-by=drawbridge"
_NO_LABELS: Final[Mapping[str, str]] = {}


class _Labelled(msgspec.Struct, frozen=True):
    labels: Mapping[str, str] | None = None


class Namespace(msgspec.Struct, frozen=True):
    """A Namespace, as far as it is looked at."""

    metadata: _Labelled = _Labelled()


class Anything(msgspec.Struct, frozen=True):
    """An object that is kept as it is."""


class Known:
    """The caches, and what follows from them."""

    def __init__(self, session: Session, namespace: str, configuration: Configuration) -> None:
        self.namespaces = Cache(session, NAMESPACES, Namespace)
        self.ranges = Cache(session, LIMIT_RANGES, LimitRange)
        self.hard = Cache(session, RESOURCE_QUOTAS, ResourceQuota)
        self.webhooks = Cache(session, MUTATING_WEBHOOKS, Anything)
        self.templates = Cache(session, TEMPLATES, Anything, labels=OURS)
        self.facts = Cache(
            session,
            CONFIG_MAPS,
            published_facts.Published,
            namespace=namespace,
            fields=f"metadata.name={FACTS_CONFIG_MAP}",
        )
        self._where = f"{namespace}/{FACTS_CONFIG_MAP}"
        self._configuration = configuration
        self._given: Given | None = None
        self._complete = False
        self._limits: dict[str, tuple[LimitRange, ...]] = {}
        self._quotas: dict[str, tuple[ResourceQuota, ...]] = {}
        self._others: tuple[Finding, ...] | None = None
        self._unsent: tuple[Finding, ...] | None = None
        self.facts.subscribe(self._facts_changed)
        self.namespaces.subscribe(self._namespace_changed)
        self.ranges.subscribe(lambda *both: _forget(self._limits, *both))
        self.hard.subscribe(lambda *both: _forget(self._quotas, *both))
        self.webhooks.subscribe(self._webhooks_changed)

    @property
    def caches(self) -> tuple[Cache[Any], ...]:
        """Every cache; each has to be run."""
        needed = (self.namespaces, self.ranges, self.hard, self.webhooks, self.facts)
        return (*needed, self.templates)

    def named(self) -> Iterator[tuple[str, Cache[Any]]]:
        """Every cache with the name that metrics give it."""
        return ((cache.resource.plural, cache) for cache in self.caches)

    def missing(self) -> list[str]:
        """Say what is not known yet; without that no answer would be right."""
        if self._complete:  # what was read once is kept in step, and asked for in every request
            return []
        # Templates are not needed: what the watch does not tell is asked for one by one.
        waiting = (each for each in self.caches[:-1] if not each.synced)
        found = [f"{each.resource.plural} are not read yet: {each.trouble}" for each in waiting]
        if self._given is None:
            found.append(f"no facts: the controller has not published ConfigMap {self._where} yet")
        self._complete = not found
        return found

    def configure(self, configuration: Configuration) -> None:
        """Take another configuration from now on."""
        self._configuration, self._unsent = configuration, None
        if self._given is not None:
            self._given = given(configuration, self._given.facts)

    def given(self) -> Given | None:
        """What decides translations; None until facts were read once."""
        return self._given

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace; None while unknown.

        So is one without the label, where only those with it are sent to us and our news of
        namespaces may be old: somebody has labelled it since, and counts on its pods being
        translated.
        """
        kept = self.namespaces.get(name)
        if kept is None:
            return None
        labels = kept.value.metadata.labels or _NO_LABELS
        if TRANSLATE_LABEL not in labels and not self.namespaces.fresh and self._labelled():
            return None
        return labels

    def _labelled(self) -> bool:
        return match_conditions.labelled(self._live())

    def _live(self) -> Any:  # noqa: ANN401  # JSON
        """Our webhook configuration as it is."""
        kept = self.webhooks.get(WEBHOOK_CONFIGURATION)
        return None if kept is None else msgspec.json.decode(kept.raw)

    def limits(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace."""
        found = self._limits.get(namespace)
        if found is None:
            found = tuple(kept.value for kept in self.ranges.all(namespace))
            self._limits[namespace] = found
        return found

    def quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """The ResourceQuotas of a namespace."""
        found = self._quotas.get(namespace)
        if found is None:
            found = tuple(kept.value for kept in self.hard.all(namespace))
            self._quotas[namespace] = found
        return found

    def others(self) -> Sequence[Finding]:
        """What there is to say of other webhooks that touch the same pods."""
        if self._others is None:
            read = (msgspec.json.decode(kept.raw) for kept in self.webhooks.all())
            self._others = tuple(others(read))
        return self._others

    def unsent(self) -> Sequence[Finding]:
        """Why pods may be made without our being asked, at this moment."""
        if self._unsent is None:
            self._unsent = match_conditions.inactive(self._live(), self._configuration)
        return self._unsent

    def _facts_changed(
        self,
        _before: Kept[published_facts.Published] | None,
        after: Kept[published_facts.Published] | None,
    ) -> None:
        if after is None:
            say(_LOG, logging.WARNING, "facts are gone, the last ones go on", of=self._where)
            return
        try:
            digest = published_facts.current(after.value)
            if self._given is not None and digest == self._given.digest:
                return
            found = published_facts.facts(after.value)
        except published_facts.UnpublishedError as error:
            metrics.FACTS_READS.labels("error").inc()
            text = "facts cannot be read, the last ones go on"
            say(_LOG, logging.ERROR, text, of=self._where, reason=str(error))
            return
        metrics.FACTS_READS.labels("success").inc()
        say(_LOG, logging.INFO, "facts in use", hash=digest)
        self._given = given(self._configuration, found)

    def _namespace_changed(
        self, before: Kept[Namespace] | None, after: Kept[Namespace] | None
    ) -> None:
        """Forget what was remembered of a namespace that is gone, though it never had any."""
        if before is not None and after is None:
            self._limits.pop(before.name, None)
            self._quotas.pop(before.name, None)

    def _webhooks_changed(self, *_: object) -> None:
        self._others = self._unsent = None


def _forget(remembered: dict[str, Any], before: Kept[Any] | None, after: Kept[Any] | None) -> None:
    """Forget what followed from an object of a namespace that changed."""
    for kept in (before, after):
        if kept is not None:
            remembered.pop(kept.namespace, None)
