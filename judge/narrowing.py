"""Narrows many kinds of nodes to those whose values of a near-unique attribute can match.

A selector of a UUID tells all nodes of a cluster apart. To compare the values of one attribute
costs far less than to solve for each node.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from cel import CompileError
from cel.dra import Selectors, find_reads
from dra.claim import Choice, Claim, Request, request_choices
from dra.device import Attribute, Device
from dra.nodes import Node
from judge.device_index import DeviceIndex
from judge.selector_terms import split_terms
from solver.expressions import ExpressionEvaluator

# An attribute with fewer different values in the cluster is not near-unique.
MIN_VALUES = 256


def narrow_nodes(  # noqa: PLR0913, PLR0917  # what is narrowed, and with what
    claims: Iterable[Claim],
    nodes: Sequence[Node],
    most: int,
    index: DeviceIndex,
    selectors: Selectors,
    expressions: ExpressionEvaluator,
) -> tuple[Node, ...]:
    """Return the nodes that have a value for the requests with a term on such an attribute.

    Stops when at most `most` nodes are left, because each term costs time.
    """
    left = {node.name for node in nodes}
    for request in chain.from_iterable(claim.spec.devices.requests for claim in claims):
        if len(left) <= most:
            break
        suitable = _nodes_for_request(request, index, selectors, expressions)
        if suitable is not None:
            left &= suitable
    return tuple(node for node in nodes if node.name in left)


def _nodes_for_request(
    request: Request, index: DeviceIndex, selectors: Selectors, expressions: ExpressionEvaluator
) -> set[str] | None:
    """Return the nodes that any alternative may use; None if one is not restricted."""
    suitable: set[str] = set()
    for choice in request_choices(request):
        term = next(_restricting_terms(choice, index, selectors), None)
        if term is None:
            return None
        name, text = term
        suitable |= index.nodes_with(name, text, _make_acceptance(name, text, expressions))
    return suitable


def _restricting_terms(
    choice: Choice, index: DeviceIndex, selectors: Selectors
) -> Iterator[tuple[str, str]]:
    """Return the terms that read one near-unique attribute and nothing else, with its name."""
    for selector in choice.requested.selectors:
        source = selector.cel.expression if selector.cel else ""
        for term in split_terms(source, selectors.stored):
            try:
                reads = find_reads(selectors.stored.compile(term))
            except CompileError:
                continue
            names = ["/".join(each) for each in reads.attributes()]
            if len(names) == len(reads.accesses) == 1 and index.varies(names[0], MIN_VALUES):
                yield names[0], term


def _make_acceptance(
    name: str, term: str, expressions: ExpressionEvaluator
) -> Callable[[Attribute | None], bool]:
    known: dict[Attribute | None, bool] = {}

    def accepts(attribute: Attribute | None) -> bool:
        accepted = known.get(attribute)
        if accepted is None:
            device = Device("any", attributes={} if attribute is None else {name: attribute})
            accepted = known[attribute] = expressions.selects(term, "", device) is True
        return accepted

    return accepts
