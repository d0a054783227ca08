"""Evaluates label selectors of the configuration, with the semantics of Kubernetes."""

from collections.abc import Mapping

from drawbridge.config.model import LabelRequirement, LabelSelector, Operator


def selector_matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether the labels match the selector, with the semantics of Kubernetes."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _requirement_matches(match_expression, labels)
        for match_expression in selector.match_expressions
    )


def _requirement_matches(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case Operator.IN:
            return value is not None and value in requirement.values
        case Operator.NOT_IN:
            return value is None or value not in requirement.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
