"""Reports requirements of the input that an allocator does not enforce.

The stock scheduler reads neither the rules of claims nor compatibility declarations. Drawbridge's
allocator enforces both.
"""

from collections.abc import Iterable, Iterator, Mapping

from drawbridge.dra.claim import CLAIM, TEMPLATE, Claim, Template
from drawbridge.dra.compatibility import UnsetGroups, read_declarations
from drawbridge.dra.rules import PATH, find_rules
from drawbridge.dra.slices import Slice
from drawbridge.dra.validation import format_object_name
from drawbridge.finding import Finding
from drawbridge.ledger import codes
from drawbridge.ledger.ledger import name_of
from drawbridge.ledger.pods import Pod
from drawbridge.solver.deviations import Allocator
from drawbridge.solver.world import World

_NOBODY = "kube-scheduler does not enforce"


def unenforced_rules(
    pods: Iterable[Pod], claims: Iterable[Claim], templates: Iterable[Template], by: Allocator
) -> Iterator[Finding]:
    """Report the required rules of the claims and templates that pods refer to, once each."""
    if by is not Allocator.UPSTREAM:
        return
    entries = [(pod.namespace, each) for pod in pods for each in pod.spec.resource_claims]
    claim_names = {f"{space}/{each.resource_claim_name}" for space, each in entries}
    template_names = {f"{space}/{each.resource_claim_template_name}" for space, each in entries}
    named = [each for each in claims if name_of(each) in claim_names]
    yield from unenforced_claim_rules(named, by)
    for template in templates:
        if name_of(template) in template_names:
            path = f"spec.{PATH}"
            name = format_object_name(TEMPLATE, template.metadata)
            yield from _report(template.spec.metadata.annotations, path, name)


def unenforced_claim_rules(claims: Iterable[Claim], by: Allocator) -> Iterator[Finding]:
    """Report the required rules of claims that have no devices yet."""
    for claim in claims if by is Allocator.UPSTREAM else ():
        if claim.status.allocation is None:
            name = format_object_name(CLAIM, claim.metadata)
            yield from _report(claim.metadata.annotations, PATH, name)


def _report(annotations: Mapping[str, str], path: str, name: str) -> Iterator[Finding]:
    rules = find_rules(annotations)
    if isinstance(rules, tuple):
        reason = f"{_NOBODY} the rules, which cannot be read: {rules[0].message}"
        yield codes.RULES_NOT_ENFORCED.at(path, reason, object=name)
        return
    required = [f"joint[{i}]" for i, each in enumerate(rules.joint) if each.required]
    required += [f"near[{i}]" for i, each in enumerate(rules.near) if each.required]
    required += [f"distinct[{i}]" for i in range(len(rules.distinct))]
    if required:
        message = f"{_NOBODY} {', '.join(required)}"
        yield codes.RULES_NOT_ENFORCED.at(path, message, object=name)


def unenforced_compatibility(world: World, by: Allocator) -> Iterator[Finding]:
    """Report the compatibility declarations that the stock scheduler does not read."""
    if by is not Allocator.UPSTREAM:
        return
    counts: dict[str, list[str]] = {}
    for slice_ in world.inventory.slices:
        if _declares(slice_):
            counts.setdefault(slice_.driver, []).append(slice_.name)
    for driver, names in sorted(counts.items()):
        slices = "1 ResourceSlice" if len(names) == 1 else f"{len(names)} ResourceSlices"
        message = f"{_NOBODY} the compatibility rules of {slices} of {driver}"
        yield codes.COMPATIBILITY_NOT_ENFORCED.at("", message, object=f"ResourceSlice/{names[0]}")
    if world.compatibility:
        message = f"{_NOBODY} the compatibility rules of the configuration"
        yield codes.COMPATIBILITY_NOT_ENFORCED.at("compatibility", message)
    if world.unset_groups is not UnsetGroups.ALONE:
        message = f"{_NOBODY} unsetGroups {world.unset_groups}"
        yield codes.COMPATIBILITY_NOT_ENFORCED.at("unsetGroups", message)


def _declares(resource_slice: Slice) -> bool:
    has_field = any(device.compatible_only_with is not None for device in resource_slice.devices)
    return has_field or bool(read_declarations(resource_slice)[0])
