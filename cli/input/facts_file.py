"""Reads a file of facts, as `drawbridge config facts` writes it.

A module of its own, because counting facts imports the CEL engine, which takes longer to load than
a translation takes to run.
"""

import argparse
from collections.abc import Collection

from cli.input.files import read_sources
from cli.terminal.streams import Streams
from drawbridge.documents.document import Document, LocatedFinding, Source
from drawbridge.documents.read import read_documents
from drawbridge.dra import gates
from drawbridge.facts import serialized
from drawbridge.facts.model import Facts, observe_gates


def read_facts(
    name: str, streams: Streams, base: Facts | None = None
) -> Facts | tuple[LocatedFinding, ...]:
    """Read facts from a file; take tables that it lacks from `base`."""
    documents: list[Document] = []
    for source in read_sources([name], streams.stdin):
        if not isinstance(source, Source):
            return (source,)
        documents += [each for each in read_documents(source) if not each.empty]
    if unread := tuple(located for each in documents for located in each.findings):
        return unread
    value = documents[0].value if len(documents) == 1 else None
    facts = serialized.read_facts(value, base)
    if isinstance(facts, Facts):
        return facts
    if len(documents) != 1:
        return tuple(LocatedFinding(each, name, 0, 0) for each in facts)
    return tuple(documents[0].locate_finding(each) for each in facts)


def choose_gates(
    options: argparse.Namespace,
    version: str,
    *,
    keeps: Collection[str] | None = None,
    serves_taint_rules: bool = False,
) -> gates.Gates | tuple[LocatedFinding, ...]:
    """Return the gates of the options, by default those of `version`; or findings about them.

    `keeps` are the optional fields of claims that a live API server stores, where that is known.
    """
    enabled = gates.read_gates(
        options.kubernetes_version or version,
        options.feature_gates,
        serves_taint_rules=serves_taint_rules,
    )
    if not isinstance(enabled, gates.Gates):
        return tuple(LocatedFinding(each) for each in enabled)
    return enabled if keeps is None else observe_gates(enabled, keeps)
