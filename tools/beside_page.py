"""Renders docs/beside.md: fills the tables of verdicts into the page."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from drawbridge.agreement.verdicts import (
    CLUSTER_AUTOSCALER,
    KAI,
    KARPENTER,
    KUEUE,
    VOLCANO,
    Form,
    NeighbourVerdict,
    Version,
    find_verdicts,
)

PAGE: Final = Path(__file__).parent / "beside.md"
_PLACE: Final = re.compile(r"\{\{forms (\w+)\}\}")


class Column(NamedTuple):
    """A product at a version."""

    product: str
    version: Version

    @property
    def title(self) -> str:
        """The head of the column."""
        return f"{self.product} {'.'.join(map(str, self.version))}"

    @property
    def verdicts(self) -> Mapping[Form, NeighbourVerdict]:
        """The verdicts by form."""
        return {each.form: each for each in find_verdicts(self.product, self.version)}


_TABLES: Final[Mapping[str, Sequence[Column]]] = {
    "autoscalers": (
        Column(CLUSTER_AUTOSCALER, (1, 36)),
        Column(KARPENTER, (1, 15)),
        Column(KARPENTER, (1, 14)),
    ),
    "queues": (
        Column(KUEUE, (0, 19)),
        Column(VOLCANO, (1, 16)),
        Column(KAI, (0, 13)),
    ),
}


def render_page() -> str:
    """Render the page."""
    return _PLACE.sub(lambda place: render_forms(_TABLES[place[1]]), PAGE.read_text("utf-8"))


def render_forms(columns: Sequence[Column]) -> str:
    """Render a table with a row for each form that somebody looked at."""
    verdicts = [each.verdicts for each in columns]
    rows = [
        [form.value, *(_describe(each.get(form)) for each in verdicts)]
        for form in Form
        if any(form in each for each in verdicts)
    ]
    head = ["", *(each.title for each in columns)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("|  |", "| |")


def _describe(verdict: NeighbourVerdict | None) -> str:
    if verdict is None:
        return ""
    gate = f", with `{verdict.gate}`" if verdict.gate else ""
    return f"{verdict.answer}{gate}{'' if verdict.asked else ' (read)'}"
