"""Device taints, tolerations, and DeviceTaintRules.

Follows the Kubernetes code where it differs from the documentation: an empty key matches every key
even without operator `Exists`. Eviction is not covered.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from drawbridge.dra import codes
from drawbridge.dra.decode import Object, Reader
from drawbridge.dra.device import Device, Int64, Taint
from drawbridge.finding import Finding
from drawbridge.names import SELECTS_ALL_ANNOTATION

KIND = "DeviceTaintRule"
EXCLUDING = ("NoSchedule", "NoExecute")
# The taint of a cordoned node, whether or not it has it already; some pods tolerate it.
UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


class Toleration(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A toleration of a request."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class TaintSelector(msgspec.Struct, frozen=True, rename="camel"):
    """The devices that a rule applies to. All fields that are set must match.

    The last two fields are only read to warn about them: alpha API versions up to 1.34 have them,
    and newer API servers drop them.
    """

    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: tuple[Any, ...] = ()


class DeviceTaintRule(msgspec.Struct, frozen=True):
    """A taint that the administrator adds to devices, in addition to those of the driver.

    Without a selector a rule taints no device, and with an empty one every device. `says_all` tells
    whether an annotation says that the latter is meant.
    """

    name: str
    taint: Taint
    selector: TaintSelector | None = None
    says_all: bool = False

    @property
    def selects_all(self) -> bool:
        """Whether the rule taints every device of every driver."""
        return self.selector is not None and not any(
            (self.selector.driver, self.selector.pool, self.selector.device)
        )


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    taint: Taint
    device_selector: TaintSelector | None = None


class _Rule(Object, frozen=True, rename="camel", kw_only=True):
    spec: _Spec


def taint_rule_reader() -> Reader[DeviceTaintRule]:
    """Return a reader of DeviceTaintRules. The format is the same in all versions."""
    versions = ("v1", "v1beta2", "v1alpha3")
    shapes: dict[str, type[Object]] = {f"resource.k8s.io/{v}": _Rule for v in versions}
    return Reader(KIND, shapes, _convert)


def _convert(wire: _Rule) -> DeviceTaintRule:
    metadata, spec = wire.metadata, wire.spec
    says_all = metadata.annotations.get(SELECTS_ALL_ANNOTATION) == "true"
    return DeviceTaintRule(metadata.name, spec.taint, spec.device_selector, says_all)


def find_ignored_fields(rule: DeviceTaintRule) -> tuple[Finding, ...]:
    """Return a warning for each field that narrows a rule and is not supported."""
    selector = rule.selector or TaintSelector()
    dropped = {"deviceClassName": selector.device_class_name, "selectors": selector.selectors}
    return tuple(
        codes.TAINT_RULE_NARROWED.at(
            f"spec.deviceSelector.{field}",
            f"{field} is ignored: the rule taints all devices that match driver, pool and device",
            object=f"{KIND}/{rule.name}",
        )
        for field, value in dropped.items()
        if value
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether `toleration` matches `taint`. Empty effect and key match any."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def first_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first of the taints that excludes and that these tolerations do not match."""
    for taint in taints:
        if taint.effect in EXCLUDING and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


def may_apply(rule: DeviceTaintRule, driver: str, pool: str) -> bool:
    """Tell whether `rule` can apply to a device of this driver and pool."""
    if rule.selector is None:
        return False
    return rule.selector.driver in (None, driver) and rule.selector.pool in (None, pool)


def with_taints(
    devices: tuple[Device, ...], rules: Sequence[DeviceTaintRule]
) -> tuple[Device, ...]:
    """Add the taints of rules that match driver and pool of the devices, in order."""
    result = []
    for device in devices:
        added = tuple(
            rule.taint
            for rule in rules
            if rule.selector is not None and rule.selector.device in (None, device.name)
        )
        result.append(
            msgspec.structs.replace(device, taints=device.taints + added) if added else device
        )
    return tuple(result)
