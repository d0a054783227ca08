"""Apply the Configuration: severities of findings, and what it declares of devices.

Lower packages do not read the Configuration. They receive findings and declarations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from drawbridge.config.label_selectors import selector_matches
from drawbridge.config.model import Configuration, Policy, Quota, QuotaAmounts, QuotaPer
from drawbridge.config.string_formats import FindingCode, ObjectName
from drawbridge.dra.compatibility import Declaration
from drawbridge.dra.device_quotas import Charge, DeviceQuota, QuotaKey
from drawbridge.dra.partitions import PartitionTable
from drawbridge.finding import Finding, Severity
from drawbridge.names import PARTITION_ATTRIBUTE

_SEVERITY: Final = {Policy.ENFORCE: Severity.ERROR, Policy.WARN: Severity.WARNING}


def apply_policies(
    findings: Iterable[Finding], policies: Mapping[FindingCode, Policy]
) -> Iterator[Finding]:
    """Yield findings with the configured severity, and omit those that are `off`."""
    for finding in findings:
        policy = policies.get(FindingCode(finding.code))
        if policy is None:
            yield finding
        elif policy is not Policy.OFF:
            yield msgspec.structs.replace(finding, severity=_SEVERITY[policy])


def settle_error(finding: Finding, doubt: str, classes: Iterable[str]) -> Finding:
    """Return an error about the devices of classes: a warning that says why if there is a doubt."""
    if doubt:
        message = f"{finding.message} (not refused, because {doubt})"
        return msgspec.structs.replace(finding, severity=Severity.WARNING, message=message)
    remedy = f"{finding.remedy} {_name_setting(classes)}".strip()
    return msgspec.structs.replace(finding, remedy=remedy)


def _name_setting(classes: Iterable[str]) -> str:
    names = ", ".join(sorted(classes))
    return (
        f"If other devices will be added, declare them in `fleet` of the configuration (class "
        f"{names}: closed: false, or expectedShapes)."
        if names
        else ""
    )


def apply_to_proved(finding: Finding, policies: Mapping[FindingCode, Policy]) -> Iterator[Finding]:
    """Apply the policies to a settled error: `enforce` cannot prove anything."""
    if policies.get(FindingCode(finding.code)) is Policy.ENFORCE:
        yield finding
    else:
        yield from apply_policies((finding,), policies)


def partition_tables(configuration: Configuration) -> tuple[PartitionTable, ...]:
    """Return the partitions of the Configuration in their order."""
    return tuple(
        PartitionTable(
            driver=entry.driver,
            number=entry.attribute,
            name=entry.name or PARTITION_ATTRIBUTE,
            partitions=entry.partitions,
            selector=entry.selector or "",
        )
        for entry in configuration.partitions
    )


def compatibility_declarations(configuration: Configuration) -> tuple[Declaration, ...]:
    """Return the compatibility declarations of the Configuration in their order."""
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


def device_quotas(configuration: Configuration) -> tuple[DeviceQuota, ...]:
    """Return the quotas of the Configuration in their order."""
    return tuple(
        DeviceQuota(
            name=entry.name,
            selects=_selection(entry),
            single=_limits(entry.single),
            total=_limits(entry.total),
            together=entry.per is QuotaPer.SELECTION,
            by_labels=not entry.namespaces and entry.namespace_selector is not None,
        )
        for entry in configuration.quotas
    )


def _limits(by_class: Mapping[ObjectName, QuotaAmounts]) -> Charge:
    return {
        QuotaKey(f"{name}", f"{amount}"): most
        for name, amounts in by_class.items()
        for amount, most in amounts.items()
    }


def _selection(entry: Quota) -> Callable[[str, Mapping[str, str]], bool]:
    names = frozenset(map(str, entry.namespaces))
    selector = entry.namespace_selector

    def selects(namespace: str, labels: Mapping[str, str]) -> bool:
        if names:
            return namespace in names
        return selector is None or selector_matches(selector, labels)

    return selects
