"""Summarize the claims of a template: a description, and their quota charges.

Summaries are cached by the template name, which is a hash of the content.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec

from documents.paths import get_value
from dra.claim import Template, read_template, template_reader
from dra.quota import quota_charges
from facts.model import Facts
from report.claim_requests import summarize_claim
from translate.changes.template import ClaimTemplate

_MAX_ENTRIES: Final = 4096


class ClaimSummary(msgspec.Struct, frozen=True):
    """The description and the quota charges of a claim."""

    description: str = ""
    charges: Mapping[str, int] = {}


class ClaimSummaries:
    """A bounded cache of summaries. It is cleared when the facts change."""

    def __init__(self) -> None:
        self._summaries: OrderedDict[str, ClaimSummary] = OrderedDict()
        self._facts: Facts | None = None
        self._classes: Mapping[str, str] = {}
        self._reader = template_reader()

    def summarize(self, template: ClaimTemplate, facts: Facts | None) -> ClaimSummary:
        """Return the summary of a template."""
        if facts is not self._facts:
            self._summaries.clear()
            self._facts, self._classes = facts, _charged_classes(facts)
        summary = self._summaries.get(template.name)
        if summary is None:
            summary = self._summaries[template.name] = self._read(template)
            if len(self._summaries) > _MAX_ENTRIES:
                self._summaries.popitem(last=False)
        return summary

    def _read(self, template: ClaimTemplate) -> ClaimSummary:
        read = read_template(template.object, self._reader)
        if not isinstance(read, Template):
            return ClaimSummary(template.name)
        description = summarize_claim(get_value(template.object, ("spec",)))
        return ClaimSummary(description, quota_charges(read.spec.spec, self._classes))


def _charged_classes(facts: Facts | None) -> Mapping[str, str]:
    """Map the classes that are charged as extended resources to the resource name."""
    if facts is None or not facts.cluster.classes_serve_names:
        return {}
    names = {each.name: "" for each in facts.classes}
    return names | {each.classes[0]: each.name for each in facts.names if each.classes}
