"""Moves a pod with claims of its own to the Drawbridge scheduler, in bridge placement.

A claim does not say which pools can satisfy it, and the claims of a pod are not read. The pod is
moved only if every driver of the cluster has owned pools, so that no claim needs another scheduler.
A driver that publishes nothing now, because it restarts, counts if its DeviceClass exists. A pod
with a name that only the default scheduler allocates stays with that scheduler.
"""

from collections.abc import Collection, Iterator
from typing import Final

from drawbridge.config.model import Configuration
from drawbridge.documents.paths import Path, get_value
from drawbridge.documents.values import Value
from drawbridge.facts.families import known_families
from drawbridge.facts.model import Facts
from drawbridge.finding import Finding
from drawbridge.names import OWNED_TAINT
from drawbridge.translate.changes.codes import CLAIMS_LEFT_TO_SCHEDULER, SCHEDULER_OURS
from drawbridge.translate.changes.patch import Patch
from drawbridge.translate.changes.scheduler import (
    OURS,
    SCHEDULER,
    is_default_scheduler,
    report_tolerated_fence,
    use_our_scheduler,
)
from drawbridge.translate.changes.tolerations import add_toleration

_CLAIMS: Final[Path] = ("spec", "resourceClaims")
_WHERE: Final = "spec.schedulerName"


def has_claims(pod: Value) -> bool:
    """Whether a pod refers to any claim or template."""
    claims = get_value(pod, _CLAIMS)
    return isinstance(claims, list) and bool(claims)


def move_pod(
    patch: Patch,
    facts: Facts | None,
    configuration: Configuration,
    unserved: Collection[Finding],
) -> Iterator[Finding]:
    """Set the scheduler and the toleration of a pod with claims; idempotent.

    `unserved` is about names that only the default scheduler allocates. Raises EditError if a field
    has the wrong type.
    """
    name = get_value(patch.pod, SCHEDULER)
    if name == OURS:
        if add_toleration(patch, OWNED_TAINT):
            yield SCHEDULER_OURS.at(
                "spec.tolerations", f"added a toleration for the taint {OWNED_TAINT}"
            )
        return
    moves = is_default_scheduler(name) and owns_all_drivers(facts, configuration)
    if moves and not unserved:
        yield use_our_scheduler(patch)
        return
    yield from report_tolerated_fence(patch.pod)
    if moves:
        yield from unserved
        return
    owned = {str(each.driver) for each in configuration.owned_pools}
    published = {each.name for each in facts.drivers} if facts else set()
    if is_default_scheduler(name) and not owned.isdisjoint(published):
        drivers = ", ".join(sorted(published & owned))
        yield CLAIMS_LEFT_TO_SCHEDULER.at(
            _WHERE,
            f"the pod has claims of its own and keeps the default scheduler, which cannot use the "
            f"owned pools of {drivers}",
        )


def owns_all_drivers(facts: Facts | None, configuration: Configuration) -> bool:
    """Whether pods with claims of their own move from the default scheduler."""
    owned = {str(each.driver) for each in configuration.owned_pools}
    return (
        facts is not None and bool(facts.drivers) and _find_installed(facts, configuration) <= owned
    )


def _find_installed(facts: Facts, configuration: Configuration) -> set[str]:
    """Return the drivers that publish devices, and the known drivers whose DeviceClass exists."""
    families = known_families(configuration)
    return {each.name for each in facts.drivers} | {
        driver
        for driver, family in families.items()
        if any(facts.find_class(name) for name in family.classes)
    }
