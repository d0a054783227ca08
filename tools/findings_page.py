"""Generates docs/findings.md: all finding codes, by what a person does when they appear."""

from textwrap import fill
from typing import Final

from cli.code_tables import TABLES
from drawbridge.finding import Activity, codes_by_activity, list_former_names

HEAD: Final = """\
# Findings

Every warning, error and event of Drawbridge is a finding with one of these codes,
grouped by what you do when it appears. `drawbridge help CODE` prints the same text.
This page is generated from the tables in the code (`make docs`).

## Index
"""
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


def render_page() -> str:
    """Render the page: an index, then every code with its meaning, an example and the remedy."""
    groups = codes_by_activity(TABLES)
    lines = [HEAD]
    for activity, codes in groups.items():
        heading = f"- [{activity}](#{activity.lower().replace(' ', '-')}): {SHOWN_BY[activity]}."
        links = ", ".join(f"[{code.name}](#{code.name.lower()})" for code in codes)
        lines += [heading, fill(links, 118, initial_indent="  ", subsequent_indent="  ")]
    for activity, codes in groups.items():
        lines.append(f"\n## {activity}")
        for code in codes:
            former = "".join(f" Former name: {name}." for name in list_former_names(code.name))
            lines.append(f"\n### {code.name}\n\n*{code.severity}*: {code.text}{former}\n")
            lines.append(f"Example: {code.example}\n\nRemedy: {code.remedy}")
    return "\n".join(lines) + "\n"
