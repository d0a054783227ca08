"""The stacks of the parser: pending operators, operands, open brackets, and limits.

Contains operator precedence and the completion of calls; `drawbridge.cel.grammar` maps tokens to
operations on the stacks. The limits equal those of cel-go and are counted in the same way: how
often a rule of its grammar recurses, and how many nodes of some kinds are nested.
"""

from dataclasses import dataclass
from itertools import count

import msgspec

from drawbridge.cel.ast import Call, CelNode, Literal
from drawbridge.cel.lexer import Complaint, Token
from drawbridge.cel.macros import Builder, MacroError, Macros

DEPTH = 250
OR, AND, RELATION, SUM, PRODUCT, PREFIX = 1, 2, 3, 4, 5, 6
BARRIER, THEN, ELSE = -1, "?", ":"

# The next expected token: an operand, a token after a complete operand, nothing.
ParserState = int
OPERAND, COMPLETE, DONE = 0, 1, 2
# A pending operator: level, function, offset. Barriers and conditionals have the lowest levels.
PendingOperator = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class ParserOptions:
    """The macros and syntax options of an environment."""

    macros: Macros
    escaped_fields: bool = False


class UnexpectedError(Exception):
    """The grammar does not allow the current token."""


class TooDeepError(Exception):
    """The expression nests deeper than cel-go's limit."""


class BracketFrame(msgspec.Struct, eq=False):
    """An open bracket and the parsed parts of its content."""

    kind: str
    offset: int
    base: int
    name: str = ""
    member: bool = False
    keys: list[tuple[int, "CelNode | str", bool]] = []
    optional: set[int] = set()
    marked: bool = False
    seen: int = 0


