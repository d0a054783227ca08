"""What the administrator's words mean to those who act on them.

The other rooms do not know the Configuration; they are given findings and declarations.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from config.model import Configuration, Policy
from config.string_formats import FindingCode
from dra.compatibility import Declaration
from dra.finding import Finding, Severity

_SEVERITY: Final = {Policy.ENFORCE: Severity.ERROR, Policy.WARN: Severity.WARNING}


def apply_policies(
    findings: Iterable[Finding], policies: Mapping[FindingCode, Policy]
) -> Iterator[Finding]:
    """The findings as `policies` want them: of another severity, left out, or as they are."""
    for finding in findings:
        policy = policies.get(FindingCode(finding.code))
        if policy is None:
            yield finding
        elif policy is not Policy.OFF:
            yield msgspec.structs.replace(finding, severity=_SEVERITY[policy])


def compatibility_declarations(configuration: Configuration) -> tuple[Declaration, ...]:
    """What the Configuration declares of which devices go together, in its order."""
    return tuple(
        Declaration(
            driver=entry.driver,
            selector=entry.selector or "",
            physical_device=entry.physical_device or "",
            compatible_only_with=entry.compatible_only_with or "",
            groups=entry.groups,
        )
        for entry in configuration.compatibility
    )
