"""Text into a syntax tree, macros replaced.

An operator-precedence parser with stacks of its own, so that no nesting, however deep, is a matter
of Python's stack. It goes to and fro between two states, an operand expected and an operand
complete (`cel.grammar`). Knows no types and no functions.
"""

from cel.ast import SyntaxNode
from cel.errors import CompileError
from cel.grammar import run
from cel.lexer import Complaint, located, recover, tokenize
from cel.parser_stacks import ParserOptions, ParserStacks, TooDeepError, UnexpectedError

__all__ = ["ParserOptions", "parse"]


def parse(source: str, options: ParserOptions) -> SyntaxNode:
    """The tree of `source`, or CompileError with all that is wrong with its form.

    A lone surrogate, which no UTF-8 text has, is read as the replacement character.
    """
    text = source
    if not source.isascii():
        text = source.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text) > options.size:
        message = f"expression of {len(text)} characters, at most {options.size}"
        raise CompileError(located([Complaint("size", -1, message)], text))
    stacks = ParserStacks(tokenize(text), options)
    try:
        node = run(stacks)
    except (UnexpectedError, TooDeepError):
        raise CompileError(located(_diagnosis(text, options), text)) from None
    if stacks.complaints:
        raise CompileError(located(stacks.complaints, text))
    return node


def _diagnosis(text: str, options: ParserOptions) -> list[Complaint]:
    """What is wrong with a text that has a token out of place."""
    tokens, complaints = recover(text)
    stacks = ParserStacks(tokens, options)
    try:
        run(stacks)
    except UnexpectedError:
        _, word, offset = stacks.tokens[stacks.at]
        found = f"unexpected '{word}'" if word else "unexpected end of expression"
        complaints.append(Complaint("syntax", offset, found))
        stacks.abandon()
    except TooDeepError as error:
        complaints.append(Complaint("recursion", -1, str(error)))
    return complaints + stacks.complaints
