"""Summarize the claims of a template: a description, quota charges, and whether they can work.

Summaries are cached by the template name, which is a hash of the content.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from drawbridge.bounded_cache import BoundedCache
from drawbridge.config.model import Configuration
from drawbridge.config.policy import device_quotas
from drawbridge.documents.paths import get_value
from drawbridge.dra.claim import Template, read_template, template_reader
from drawbridge.dra.device_quotas import Charge, charge_choices, least_charge, limited_amounts
from drawbridge.dra.quota import quota_charges
from drawbridge.facts.families import known_families
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.report.claim_requests import summarize_claim
from drawbridge.translate.changes.template import ClaimTemplate
from drawbridge.translate.context import TranslationContext, make_context
from drawbridge.translate.targets.by_facts import FactsContext, judge_by_facts

_MAX_ENTRIES: Final = 4096
_Inputs = tuple[Facts | None, Configuration | None, Sequence[Facts] | None]


class ClaimSummary(msgspec.Struct, frozen=True):
    """The description and the quota charges of a claim, and findings by the facts about it.

    `least` is what it is charged at least to the device quotas of the configuration.
    """

    description: str = ""
    charges: Mapping[str, int] = {}
    least: Charge = {}
    findings: tuple[Finding, ...] = ()


class _Summarizing(NamedTuple):
    """The summaries by the same facts and configuration, and what both say about all claims."""

    facts: Facts | None
    configuration: Configuration
    classes: Mapping[str, str]
    limited: Mapping[str, Sequence[str]]
    judging: FactsContext | None
    summaries: BoundedCache[str, ClaimSummary]


class ClaimSummaries:
    """A bounded cache of summaries, a new one when facts or configuration change.

    `find_older` returns the facts that were current a short time ago.
    """

    def __init__(self, find_older: Callable[[], Sequence[Facts]] = tuple) -> None:
        self._find_older = find_older
        # A review may be interrupted: what belongs together is assigned at once.
        self._current: _Summarizing | None = None
        self._reader = template_reader()
        self._older: tuple[_Inputs, tuple[TranslationContext, ...]] = ((None, None, None), ())

    def summarize(self, template: ClaimTemplate, context: TranslationContext) -> ClaimSummary:
        """Return the summary of a template."""
        facts, configuration = context.facts, context.configuration
        current = self._current
        if (
            current is None
            or current.facts is not facts
            or current.configuration is not configuration
        ):
            current = self._current = _Summarizing(
                facts,
                configuration,
                {} if facts is None else facts.names_of_classes(),
                limited_amounts(device_quotas(configuration)),
                None if facts is None else self._make_context(facts, configuration),
                BoundedCache(_MAX_ENTRIES),
            )
        summary = current.summaries.get(template.name)
        if summary is None:
            summary = self._summarize(template, current)
            current.summaries.put(template.name, summary)
        return summary

    def list_contexts(self, context: TranslationContext) -> Iterator[TranslationContext]:
        """Yield the context, then those of earlier facts in which nodes offered other devices."""
        yield context
        facts, configuration, kept = context.facts, context.configuration, self._find_older()
        inputs = (facts, configuration, kept)
        previous = self._older[0]
        if any(new is not old for new, old in zip(inputs, previous, strict=True)):
            others = () if facts is None else (f for f in kept if f.offers != facts.offers)
            self._older = (
                inputs,
                tuple(make_context(configuration, each, caches_pods=False) for each in others),
            )
        yield from self._older[1]

    def _summarize(self, template: ClaimTemplate, current: _Summarizing) -> ClaimSummary:
        read = read_template(template.object, self._reader)
        if not isinstance(read, Template):
            return ClaimSummary(template.name)
        description = summarize_claim(get_value(template.object, ("spec",)))
        spec = read.spec.spec
        judging = current.judging
        if judging is not None:
            judging = replace(judging, expressions=template.expressions)
        findings = () if judging is None else judge_by_facts(spec, judging)
        least = least_charge(charge_choices(spec, current.limited))
        return ClaimSummary(description, quota_charges(spec, current.classes), least, findings)

    def _make_context(self, facts: Facts, configuration: Configuration) -> FactsContext:
        return FactsContext(
            facts,
            older=tuple(each for each in self._find_older() if each != facts),
            families=known_families(configuration),
            policies=configuration.findings,
        )
