"""Reports known webhooks of other projects that act on the pods that Drawbridge translates."""

from collections.abc import Callable, Iterable
from typing import Final

from controller.protocols import Gauge, ObjectReference, Reporter, Unstructured
from drawbridge.agreement.other_webhooks import find_other_webhooks
from drawbridge.finding import Finding

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
        self._reported: tuple[Finding, ...] = ()

    async def reconcile(self) -> None:
        """Compare the current webhook configurations with Drawbridge's own configuration."""
        findings = find_other_webhooks(self._read_configurations(), self._own_configuration.name)
        self._reporter.set_gauge(Gauge.OTHER_WEBHOOKS, len(findings))
        for finding in findings:
            if finding not in self._reported:
                self._reporter.report(finding, self._own_configuration, "CompareWebhooks")
        self._reported = findings
