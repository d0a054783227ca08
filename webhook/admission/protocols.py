"""What admission needs of the outside, as protocols; `serve` hands in what fulfils them.

Nothing here does anything. A handler waits for `Templates` alone; the rest is memory.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

from documents.values import Value
from dra.finding import Finding
from translate.changes.template import Template
from translate.pods import Given
from webhook.admission.limit_ranges import LimitRange
from webhook.admission.resource_quotas import ResourceQuota


class Ensured(enum.StrEnum):
    """How it stands with a template that a pod refers to."""

    MADE = "made"  # it was not there before
    THERE = "there"
    TAKEN = "taken"  # one of that name says something else
    LATER = "later"  # not now; the controller makes what a marked pod lacks


class Known(Protocol):
    """What is known of the cluster; everything is answered from memory, in microseconds."""

    def given(self) -> Given | None:
        """What decides translations: the same object until one of its parts changes.

        None while facts or configuration were never read.
        """

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """The labels of a namespace, the same object until they change; None while unknown."""

    def limits(self, namespace: str) -> Sequence[LimitRange]:
        """The LimitRanges of a namespace."""

    def quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        """The ResourceQuotas of a namespace."""

    def others(self) -> Sequence[Finding]:
        """What there is to say of other webhooks that touch the same pods."""

    def unsent(self) -> Sequence[Finding]:
        """Why pods may be made without our being asked, at this moment."""


class Templates(Protocol):
    """The templates that translated pods refer to. A Finding says why one cannot be had at all."""

    async def ensure(self, namespace: str, template: Template, seconds: float) -> Ensured | Finding:
        """See to it that the template is there, LATER after so many seconds.

        Never raises for errors of the world.
        """

    async def look(self, namespace: str, template: Template, seconds: float) -> Ensured | Finding:
        """Say what `ensure` would find, and create nothing; LATER where there is none yet."""


class StoreError(Exception):
    """The API server could not be asked, or said no; all a `Store` raises for that.

    `refused` is what it said where it would say the same again.
    """

    def __init__(self, message: str, refused: str = "") -> None:
        super().__init__(message)
        self.refused = refused


class Store(Protocol):
    """Templates as the API server keeps them."""

    def seen(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """What a watch last said of a template; None where it said nothing, or none is kept."""

    async def create(
        self, namespace: str, value: Mapping[str, Value], *, dry_run: bool = False
    ) -> Mapping[str, Value] | None:
        """Create it and return it as it is stored; None where one of that name is there."""

    async def read(self, namespace: str, name: str) -> Mapping[str, Value] | None:
        """Read it from the API server; None where there is none."""

    async def touch(self, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
        """Merge annotations into it; that it is gone is no error."""
