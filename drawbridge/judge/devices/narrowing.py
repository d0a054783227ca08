"""Narrows many kinds of nodes to those whose values of a near-unique attribute can match.

A selector of a UUID tells all nodes of a cluster apart. To compare the values of one attribute
costs far less than to solve for each node.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from drawbridge.cel import CompileError
from drawbridge.cel.dra import find_reads
from drawbridge.dra.claim import Choice, Claim, Request, request_choices
from drawbridge.dra.device import Attribute, Device
from drawbridge.dra.nodes import Node
from drawbridge.judge.claims.selector_terms import split_terms
from drawbridge.judge.context import JudgeContext
from drawbridge.solver.expressions import ExpressionEvaluator

# An attribute with fewer different values in the cluster is not near-unique.
MIN_VALUES = 256


def narrow_nodes(
    claims: Iterable[Claim], nodes: Sequence[Node], most: int, context: JudgeContext
) -> tuple[Node, ...]:
    """Return the nodes that have a value for the requests with a term on such an attribute.

    Stops when at most `most` nodes are left, because each term costs time.
    """
    left = {node.name for node in nodes}
    for request in chain.from_iterable(claim.spec.devices.requests for claim in claims):
        if len(left) <= most:
            break
        suitable = _nodes_for_request(request, context)
        if suitable is not None:
            left &= suitable
    return tuple(node for node in nodes if node.name in left)


def _nodes_for_request(request: Request, context: JudgeContext) -> set[str] | None:
    """Return the nodes that any alternative may use; None if one is not restricted."""
    suitable: set[str] = set()
    expressions = context.caches.proofs.expressions
    for choice in request_choices(request):
        term = next(_restricting_terms(choice, context), None)
        if term is None:
            return None
        name, text = term
        accepts = _make_acceptance(name, text, expressions)
        suitable |= context.index.nodes_with(name, text, accepts)
    return suitable


def _restricting_terms(choice: Choice, context: JudgeContext) -> Iterator[tuple[str, str]]:
    """Return the terms that read one near-unique attribute and nothing else, with its name."""
    index, selectors = context.index, context.selectors
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
    accepted_values: dict[Attribute | None, bool] = {}

    def accepts(attribute: Attribute | None) -> bool:
        accepted = accepted_values.get(attribute)
        if accepted is None:
            device = Device("any", attributes={} if attribute is None else {name: attribute})
            outcome = expressions.selects(term, "", device)
            accepted = accepted_values[attribute] = outcome is True
        return accepted

    return accepts
