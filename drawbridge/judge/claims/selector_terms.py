"""Splits a selector into the terms that must all be true."""

from collections.abc import Sequence

from drawbridge.cel import CompileError
from drawbridge.cel.lexer import Token, tokenize
from drawbridge.cel.programs import Programs

MAX_NESTING = 16
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def split_terms(source: str, programs: Programs, nesting: int = 0) -> tuple[str, ...]:
    """Return the terms that `&&` joins at the top of an expression, in order.

    An expression that cannot be split is one term.
    """
    try:
        terms = _split(source)
        for term in terms if len(terms) > 1 else ():
            programs.compile(term)
    except CompileError:
        return (source,)
    if len(terms) == 1:
        inner = terms[0][1:-1]
        wrapped = nesting < MAX_NESTING and _is_wrapped(terms[0])
        return split_terms(inner, programs, nesting + 1) if wrapped else terms
    return tuple(part for term in terms for part in split_terms(term, programs, nesting + 1))


def _split(source: str) -> tuple[str, ...]:
    """Split at each `&&` outside of brackets; whole if a weaker operator is outside, too."""
    cuts, depth = [], 0
    tokens = tokenize(source)
    for kind, _, offset in tokens:
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 and kind in ("||", "?"):
            return (source.strip(),)
        if depth == 0 and kind == "&&":
            cuts.append(offset)
    starts, ends = [0, *(cut + 2 for cut in cuts)], [*cuts, len(source)]
    return tuple(source[start:end].strip() for start, end in zip(starts, ends, strict=True))


def _is_wrapped(source: str) -> bool:
    """Return whether one pair of parentheses encloses the whole expression."""
    if not (source.startswith("(") and source.endswith(")")):
        return False
    return _closes_at(tokenize(source)) == len(source) - 1


def _closes_at(tokens: Sequence[Token]) -> int:
    """Return the offset at which the bracket of the first token is closed."""
    depth = 0
    for kind, _, offset in tokens:
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0:
            return offset
    return -1
