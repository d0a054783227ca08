"""Nodes, and matching of node selectors.

Implements the node affinity of the scheduler: one term must match, all requirements of a term must
be met, and an empty term matches nothing. A malformed requirement makes the selector of a slice or
an allocation invalid; in the selector of a pod or a volume, only its term matches nothing.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from drawbridge.dra.decode import Metadata, Object, Reader
from drawbridge.dra.decode_errors import describe_choice
from drawbridge.dra.device import NodeSelector, NodeSelectorTerm, Requirement, Taint
from drawbridge.dra.formats import KEY_FORM, LABEL_LENGTH, SUBDOMAIN_FORM, SUBDOMAIN_LENGTH
from drawbridge.dra.quantity import Quantity
from drawbridge.names import HOLD_ANNOTATION, SETTLED_ANNOTATION

_INT = re.compile(r"[+-]?[0-9]{1,40}")
_REGISTRATION = "-register"
_LOOKED_UP = ("In", "NotIn")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


class Node(msgspec.Struct, frozen=True, gc=False):
    """The fields of a node that affect devices.

    `registrations` are the annotations in which device plugins list devices for a scheduler.
    `provider_id` names the machine at its provider. `ready` is false while condition Ready says so.
    `hold` is the annotation that says for which pod its devices are held, `settled_fence` the one
    that says which fence has settled. `kubelet` is the version of its kubelet. `stopped` are the
    extended resources with a capacity of which nothing is allocatable: their plugin may return.
    `created` is the time at which the kubelet registered the node.
    """

    name: str
    labels: Mapping[str, str] = {}
    declared_features: tuple[str, ...] = ()
    allocatable: Mapping[str, Quantity] = {}
    registrations: tuple[str, ...] = ()
    provider_id: str = ""
    ready: bool = True
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    hold: str = ""
    kubelet: str = ""
    settled_fence: str = ""
    uid: str = ""
    stopped: tuple[str, ...] = ()
    created: str = ""

    @property
    def named(self) -> frozenset[str]:
        """The resources that the kubelet names, also those of which the node has 0."""
        return frozenset(self.allocatable).union(self.stopped)

    @property
    def emptied(self) -> frozenset[str]:
        """The resources that the kubelet names with 0, and whose plugin is gone for minutes."""
        empty = {name for name, amount in self.allocatable.items() if amount.sign() <= 0}
        return frozenset(empty.difference(self.stopped))


class _Spec(msgspec.Struct, frozen=True):
    provider_id: str = msgspec.field(default="", name="providerID")
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeInfo(msgspec.Struct, frozen=True, rename="camel"):
    kubelet_version: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    declared_features: tuple[str, ...] = ()
    allocatable: Mapping[str, Quantity] = {}
    capacity: Mapping[str, Quantity] = {}
    conditions: tuple[_Condition, ...] = ()
    node_info: _NodeInfo = _NodeInfo()


class _Metadata(Metadata, frozen=True):
    uid: str = ""
    created: str | None = msgspec.field(default=None, name="creationTimestamp")


class _Node(Object, frozen=True, rename="camel"):
    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


def node_reader() -> Reader[Node]:
    """Return a reader of nodes."""
    return Reader("Node", {"v1": _Node}, _convert)


def _convert(wire: _Node) -> Node:
    status = wire.status
    return Node(
        wire.metadata.name,
        wire.metadata.labels,
        status.declared_features,
        status.allocatable,
        registrations_of(wire.metadata.annotations),
        wire.spec.provider_id,
        all(each.status == "True" for each in status.conditions if each.type == "Ready"),
        wire.spec.taints,
        wire.spec.unschedulable,
        wire.metadata.annotations.get(HOLD_ANNOTATION, ""),
        status.node_info.kubelet_version,
        wire.metadata.annotations.get(SETTLED_ANNOTATION, ""),
        wire.metadata.uid,
        tuple(sorted(_extended(status.capacity) - _extended(status.allocatable))),
        wire.metadata.created or "",
    )


def _extended(amounts: Mapping[str, Quantity]) -> set[str]:
    return {name for name, amount in amounts.items() if "/" in name and amount.sign() > 0}


def registrations_of(annotations: Iterable[str]) -> tuple[str, ...]:
    """Return the annotations in which device plugins list devices. Their values change often."""
    return tuple(sorted(key for key in annotations if key.endswith(_REGISTRATION)))


class NodeSelectorError(ValueError):
    """A node selector cannot be parsed."""


def matches_selector(selector: NodeSelector, node: Node) -> bool:
    """Tell whether `node` matches a valid selector."""
    return any(_term_matches(term, node) for term in selector.node_selector_terms)


def with_sets_of_values(selector: NodeSelector) -> NodeSelector:
    """Return the same selector for many nodes, however many values it has."""
    terms = []
    for term in selector.node_selector_terms:
        expressions = tuple(
            replace(each, values=frozenset(each.values)) if each.operator in _LOOKED_UP else each
            for each in term.match_expressions
        )
        terms.append(replace(term, match_expressions=expressions))
    return NodeSelector(tuple(terms))


def selects_node(
    node: Node, *, name: str | None, everywhere: bool | None, selector: NodeSelector | None
) -> bool:
    """Tell whether the node fields of a slice or device select `node`. The first one set decides.

    Raises NodeSelectorError if the selector decides and cannot be parsed.
    """
    if name:
        return name == node.name
    if everywhere:
        return True
    if selector is None:
        return False
    if problems := selector_problems(selector):
        raise NodeSelectorError("; ".join(problems))
    return matches_selector(selector, node)


def named_nodes(selector: NodeSelector) -> frozenset[str] | None:
    """Return the nodes that a selector can match, if every term names its node."""
    names: set[str] = set()
    for term in selector.node_selector_terms:
        named = [
            match_field.values[0]
            for match_field in term.match_fields
            if match_field.key == "metadata.name"
            and match_field.operator == "In"
            and len(match_field.values) == 1
        ]
        if not named:
            return None
        names.add(named[0])
    return frozenset(names)


def selector_problems(selector: NodeSelector) -> tuple[str, ...]:
    """Return the errors of a selector; empty if it is valid."""
    terms = enumerate(selector.node_selector_terms)
    return tuple(text for i, term in terms for text in _term_problems(term, i))


def without_malformed_terms(selector: NodeSelector) -> NodeSelector:
    """Return the valid terms of the selector of a pod or a volume.

    The API server accepts terms that the scheduler cannot parse, as Gt with 40Gi. For the scheduler
    such a term matches no node, and the other terms count.
    """
    terms = enumerate(selector.node_selector_terms)
    return NodeSelector(tuple(term for i, term in terms if not any(_term_problems(term, i))))


def _term_problems(term: NodeSelectorTerm, index: int) -> Iterator[str]:
    path = f"nodeSelectorTerms[{index}]"
    for i, requirement in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{i}]"
        yield from (f"{at}: {text}" for text in _label_problems(requirement))
    for i, requirement in enumerate(term.match_fields):
        at = f"{path}.matchFields[{i}]"
        yield from (f"{at}: {text}" for text in _field_problems(requirement))


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    if not all(meets_requirement(r, node.labels) for r in term.match_expressions):
        return False
    # The scheduler skips the fields of a node without a name.
    return not node.name or all(_field_matches(r, node.name) for r in term.match_fields)


def meets_requirement(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet a valid requirement."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    value_number, limit = _int64(value), _int64(requirement.values[0])
    if value_number is None or limit is None:
        return False
    return value_number > limit if requirement.operator == "Gt" else value_number < limit


def _field_matches(requirement: Requirement, name: str) -> bool:
    value = name if requirement.key == "metadata.name" else ""
    return (value == requirement.values[0]) == (requirement.operator == "In")


def _int64(text: str | None) -> int | None:
    if text is None or not _INT.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _label_problems(requirement: Requirement) -> list[str]:
    key, values, operator = requirement.key, requirement.values, requirement.operator
    if operator not in _OPERATORS:
        return [f"operator {describe_choice(operator, _OPERATORS)}"]
    problems = []
    if not is_label_key(key):
        problems.append(f'"{key}" is not a label key')
    if operator in _LOOKED_UP and not values:
        problems.append(f"{operator} needs values")
    if operator in ("Exists", "DoesNotExist") and values:
        problems.append(f"{operator} takes no values")
    if operator in ("Gt", "Lt") and (len(values) != 1 or _int64(values[0]) is None):
        problems.append(f"{operator} needs one whole number")
    problems += [f'"{value}" is not a label value' for value in values if not is_label_value(value)]
    return problems


def _field_problems(requirement: Requirement) -> list[str]:
    if requirement.operator not in _LOOKED_UP:
        return [f"operator {describe_choice(requirement.operator, _LOOKED_UP)}"]
    if len(requirement.values) != 1:
        return [f"{requirement.operator} on a field needs one value"]
    return []


def is_label_key(key: str) -> bool:
    """Tell whether `key` is a name of at most 63 characters, after an optional domain and `/`."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > SUBDOMAIN_LENGTH or not SUBDOMAIN_FORM.fullmatch(prefix)):
        return False
    return len(name) <= LABEL_LENGTH and KEY_FORM.fullmatch(name) is not None


def is_label_value(value: str) -> bool:
    """Tell whether `value` is empty or a name of at most 63 characters."""
    return not value or (len(value) <= LABEL_LENGTH and KEY_FORM.fullmatch(value) is not None)
