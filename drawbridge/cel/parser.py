"""Parses an expression to a syntax tree with its macros expanded.

This is an operator-precedence parser with its own stacks, so nesting depth does not depend on
Python's stack. It alternates between two states: an operand is expected, or an operand is complete
(`drawbridge.cel.grammar`).
"""

from drawbridge.cel.ast import CelNode
from drawbridge.cel.errors import CompileError
from drawbridge.cel.grammar import run
from drawbridge.cel.lexer import Complaint, locate_problems, recover_tokens, tokenize
from drawbridge.cel.parser_stacks import ParserOptions, ParserStacks, TooDeepError, UnexpectedError

__all__ = ["ParserOptions", "parse"]

LONGEST = 100_000


def parse(source: str, options: ParserOptions) -> CelNode:
    """Return the tree of `source`, or raise CompileError with all syntax errors.

    A lone surrogate, which valid UTF-8 cannot contain, becomes the replacement character.
    """
    text = source
    if not source.isascii():
        text = source.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text) > LONGEST:
        message = f"expression of {len(text)} characters, at most {LONGEST}"
        raise CompileError(locate_problems([Complaint("size", -1, message)], text))
    stacks = ParserStacks(tokenize(text), options)
    try:
        node = run(stacks)
    except (UnexpectedError, TooDeepError):
        raise CompileError(locate_problems(_diagnose(text, options), text)) from None
    if stacks.complaints:
        raise CompileError(locate_problems(stacks.complaints, text))
    return node


def _diagnose(text: str, options: ParserOptions) -> list[Complaint]:
    """Return the error for a text with an unexpected token."""
    tokens, complaints = recover_tokens(text)
    stacks = ParserStacks(tokens, options)
    try:
        run(stacks)
    except UnexpectedError:
        _, word, offset = stacks.tokens[stacks.at]
        message = f"unexpected '{word}'" if word else "unexpected end of expression"
        complaints.append(Complaint("syntax", offset, message))
        stacks.abandon()
    except TooDeepError as error:
        complaints.append(Complaint("recursion", -1, str(error)))
    return complaints + stacks.complaints
