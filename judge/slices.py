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
from judge.counters import check_counters
from judge.exclusions import check_exclusions
from judge.expressions import check_compatible_only_with, declares_compatibility, published_devices
from judge.groups import check_declarations, check_groups
from judge.partitions import check_partition_types
from judge.policies import check_request_policies
from judge.slice_validation import check_api_limits

MOST_ALIKE = 10


def judge_slices(
    slices: Sequence[Slice],
    unset_groups: UnsetGroups = UnsetGroups.ALONE,
    declarations: Sequence[Declaration] = (),
    selectors: Selectors | None = None,
) -> tuple[Finding, ...]:
    """Give everything that is wrong with these slices, alone and together.

    Rules between devices, those of `declarations` first, are looked at only with `selectors`,
    which compiles their expressions and remembers them.
    """
    last = pools.latest_slices(slices)
    newest = pools.newest_generations(last)
    counting = tuple(each for members in newest.values() for each in members)
    answers = chain(
        pools.find_repeated(slices),
        pools.find_outdated(last, newest),
        pools.check_slice_counts(newest),
        pools.check_unique_names(newest),
        check_counters(newest),
        check_groups(newest, unset_groups),
        check_declarations(last),
        _rules(counting, declarations, selectors) if selectors else (),
        attributes.check_types(counting),
        attributes.check_names(last),
        attributes.check_standard_forms(last),
        check_partition_types(last),
        check_request_policies(last),
    )
    # Limits are counted where they are checked, over all codes.
    return (*(finding for each in last for finding in check_api_limits(each)), *_shown(answers))


def _rules(
    counting: Sequence[Slice], declarations: Sequence[Declaration], selectors: Selectors
) -> Iterator[Finding]:
    ask = evaluator(selectors.stored, list_attributes=selectors.lists)
    yield from check_exclusions(counting, declarations, ask)
    if declarations or any(map(declares_compatibility, counting)):
        yield from check_compatible_only_with(
            counting, declarations, published_devices(counting, selectors), selectors
        )


def _shown(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Pass on the first findings of each code about each object, and say how many more there are.

    One wrong name may be in every device; nobody reads that a hundred times.
    """
    counts: dict[tuple[str, str], int] = {}
    for finding in findings:
        key = (finding.object, finding.code)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MOST_ALIKE:
            yield finding
    for (about, code), number in counts.items():
        if number > MOST_ALIKE:
            message = f"{number - MOST_ALIKE} more findings of {code} in this object are not shown"
            yield MORE_ALIKE.at("", message, object=about)
