"""Accept a Configuration, or return all of its errors.

In addition to its structure, the values must be consistent, have an effect, and name codes of
findings, and the expressions must compile.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from drawbridge.config import codes, string_formats
from drawbridge.config.load import OBJECT, decode_fields
from drawbridge.config.model import (
    Compatibility,
    Configuration,
    LabelSelector,
    NodeFence,
    Operator,
    Placement,
    Quota,
    QuotaAmounts,
)
from drawbridge.config.partitions import check_partitions
from drawbridge.config.shadowed import check_shadowed
from drawbridge.config.strategy import Strategy
from drawbridge.config.target import ATTRIBUTE_WORDS, CAPACITY_WORDS, Target
from drawbridge.dra.codes import WRONG_VALUE
from drawbridge.dra.decode_errors import Hook, describe_choice, last_path_element
from drawbridge.dra.device_quotas import DEVICES
from drawbridge.dra.gates import NEWEST
from drawbridge.dra.rules import weights_problem
from drawbridge.dra.similar_names import suggest
from drawbridge.finding import Code, Finding

# What people write for the amount that counts devices.
_LIKE_DEVICES = ("device", "devices")


def accept_configuration(
    value: object, known_codes: Collection[str]
) -> Configuration | tuple[Finding, ...]:
    """Return the Configuration, or all findings. `known_codes` are those that it may name."""
    decoded = decode_fields(value, _reader(known_codes))
    if not isinstance(value, Mapping):
        return decoded.findings
    findings = [*decoded.findings, *_check_consistency(decoded.configuration)]
    if {"placement", "ownedPools"}.isdisjoint(decoded.wrong):
        findings += _check_owned_pools(decoded.configuration)
    return tuple(findings) or decoded.configuration


def _reader(known_codes: Collection[str]) -> Hook:
    """Return a hook that reads strings of a format and accepts only these finding codes."""

    def read(kind: type, value: object) -> object:
        is_code = kind is string_formats.FindingCode
        if is_code and isinstance(value, str) and value not in known_codes:
            raise ValueError(f"no finding has this code{suggest(value, known_codes)}")
        return string_formats.read_text(kind, value)

    return read


def _check_consistency(configuration: Configuration) -> Iterator[Finding]:
    """Yield findings for values that are valid but inconsistent with each other."""
    yield from _check_selector(configuration.scope.namespace_selector, "scope.namespaceSelector")
    yield from _check_selector(configuration.bridge.namespace_selector, "bridge.namespaceSelector")
    yield from _check_quotas(configuration.quotas)
    yield from _check_weights(configuration.strategy)
    for i, target in enumerate(configuration.targets):
        yield from _check_target(target, f"targets[{i}]")
    yield from _check_names(configuration)
    yield from _check_legacy(configuration)
    for i, pool in enumerate(configuration.owned_pools):
        yield from _check_selector(pool.node_selector, f"ownedPools[{i}].nodeSelector")
    for i, entry in enumerate(configuration.compatibility):
        yield from _check_compatibility(entry, f"compatibility[{i}]")
    yield from _check_partitions(configuration)
    yield from check_shadowed(configuration, OBJECT)


def _check_owned_pools(configuration: Configuration) -> Iterator[Finding]:
    pools = configuration.owned_pools
    # With native placement they stay without effect, so that one field turns bridge placement off:
    # helm keeps values that an upgrade does not set.
    if configuration.placement is Placement.BRIDGE and not pools:
        message = "placement bridge needs at least one entry"
        yield codes.OWNED_POOLS_MISSING.at("ownedPools", message, object=OBJECT)
    for i, pool in enumerate(pools):
        if pool.unfenced and pool.fence is NodeFence.RULES:
            message = "fence: rules has no effect with unfenced: true; remove one of them"
            yield WRONG_VALUE.at(f"ownedPools[{i}].fence", message, object=OBJECT)
        for j, other in enumerate(pools[:i]):
            same = other.node_selector == pool.node_selector
            if same and other.unfenced != pool.unfenced:
                text = "true" if other.unfenced else "false"
                yield codes.OWNED_POOLS_DISAGREE.at(
                    f"ownedPools[{i}].unfenced",
                    f"ownedPools[{j}] selects the same nodes with unfenced: {text}",
                    object=OBJECT,
                )
                break


def _check_partitions(configuration: Configuration) -> Iterator[Finding]:
    for i, entry in enumerate(configuration.partitions):
        if entry.selector is not None:
            yield from _check_expression(entry.selector, f"partitions[{i}].selector")
    yield from check_partitions(configuration.partitions, OBJECT)


def _check_weights(strategy: Strategy) -> Iterator[Finding]:
    of_classes = {f"classWeights[{name}]": each for name, each in strategy.class_weights.items()}
    for field, weights in {"weights": strategy.weights, **of_classes}.items():
        if problem := weights_problem(weights):
            yield WRONG_VALUE.at(f"strategy.{field}", problem, object=OBJECT)


def _check_quotas(quotas: Sequence[Quota]) -> Iterator[Finding]:
    names: set[str] = set()
    for i, quota in enumerate(quotas):
        path = f"quotas[{i}]"
        yield from _check_selector(quota.namespace_selector, f"{path}.namespaceSelector")
        if quota.name in names:
            message = f"another quota has the name {quota.name}"
            yield codes.ENTRY_WITHOUT_EFFECT.at(f"{path}.name", message, object=OBJECT)
        names.add(quota.name)
        if not any((*quota.single.values(), *quota.total.values())):
            message = "must limit an amount of a class in single or total"
            yield codes.ENTRY_WITHOUT_EFFECT.at(path, message, object=OBJECT)
        if quota.namespaces and quota.namespace_selector is not None:
            message = "namespaceSelector has no effect beside namespaces"
            yield codes.ENTRY_WITHOUT_EFFECT.at(f"{path}.namespaceSelector", message, object=OBJECT)
        for field, limits in (("single", quota.single), ("total", quota.total)):
            for name, amounts in limits.items():
                for amount, code, problem in _find_wrong_limits(quota, field, name, amounts):
                    yield code.at(f"{path}.{field}[{name}][{amount}]", problem, object=OBJECT)


def _find_wrong_limits(
    quota: Quota, field: str, name: string_formats.ObjectName, amounts: QuotaAmounts
) -> Iterator[tuple[str, Code, str]]:
    """Yield the limits on a class that are wrong or have no effect, each with the reason."""
    no_effect = codes.ENTRY_WITHOUT_EFFECT
    total = quota.total.get(name, {})
    for amount, most in amounts.items():
        own = amount.rpartition("/")[2]
        if amount == DEVICES and most.exact_int() is None:
            yield amount, WRONG_VALUE, f"{amount} must be a whole number, and is {most}"
        elif amount != DEVICES and own.lower() in _LIKE_DEVICES:
            yield amount, no_effect, f"no device has a capacity {amount}; {DEVICES} counts devices"
        elif own != amount and own in amounts:
            yield amount, no_effect, f"{own} is the same capacity; keep one of them"
        elif field == "single" and amount in total and total[amount] < most:
            yield amount, no_effect, f"the total is {total[amount]}, which no pod exceeds either"


def _check_selector(selector: LabelSelector | None, path: str) -> Iterator[Finding]:
    for i, requirement in enumerate(selector.match_expressions if selector else ()):
        needed = requirement.operator in (Operator.IN, Operator.NOT_IN)
        if needed != bool(requirement.values):
            what = "needs at least one value" if needed else "takes no values"
            yield codes.SELECTOR_CONTRADICTORY.at(
                f"{path}.matchExpressions[{i}]",
                f"operator {requirement.operator} {what}",
                object=OBJECT,
            )


def _check_target(target: Target, path: str) -> Iterator[Finding]:
    yield from _unknown_keys(target, path)
    if target.kind is None and not target.names:
        message = "must set kind, resources, selectors or amounts"
        yield codes.ENTRY_WITHOUT_EFFECT.at(path, message, object=OBJECT)
    for field in ("family", "vendor") if target.kind is None else ():
        if getattr(target, field) is not None:
            message = f"{field} has no effect without kind"
            yield codes.ENTRY_WITHOUT_EFFECT.at(f"{path}.{field}", message, object=OBJECT)
    for name, text in target.selectors.items():
        yield from _check_expression(text, f"{path}.selectors[{name}]")


def _check_names(configuration: Configuration) -> Iterator[Finding]:
    """Yield findings for resource names of targets that have a second meaning."""
    places = {f"{name}": f"legacy.renames[{name}]" for name in configuration.legacy.renames}
    for path, name in list_names(configuration):
        if name in places:
            message = f"{places[name]} has the name {name} as well"
            yield codes.RESOURCE_NAME_TAKEN.at(path, message, object=OBJECT)
        places.setdefault(name, path)


def _check_legacy(configuration: Configuration) -> Iterator[Finding]:
    """Yield findings for names that stand for themselves, or for a name that is renamed itself."""
    renames = configuration.legacy.renames
    for name, meant in renames.items():
        message, remedy = "", "Remove the entry."
        if name == meant:
            message = f"{name} stands for itself"
        elif meant in renames:
            message = f"{meant} is renamed as well, and Drawbridge renames once"
            if (last := renames[meant]) not in renames:
                remedy = f"Let {name} stand for {last}, or remove the entry."
        if message:
            path = f"legacy.renames[{name}]"
            yield codes.ENTRY_WITHOUT_EFFECT.at(path, message, object=OBJECT, remedy=remedy)


def list_names(configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Yield the path and the resource name of each name of a target."""
    for i, target in enumerate(configuration.targets):
        for j, name in enumerate(target.resources):
            yield f"targets[{i}].resources[{j}]", f"{name}"
        for field, names in (("selectors", target.selectors), ("amounts", target.amounts)):
            for name in names:
                yield f"targets[{i}].{field}[{name}]", f"{name}"


