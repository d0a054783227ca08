"""Protocols for what the reviews of the judge need. `webhook.server` implements them."""

from collections.abc import Mapping
from typing import Protocol

from drawbridge.config.model import Configuration
from drawbridge.finding import Finding
from drawbridge.process.review import AdmissionRequest
from webhook.admission.protocols import NamespaceView


class JudgeBusyError(Exception):
    """Too many judgements wait, so that this one is not made."""


class Judge(Protocol):
    """Judges the objects of reviews, beside the event loop."""

    async def judge(
        self, request: AdmissionRequest, labels: Mapping[str, str], seconds: float
    ) -> tuple[Finding, ...]:
        """Return the findings about an object in a namespace with these labels.

        Raise TimeoutError after the given time, or JudgeBusyError.
        """


class JudgeView(NamespaceView, Protocol):
    """The namespaces and the configuration, from memory."""

    def configuration(self) -> Configuration:
        """Return the configuration: the same object until it changes."""
