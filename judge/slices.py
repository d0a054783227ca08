"""All questions about ResourceSlices, asked in turn.

Of a slice that is there twice only the last one is looked at, because in a cluster it is the only
one. Every slice is held to the API's limits; what devices have to do with each other is asked of
those that still count.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from cel.dra import Selectors
from cel.dra.peers import evaluator
from dra.compatibility import Declaration, UnsetGroups
from dra.finding import Finding
from dra.slices import Slice
from judge import attributes, pools
from judge.codes import MORE_ALIKE
from judge.counters import counters
from judge.exclusions import exclusions
from judge.expressions import going, says_with_what, seen
from judge.groups import declared, groups
from judge.partitions import partitions
from judge.policies import policies
from judge.slice_validation import limits

MOST_ALIKE = 10


def judge(
    slices: Sequence[Slice],
    unset_groups: UnsetGroups = UnsetGroups.ALONE,
    declarations: Sequence[Declaration] = (),
    selectors: Selectors | None = None,
) -> tuple[Finding, ...]:
    """Give everything that is wrong with these slices, alone and together.

    Rules between devices, those of `declarations` first, are looked at only with `selectors`,
    which compiles their expressions and remembers them.
    """
    last = pools.last(slices)
    newest = pools.newest(last)
    counting = tuple(each for members in newest.values() for each in members)
    answers = chain(
        pools.repeated(slices),
        pools.old(last, newest),
        pools.counted(newest),
        pools.named(newest),
        counters(newest),
        groups(newest, unset_groups),
        declared(last),
        _rules(counting, declarations, selectors) if selectors else (),
        attributes.types(counting),
        attributes.names(last),
        attributes.forms(last),
        partitions(last),
        policies(last),
    )
    # Limits are counted where they are checked, over all codes.
    return (*(finding for each in last for finding in limits(each)), *_shown(answers))


def _rules(
    counting: Sequence[Slice], declarations: Sequence[Declaration], selectors: Selectors
) -> Iterator[Finding]:
    ask = evaluator(selectors.stored, list_attributes=selectors.lists)
    yield from exclusions(counting, declarations, ask)
    if declarations or any(map(says_with_what, counting)):
        yield from going(counting, declarations, seen(counting, selectors), selectors)


def _shown(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass on the first findings of each code about each object, and say how many more there are.

    One wrong name may be in every device; nobody reads that a hundred times.
    """
    seen: dict[tuple[str, str], int] = {}
    for finding in findings:
        key = (finding.object, finding.code)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= MOST_ALIKE:
            yield finding
    for (about, code), number in seen.items():
        if number > MOST_ALIKE:
            message = f"{number - MOST_ALIKE} more findings of {code} in this object are not shown"
            yield MORE_ALIKE.at("", message, object=about)