def _unknown_keys(target: Target, path: str) -> Iterator[Finding]:
    """Yield findings for keys of `attributes` and `capacities` that are not supported."""
    keys = {
        "attributes": (target.attributes, ATTRIBUTE_WORDS),
        "capacities": (target.capacities, CAPACITY_WORDS),
    }
    for field, (names, allowed) in keys.items():
        for name in names:
            if name not in allowed:
                message = f"the key {describe_choice(name, allowed)}"
                yield codes.ENTRY_WITHOUT_EFFECT.at(
                    f"{path}.{field}[{name}]", message, object=OBJECT
                )


def _check_compatibility(entry: Compatibility, path: str) -> Iterator[Finding]:
    if entry.compatible_only_with is None and entry.groups is None:
        message = "must set compatibleOnlyWith or groups"
        yield codes.ENTRY_WITHOUT_EFFECT.at(path, message, object=OBJECT)
    elif entry.compatible_only_with is None and entry.physical_device is not None:
        message = "physicalDevice has no effect without compatibleOnlyWith"
        yield codes.ENTRY_WITHOUT_EFFECT.at(f"{path}.physicalDevice", message, object=OBJECT)
    expressions = {"selector": entry.selector, "compatibleOnlyWith": entry.compatible_only_with}
    for name, text in expressions.items():
        if text is not None:
            yield from _check_expression(text, f"{path}.{name}")


def _check_expression(text: str, path: str) -> Iterator[Finding]:
    """Yield a finding if the expression does not compile.

    Drawbridge evaluates these expressions itself, so the newest CEL environment applies.
    """
    from drawbridge.cel.dra.advice import describe_problem  # noqa: PLC0415  # the same
    from drawbridge.cel.dra.environment import device_environment  # noqa: PLC0415  # takes 150 ms, and few files need it
    from drawbridge.cel.errors import CompileError  # noqa: PLC0415  # the same

    try:
        device_environment(NEWEST, list_attributes=True).compile(text)
    except CompileError as error:
        first = error.problems[0]
        # A problem of the whole expression has no position.
        position = f", line {first.line}, column {first.column}" if first.line else ""
        message = f"{last_path_element(path)}{position}: {describe_problem(first, text)}"
        yield codes.CONFIGURATION_EXPRESSION_WRONG.at(path, message, object=OBJECT)
