"""Compiles a checked tree to one closure that evaluates it and counts the cost.

Follows cel-go's planner node by node, because the plan determines the cost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from drawbridge.cel import aggregates, ast, calls, comprehension_plans
from drawbridge.cel import constant_folding as folding
from drawbridge.cel.attributes import CHOICES, QualifiedAttribute, Qualifier, evaluate, resolve
from drawbridge.cel.checker import Checked, Resolved
from drawbridge.cel.constant_folding import FoldedValue
from drawbridge.cel.declare import Cost, Implementation
from drawbridge.cel.errors import EvaluationError
from drawbridge.cel.frame import FIRST, LIST_COST, MAP_COST, Cancelled, Run, constant
from drawbridge.cel.fresh_stack import DEPTH, on_fresh_stack
from drawbridge.cel.library.prices import PRICES_WITH_CONSTANT
from drawbridge.cel.library.regex import MOST_PATTERNS, REGEX_FUNCTIONS, pattern_price
from drawbridge.cel.meter import (
    EQUALITY,
    KEY,
    MOST_FOLDED,
    MOST_PARTS,
    OVERLOAD,
    PRICED,
    ROUND,
    STACK,
    STEPS,
    Price,
    too_large,
)
from drawbridge.cel.overloads import cost_of, dispatch_by_values, guard_arguments, price_of
from drawbridge.cel.shapes import (
    Compiled,
    LocalVariable,
    Step,
    is_optional_choice,
    is_variadic,
    local_slot,
    prepare_implementation,
    quantifier,
    unit_cost,
    visits_all,
)
from drawbridge.cel.types import DYN
from drawbridge.cel.values import make_map, type_value_of


def compile_tree(checked: Checked, variables: Sequence[str]) -> Compiled:
    """Compile a checked tree; raises EvaluationError if a constant in it is invalid."""
    slots = {name: LocalVariable(FIRST + i) for i, name in enumerate(variables)}
    planner = ProgramPlanner(checked, slots)
    planner.slots = FIRST + len(variables)
    run = planner.run(checked.node)
    return Compiled(
        run, planner.slots - FIRST - len(variables), planner.work + planner.patterns_work
    )


@dataclass(slots=True)
class ProgramPlanner:
    """The planner of one expression."""

    checked: Checked
    globals: Mapping[str, LocalVariable]
    scope: dict[str, LocalVariable] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)
    slots: int = 0
    depth: int = 0
    # Of one evaluation of what is planned so far, without the rounds of loops.
    work: int = 0
    parts: int = 0
    folded_work: int = 0
    patterns: int = 0
    patterns_work: int = 0

    def plan(self, node: ast.CelNode) -> Step:
        """Plan a node, on a new stack after a fixed number of levels."""
        self.depth += 1
        self.work += STEPS[type(node)]
        self.add_parts(1)
        try:
            if self.depth % DEPTH == 0:
                return self._apart(on_fresh_stack(_PLANS[type(node)], self, node))
            return _PLANS[type(node)](self, node)
        finally:
            self.depth -= 1

    def _apart(self, step: Step) -> Step:
        """Plan a node on a new stack; its closure runs on a new stack, too."""
        if isinstance(step, FoldedValue | QualifiedAttribute):
            return step
        self.work += STACK
        return lambda frame: on_fresh_stack(step, frame)

    def add_parts(self, count: int) -> None:
        """Count what is planned, and refuse an expression with too many parts."""
        self.parts += count
        if self.parts > MOST_PARTS:
            raise too_large()

    def run(self, node: ast.CelNode) -> Run:
        """Return the closure of a node as an expression of its own."""
        return self.close(self.plan(node))

    def close(self, step: Step) -> Run:
        """Return the closure of a step."""
        if isinstance(step, FoldedValue):
            return constant(step.value, step.steps)
        if isinstance(step, QualifiedAttribute):
            return evaluate(step)
        return step

    def attribute(self, step: Step, offset: int) -> QualifiedAttribute:
        """Return a step as the base of an attribute."""
        if isinstance(step, QualifiedAttribute):
            return step
        return QualifiedAttribute(offset, operand=self.close(step))

    def literal(self, node: ast.Literal) -> Step:
        """Plan a constant."""
        return FoldedValue(node.value)

    def ident(self, node: ast.Ident) -> Step:
        """Plan a variable or a type name."""
        return self.name(node)

    def name(self, node: ast.Ident | ast.Select) -> Step:
        """Plan a name that the checker resolved."""
        meant = self.checked.names[node.id]
        if meant.type is not None or self.checked.types.get(node.id, DYN).kind == "type":
            value = type_value_of(meant.type or DYN)
            # Only the checker knows `timestamp`, the environment's object types and the type of a
            # variable; cel-go looks for a type of this name.
            if meant.type is None or value.name != meant.name or meant.type.kind == "object":
                message = f"reference to undefined type: {meant.name}"
                raise EvaluationError("constant", message, node.offset)
            return FoldedValue(value)
        name = meant.name
        hidden = name.startswith(".")
        bound = (None if hidden else self.scope.get(name)) or self.globals[name.removeprefix(".")]
        if bound.initial is not None:
            return QualifiedAttribute(
                node.offset, operand=comprehension_plans.accumulated(bound.slot, bound.initial)
            )
        return QualifiedAttribute(node.offset, slot=bound.slot)

    def select(self, node: ast.Select) -> Step:
        """Plan a field selection or a presence test."""
        if node.id in self.checked.names:
            return self.name(node)
        base = self.attribute(self.plan(node.operand), node.operand.offset)
        self.add_parts(base.leaves)
        base.offset = node.offset
        if node.test:
            self.work += KEY
        return base.add(Qualifier(node.offset, key=node.field, test=node.test))

    def index(self, node: ast.Call, *, optional: bool) -> Step:
        """Plan an index with a constant or a computed key."""
        base = self.attribute(self.plan(node.args[0]), node.args[0].offset)
        self.add_parts(base.leaves)
        key = self.plan(node.args[1])
        base.offset = node.offset
        if optional or not isinstance(key, FoldedValue):
            self.work += KEY
        qualifier = Qualifier(node.offset, optional=optional)
        if isinstance(key, FoldedValue) and key.constant:
            if not isinstance(key.value, str | bool | int | float):
                raise EvaluationError("constant", "invalid qualifier type", node.offset)
            qualifier.key = key.value
        elif isinstance(key, QualifiedAttribute):
            qualifier.index = resolve(key)
        else:
            qualifier.index = self.close(key)
        return base.add(qualifier)

    def call(self, node: ast.Call) -> Step:
        """Plan an operator that has a plan of its own, or a function."""
        if node.function in _SPECIAL:
            return _SPECIAL[node.function](self, node)
        resolved = self.checked.calls[node.id]
        arguments = list(node.args)
        if node.target is not None and not resolved.namespaced:
            arguments.insert(0, node.target)
        if node.function in ("or", "orValue") and is_optional_choice(resolved, arguments):
            left, right = self.run(arguments[0]), self.run(arguments[1])
            otherwise, unwrap = resolved.overloads[0].implementation, node.function == "orValue"
            return calls.optional_or(left, right, otherwise, node.offset, unwrap=unwrap)
        steps = [self.plan(argument) for argument in arguments]
        body = self.resolve_call(node, resolved, arguments, steps)
        price = None if self.grows(node, arguments) else self.price(resolved, steps)
        return self.function(node, resolved, body, steps, price)

    def price(self, resolved: Resolved, steps: list[Step]) -> Price | None:
        """Return the price of a call; a constant pattern is paid once in an evaluation."""
        price = price_of(resolved, len(steps))
        constants = [step for step in steps if isinstance(step, FoldedValue)]
        if price is not None and price in PRICES_WITH_CONSTANT and constants:
            price = PRICES_WITH_CONSTANT[price]
        if price is not None:
            self.work += PRICED
        if price is None or resolved.function.name not in REGEX_FUNCTIONS:
            return price
        pattern = steps[1]
        if isinstance(pattern, FoldedValue) and isinstance(pattern.value, str):
            self.patterns += 1
            if self.patterns <= MOST_PATTERNS:
                self.patterns_work += pattern_price(pattern.value)
                return price
        return lambda text, given, *more: pattern_price(given) + price(text, given, *more)

    def function(
        self,
        node: ast.Call,
        resolved: Resolved,
        body: Implementation,
        steps: list[Step],
        price: Price | None,
    ) -> Step:
        """Plan a function call; fold it if all arguments are known."""
        cost = cost_of(resolved)
        constants = [step for step in steps if isinstance(step, FoldedValue)]
        if len(constants) == len(steps):
            folded = self.folded(node, body, constants, cost, price)
            if folded is not None:
                return folded
        offset = node.offset
        if len(steps) == 2 and not is_variadic(resolved, steps[1]):
            return self.binary(body, steps, cost, price, offset)
        last = steps[-1] if price is not None and len(steps) == 2 else None
        if price is not None and isinstance(last, FoldedValue) and not last.steps:
            self.slots += 1
            slot, text = self.slots - 1, self.close(steps[0])
            return calls.search(body, text, last.value, cost, price, slot, offset)
        if len(steps) == 1:
            return calls.unary(body, self.close(steps[0]), cost, price, offset)
        return calls.variadic(body, [self.close(s) for s in steps], cost, price, offset)

    def binary(
        self,
        body: Implementation,
        steps: list[Step],
        cost: Cost | None,
        price: Price | None,
        offset: int,
    ) -> Run:
        """Plan a call of two arguments, with a faster plan for known arguments."""
        left, right = steps
        if cost is None and price is None:
            floor = FIRST + len(self.globals)
            first, second = local_slot(left, floor), local_slot(right, floor)
            if first >= 0 and isinstance(right, FoldedValue):
                return calls.slot_constant(body, first, right.value, right.steps, offset)
            if first >= 0 and second >= 0:
                return calls.two_slots(body, first, second, offset)
            if isinstance(right, FoldedValue):
                run = self.close(left)
                return calls.binary_constant(body, run, right.value, right.steps, offset)
        return calls.binary(body, self.close(left), self.close(right), cost, price, offset)

    def folded(
        self,
        node: ast.Call,
        body: Implementation,
        constants: list[FoldedValue],
        cost: Cost | None,
        price: Price | None,
    ) -> FoldedValue | None:
        """Fold a call whose arguments are known, unless it takes much work."""
        if price is not None and not folding.is_early(node.function, constants):
            try:
                amount = price(*(step.value for step in constants))
            except Cancelled:
                return None  # its evaluation exceeds the same limit
            if self.folded_work + amount > MOST_FOLDED:
                return None
            self.folded_work += amount
        try:
            return folding.call(node.function, body, constants, cost)
        except EvaluationError as error:
            raise EvaluationError("constant", error.message, node.offset) from None

    def resolve_call(
        self, node: ast.Call, resolved: Resolved, arguments: list[ast.CelNode], steps: list[Step]
    ) -> Callable[..., object]:
        """Return the implementation: the single overload, or a dispatch at run time."""
        if self.grows(node, arguments):
            if node.function == "_+_":
                return aggregates.plan_append
            self.work += 2 * KEY  # it tests whether the map has the key
            return aggregates.plan_insert
        if len(resolved.overloads) != 1:
            self.work += OVERLOAD * len(resolved.function.overloads)
            return dispatch_by_values(node.function, resolved.function.overloads, len(steps))
        body = prepare_implementation(resolved.overloads[0], steps, node.offset)
        return guard_arguments(body, resolved, self.checked, arguments, self.scope)

    def grows(self, node: ast.Call, arguments: list[ast.CelNode]) -> bool:
        """Tell whether a call adds to the collection that a comprehension builds.

        The collection is not visible to others until the loop ends, so it grows in place, as in
        cel-go.
        """
        first = arguments[0] if arguments else None
        if node.function not in ("_+_", "cel.@mapInsert") or not isinstance(first, ast.Ident):
            return False
        bound = self.scope.get(first.name)
        return bound is not None and bound.slot in self.fresh

    def conditional(self, node: ast.Call) -> Step:
        """Plan `condition ? a : b`; a field of it is a field of both branches."""
        condition, truthy, falsy = (self.plan(argument) for argument in node.args)
        branches = (
            self.attribute(truthy, node.args[1].offset),
            self.attribute(falsy, node.args[2].offset),
        )
        depth = 1 + max(branch.depth for branch in branches)
        if depth % CHOICES == CHOICES - 1:
            self.work += STACK
        return QualifiedAttribute(
            node.offset,
            operand=self.close(condition),
            branches=branches,
            depth=depth,
            leaves=branches[0].leaves + branches[1].leaves,
        )

    def junction(self, node: ast.Call) -> Step:
        """Plan a whole chain of `&&` or `||` at once."""
        terms: list[Run] = []
        pending: list[ast.CelNode] = [node]
        while pending:
            part = pending.pop()
            if isinstance(part, ast.Call) and part.function == node.function:
                pending += reversed(part.args)
            else:
                terms.append(self.run(part))
        make = calls.conjunction if node.function == "_&&_" else calls.disjunction
        return make(terms, node.offset)

    def equality(self, node: ast.Call) -> Step:
        """Plan `==` and `!=`."""
        left, right = (self.plan(argument) for argument in node.args)
        function = self.checked.calls[node.id].function
        cost = function.cost or function.overloads[0].cost or unit_cost
        negated, offset = node.function == "_!=_", node.offset
        if isinstance(right, FoldedValue) and type(right.value) is str and not right.steps:
            text = right.value
            return calls.equal_to_text(self.close(left), text, cost, offset, negated=negated)
        self.work += EQUALITY
        return calls.equality(self.close(left), self.close(right), cost, offset, negated=negated)

    def member(self, node: ast.Call) -> Step:
        """Plan `in`; a list of constants becomes a lookup table."""
        resolved = self.checked.calls[node.id]
        element, container = (self.plan(argument) for argument in node.args)
        ids = [overload.id for overload in resolved.overloads]
        if ids == ["in_list"] and isinstance(container, FoldedValue) and container.constant:
            elements = container.value
            assert isinstance(elements, list | tuple)  # noqa: S101  # the checker's word
            if not elements:
                return FoldedValue(value=False)
            contains = folding.membership(elements)
            if contains is not None:
                return calls.membership(self.close(element), contains)
        steps: list[Step] = [element, container]
        body = self.resolve_call(node, resolved, list(node.args), steps)
        return self.function(node, resolved, body, steps, price_of(resolved, 2))

    def proceeds(self, node: ast.Call) -> Step:
        """Plan `@not_strictly_false`."""
        return calls.not_strictly_false(self.run(node.args[0]))

    def list_literal(self, node: ast.ListLiteral) -> Step:
        """Plan a list literal; it is a constant if its elements are."""
        before = self.work
        steps = [self.plan(element) for element in node.elements]
        constants = [step for step in steps if isinstance(step, FoldedValue)]
        if len(constants) == len(steps) and not node.optional:
            self.work = before
            return folding.aggregate([step.value for step in constants], constants, LIST_COST)
        runs = [self.close(step) for step in steps]
        return aggregates.plan_list(runs, node.optional, node.offset)

    def map_literal(self, node: ast.MapLiteral) -> Step:
        """Plan a map literal; it is a constant if its entries are."""
        steps: list[tuple[Step, Step]] = []
        for entry in node.entries:
            assert not isinstance(entry.key, str)  # noqa: S101  # only messages have names for keys
            steps.append((self.plan(entry.key), self.plan(entry.value)))
        optional = [entry.optional for entry in node.entries]
        constants = [s for pair in steps for s in pair if isinstance(s, FoldedValue)]
        if len(constants) == 2 * len(steps) and not any(optional):
            values = [part.value for part in constants]
            pairs = list(zip(values[::2], values[1::2], strict=True))
            entries = make_map(pairs)
            return folding.aggregate(entries, constants, MAP_COST)
        runs = [(self.close(key), self.close(value)) for key, value in steps]
        return aggregates.plan_map(runs, optional, node.offset)

    def message(self, node: ast.MessageLiteral) -> Step:
        """Plan a well-known message; each evaluation creates and charges it."""
        name = self.checked.names[node.id].name
        fields = [(f"{entry.key}", self.run(entry.value), entry.optional) for entry in node.entries]
        return aggregates.plan_message(name, fields, node.offset)

    def comprehension(self, node: ast.Comprehension) -> Step:
        """Plan a fold; frequent forms have their own loops."""
        source = self.run(node.range)
        first = self.slots
        self.slots += 3
        outer, inside, accumulator = self.scopes(node, first)
        before, self.work = self.work, ROUND
        bound = isinstance(node.range, ast.ListLiteral) and not node.range.elements
        decides = None if bound else quantifier(node)
        condition: Run | None = None
        step = source
        try:
            self.scope = inside
            if decides is not None:
                assert isinstance(node.step, ast.Call)  # noqa: S101  # see quantifier
                step = self.run(node.step.args[1])
            else:  # also where no round runs it: its constants may be invalid
                step = self.run(node.step)
                condition = None if visits_all(node.condition) else self.run(node.condition)
            work, self.work = self.work, before
            self.scope = {**outer, node.accumulator: accumulator}
            result = self.run(node.result)
        finally:
            self.scope = outer
        if bound:
            return comprehension_plans.bind(accumulator.slot, result)
        second = first + 1 if node.second_variable else -1
        parts = comprehension_plans.Fold(
            node.offset, work, source, first, second, accumulator.slot, condition, step, result
        )
        if decides is not None:
            return comprehension_plans.quantified(parts, step, decides=decides)
        return comprehension_plans.fold(parts)

    def scopes(
        self, node: ast.Comprehension, first: int
    ) -> tuple[dict[str, LocalVariable], dict[str, LocalVariable], LocalVariable]:
        """Return the variables in scope outside and inside the loop, and the accumulator."""
        initial = self.plan(node.initial)
        run = self.close(initial)
        slot = first + 2
        if isinstance(initial, FoldedValue) and initial.value in ([], {}):
            self.fresh.add(slot)
            run = aggregates.plan_empty_copy(initial.value)
        accumulator = LocalVariable(slot, run)
        inside = {**self.scope, node.variable: LocalVariable(first)}
        if node.second_variable:
            inside[node.second_variable] = LocalVariable(first + 1)
        inside[node.accumulator] = accumulator
        return self.scope, inside, accumulator


_PLANS: dict[type, Callable[..., Step]] = {
    ast.Literal: ProgramPlanner.literal,
    ast.Ident: ProgramPlanner.ident,
    ast.Select: ProgramPlanner.select,
    ast.Call: ProgramPlanner.call,
    ast.ListLiteral: ProgramPlanner.list_literal,
    ast.MapLiteral: ProgramPlanner.map_literal,
    ast.MessageLiteral: ProgramPlanner.message,
    ast.Comprehension: ProgramPlanner.comprehension,
}
_SPECIAL: dict[str, Callable[[ProgramPlanner, ast.Call], Step]] = {
    "_&&_": ProgramPlanner.junction,
    "_||_": ProgramPlanner.junction,
    "_?_:_": ProgramPlanner.conditional,
    "_[_]": lambda planner, node: planner.index(node, optional=False),
    "_[?_]": lambda planner, node: planner.index(node, optional=True),
    "_?._": lambda planner, node: planner.index(node, optional=True),
    "_==_": ProgramPlanner.equality,
    "_!=_": ProgramPlanner.equality,
    "@in": ProgramPlanner.member,
    "@not_strictly_false": ProgramPlanner.proceeds,
}
