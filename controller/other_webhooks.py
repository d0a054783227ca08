"""Reports known webhooks of other projects that act on the pods that Drawbridge translates."""

from collections.abc import Callable, Iterable
from typing import Final

from controller.new_findings import NewFindings
from controller.protocols import Gauge, ObjectReference, Reporter, Unstructured
from drawbridge.agreement.other_webhooks import find_other_webhooks

NAME: Final = "others"


class OtherWebhookReconciler:
    """Reports the other webhooks when they change."""

    name = NAME

    def __init__(
        self,
        read_configurations: Callable[[], Iterable[Unstructured]],
        reporter: Reporter,
        own_configuration: ObjectReference,
    ) -> None:
        self._read_configurations = read_configurations
        self._reporter = reporter
        self._own_configuration = own_configuration
        self._new_findings = NewFindings(reporter, "CompareWebhooks")

    async def reconcile(self) -> None:
        """Compare the current webhook configurations with Drawbridge's own configuration."""
        findings = find_other_webhooks(self._read_configurations(), self._own_configuration.name)
        self._reporter.set_gauge(Gauge.OTHER_WEBHOOKS, len(findings))
        self._new_findings.report(dict.fromkeys(findings, self._own_configuration))
