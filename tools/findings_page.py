"""Generates docs/findings.md: all finding codes, by what a person does when they appear.

The page of the repository has the first sentence of each; the page of the site has all of the text.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from textwrap import fill
from typing import Final

from cli.code_tables import TABLES
from drawbridge.finding import Activity, Code, Severity, codes_by_activity

_HEAD: Final = """\
# Findings

Every warning, error and event of Drawbridge is a finding with one of these codes,
grouped by what you do when it appears. {says}
This page is generated from the tables in the code (`make docs`).
"""
_LIST_SAYS: Final = """\
Each message has its remedy on the next line.
`drawbridge help CODE` explains a code: all of its meaning, an example and the remedy.
Infos, which `-v` prints, and what is wrong with the text of a file are only named here."""
_PAGE_SAYS: Final = "`drawbridge help CODE` prints the same text."
_SENTENCE_END: Final = re.compile(r"(?<=\.)\s")
# Where a person sees the codes of an activity.
SHOWN_BY: Final = {
    Activity.READ: "any command that reads files",
    Activity.TRANSLATE: "`drawbridge translate`, and the webhook when it translates a pod",
    Activity.CREATE_PODS: "`kubectl apply`, in the warning or denial of the webhook",
    Activity.WRITE_CLAIMS: "`drawbridge check`, and the webhook when it judges a claim",
    Activity.EXPLAIN: "`drawbridge explain` and `drawbridge simulate`, events of pods",
    Activity.PLACE: "`drawbridge simulate` and `drawbridge audit`, events of pods",
    Activity.PUBLISH: "`drawbridge check`",
    Activity.CONFIGURE: "`drawbridge config`, and every process when it reads its configuration",
    Activity.OPERATE: "`drawbridge doctor` and `drawbridge config facts`, events of the controller",
}


def render_list() -> str:
    """Render the page of the repository: every code with the first sentence of its meaning."""
    lines = [_HEAD.format(says=_LIST_SAYS)]
    for activity, codes in codes_by_activity(TABLES).items():
        lines.append(f"## {activity}\n\nShown by {SHOWN_BY[activity]}.\n")
        for severity, group in groupby(sorted(codes, key=_severity), key=_severity):
            alike = tuple(group)
            is_named = severity == Severity.INFO or activity is Activity.READ
            text = _names(alike) if is_named else "\n".join(map(_sentence, alike))
            lines.append(f"### {severity.title()}: {activity.lower()}\n\n{text}\n")
    return "\n".join(lines)


def render_page() -> str:
    """Render the page of the site: an index, then every code with example and remedy."""
    groups = codes_by_activity(TABLES)
    lines = [_HEAD.format(says=_PAGE_SAYS), "## Index\n"]
    for activity, codes in groups.items():
        heading = f"- [{activity}](#{activity.lower().replace(' ', '-')}): {SHOWN_BY[activity]}."
        links = ", ".join(f"[{code.name}](#{code.name.lower()})" for code in codes)
        lines += [heading, fill(links, 118, initial_indent="  ", subsequent_indent="  ")]
    for activity, codes in groups.items():
        lines.append(f"\n## {activity}")
        for code in codes:
            lines.append(f"\n### {code.name}\n\n*{code.severity}*: {code.text}\n")
            lines.append(f"Example: {code.example}\n\nRemedy: {code.remedy}")
    return "\n".join(lines) + "\n"


def _severity(code: Code) -> str:
    return str(code.severity)


def _names(codes: Iterable[Code]) -> str:
    names = ", ".join(f"`{code.name}`" for code in codes)
    return fill(f"{names}.", 118, break_long_words=False)


def _sentence(code: Code) -> str:
    return f"- `{code.name}`: {_SENTENCE_END.split(code.text)[0]}"