class ParserStacks:
    """The state of one parse; `operands` and `heights` are parallel."""

    __slots__ = (
        "at", "complaints", "frames", "heights", "ids", "operands", "operators", "options",
        "pending", "state", "tokens",
    )  # fmt: skip

    def __init__(self, tokens: list[Token], options: ParserOptions) -> None:
        self.tokens = tokens
        self.options = options
        self.at = 0
        self.state = OPERAND
        self.ids = count(1).__next__
        self.complaints: list[Complaint] = []
        self.operands: list[CelNode] = []
        self.heights: list[int] = []
        self.operators: list[PendingOperator] = []
        self.frames: list[BracketFrame] = []
        # the number of open operands per level: relations, sums and products, else branches
        self.pending = [0, 0, 0, 0, 0, 0, 0]

    # Open and close

    def open(self, kind: str, offset: int, name: str = "", *, member: bool = False) -> BracketFrame:
        """Open a bracket."""
        frame = BracketFrame(kind, offset, len(self.operands) - member, name, member)
        self.frames.append(frame)
        self.operators.append((BARRIER, "", offset))
        return frame

    def enter(self) -> None:
        """Begin an expression or operand; raise TooDeepError beyond cel-go's limit."""
        pending = self.pending
        calc = pending[SUM] + pending[PRODUCT]
        if len(self.frames) + max(pending[0], pending[RELATION], calc) > DEPTH:
            raise TooDeepError(f"expression recursion limit exceeded: {DEPTH}")

    def close(self) -> BracketFrame:
        """Close the newest frame; its content stays in the operands."""
        self.operators.pop()
        return self.frames.pop()

    def result(self, frame: BracketFrame, node: CelNode, *, weighs: bool = False) -> None:
        """Replace the operands of the frame by `node`."""
        height = max(self.heights[frame.base :], default=0)
        del self.operands[frame.base :]
        del self.heights[frame.base :]
        self.operands.append(node)
        self.heights.append(height)
        if weighs:
            self.higher()

    def higher(self) -> None:
        """Add one counted level to the newest operand."""
        self.heights[-1] += 1
        if self.heights[-1] > DEPTH:
            raise TooDeepError("max recursion depth exceeded")

    def push(self, node: CelNode) -> None:
        """Push an operand."""
        self.operands.append(node)
        self.heights.append(0)

    # Operators

    def reduce(self, level: int) -> None:
        """Complete the pending operators that bind at least as tightly as `level`."""
        operators = self.operators
        while operators[-1][0] >= level:
            if operators[-1][0] <= AND:
                self.chain()
            else:
                self.apply()

    def apply(self) -> None:
        """Complete the newest prefix or binary operator."""
        level, function, offset = self.operators.pop()
        operands = self.operands
        right = operands.pop()
        if level == PREFIX:
            operands.append(Call(self.ids(), offset, function, None, (right,)))
            return
        self.pending[level] -= 1
        operands[-1] = Call(self.ids(), offset, function, None, (operands[-1], right))
        height = self.heights.pop()
        self.heights[-1] = max(height, self.heights[-1])
        self.higher()

    def chain(self) -> None:
        """Complete a chain of one logical operator as a balanced tree, as cel-go does."""
        operators = self.operators
        level, function, _ = operators[-1]
        first = len(operators) - 1
        while operators[first - 1][0] == level:
            first -= 1
        offsets = [operator[2] for operator in operators[first:]]
        del operators[first:]
        base = len(self.operands) - len(offsets) - 1
        terms = self.operands[base:]
        height = max(self.heights[base:])
        self.operands[base:] = [self._balanced(function, terms, offsets, 0, len(offsets) - 1)]
        self.heights[base:] = [height]

    def _balanced(
        self, function: str, terms: list[CelNode], offsets: list[int], low: int, high: int
    ) -> CelNode:
        """Return the tree of the operators from `low` to `high`, with logarithmic depth."""
        middle = (low + high + 1) // 2
        left = (
            terms[middle]
            if middle == low
            else self._balanced(function, terms, offsets, low, middle - 1)
        )
        right = (
            terms[middle + 1]
            if middle == high
            else self._balanced(function, terms, offsets, middle + 1, high)
        )
        return Call(self.ids(), offsets[middle], function, None, (left, right))

    def finish(self) -> None:
        """Complete the expression of the newest frame."""
        self.reduce(OR)
        while self.operators[-1][1] == ELSE:
            self.choose()
        if self.operators[-1][1] == THEN:
            raise UnexpectedError

    def choose(self) -> None:
        """Complete the newest conditional."""
        _, _, offset = self.operators.pop()
        self.pending[0] -= 1
        parts = self.operands[-3:]
        height = max(self.heights[-3:])
        del self.operands[-2:], self.heights[-2:]
        self.operands[-1] = Call(self.ids(), offset, "_?_:_", None, tuple(parts))
        self.heights[-1] = height
        self.higher()

    # Calls and macro expansion

    def call(
        self, frame: BracketFrame, args: tuple[CelNode, ...], target: CelNode | None
    ) -> CelNode:
        """Return the call, or the expansion of its macro."""
        macro = self.options.macros.get((frame.name, len(args), frame.member))
        if macro is not None:
            try:
                made = macro(Builder(self.ids, frame.offset), target, args)
            except MacroError as error:
                self.complaints.append(Complaint("macro", error.offset, str(error)))
                return Literal(self.ids(), frame.offset, None)
            if made is not None:
                return made
        return Call(self.ids(), frame.offset, frame.name, target, args)

    def abandon(self) -> None:
        """Expand the open calls after a syntax error, because their arguments may be wrong, too.

        cel-go's parser recovers from a syntax error and continues, so it reports those errors as
        well.
        """
        before, place = self.tokens[self.at - 1][0], self.tokens[self.at][2]
        if self.state == OPERAND and before != "(":
            self.push(Literal(self.ids(), 0 if before == "." else place, None))
        while len(self.frames) > 1:
            self.give_up_conditionals()
            frame = self.close()
            args = self.operands[frame.base :]
            if frame.kind == "(" and args:
                continue
            made: CelNode = Literal(self.ids(), frame.offset, None)
            if frame.kind == "call":
                target = args.pop(0) if frame.member else None
                made = self.call(frame, tuple(args), target)
            elif frame.kind == "{" and len(args) > 2 * len(frame.keys):
                # cel-go ignores a key without a colon
                del self.complaints[frame.seen :]
            self.result(frame, made)

    def give_up_conditionals(self) -> None:
        """Complete the expression of the newest frame; drop incomplete conditionals."""
        self.reduce(OR)
        while self.operators[-1][0] != BARRIER:
            _, function, offset = self.operators.pop()
            parts = 3 if function == ELSE else 2
            del self.operands[-parts:], self.heights[-parts:]
            self.push(Literal(self.ids(), offset, None))
            self.reduce(OR)
