"""Runs all checks of ResourceSlices.

If a slice occurs more than once, only the last one is checked. The limits of the API apply to every
slice; checks between devices apply to the newest generations.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from drawbridge.cel.dra import Selectors
from drawbridge.cel.dra.peers import make_evaluator
from drawbridge.dra.compatibility import Declaration, UnsetGroups
from drawbridge.dra.inventory import group_by_pool
from drawbridge.dra.slices import Slice
from drawbridge.finding import Finding
from drawbridge.judge.slices import attributes, pools
from drawbridge.judge.slices.codes import MORE_ALIKE
from drawbridge.judge.slices.counters import check_counters
from drawbridge.judge.slices.exclusions import check_exclusions
from drawbridge.judge.slices.expressions import (
    check_compatible_only_with,
    declares_compatibility,
    published_devices,
)
from drawbridge.judge.slices.groups import check_declarations, check_groups
from drawbridge.judge.slices.ordinary_devices import OrdinaryDevices
from drawbridge.judge.slices.partitions import check_partition_types
from drawbridge.judge.slices.policies import check_request_policies
from drawbridge.judge.slices.published_twice import check_published_twice
from drawbridge.judge.slices.reach import check_nodes, check_shared
from drawbridge.judge.slices.validation import check_api_limits

MAX_EQUAL_FINDINGS = 10


def judge_slices(
    slices: Sequence[Slice],
    unset_groups: UnsetGroups = UnsetGroups.ALONE,
    declarations: Sequence[Declaration] = (),
    selectors: Selectors | None = None,
    nodes: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Return all errors of slices, alone and together; `nodes` are all nodes, if they are known.

    Rules between devices are checked only with `selectors`, which compiles and caches their
    expressions. `declarations` override the rules of slices.
    """
    last = pools.latest_slices(slices)
    by_pool = group_by_pool(last)
    newest = pools.current_pools(by_pool)
    current = tuple(each for members in newest.values() for each in members)
    ordinary = OrdinaryDevices()
    answers = chain(
        pools.find_repeated(slices),
        pools.find_outdated(by_pool),
        pools.find_foreign_slices(by_pool),
        pools.check_slice_counts(newest),
        pools.check_unique_names(newest),
        check_counters(newest),
        check_groups(newest, unset_groups),
        check_declarations(last),
        _check_rules(current, declarations, selectors) if selectors else (),
        attributes.check_types(current, ordinary),
        attributes.check_names(last, ordinary),
        attributes.check_standard_forms(last),
        attributes.check_standard_names(last),
        check_partition_types(last),
        check_request_policies(last),
        check_shared(last),
        check_nodes(last, nodes),
        check_published_twice(current),
    )
    # API limits are truncated in their own check, over all codes.
    return (
        *(finding for each in last for finding in check_api_limits(each, ordinary)),
        *_limit_equal_findings(answers),
    )


def _check_rules(
    current: Sequence[Slice], declarations: Sequence[Declaration], selectors: Selectors
) -> Iterator[Finding]:
    ask = make_evaluator(selectors.stored, list_attributes=selectors.lists)
    if declarations or any(map(declares_compatibility, current)):
        yield from check_exclusions(current, declarations, ask)
        yield from check_compatible_only_with(
            current, declarations, published_devices(current, selectors), selectors
        )


def _limit_equal_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the first findings of each code and object, then the number of the others.

    One wrong name can occur in every device.
    """
    counts: dict[tuple[str, str], int] = {}
    for finding in findings:
        key = (finding.object, finding.code)
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= MAX_EQUAL_FINDINGS:
            yield finding
    for (about, code), number in counts.items():
        if number > MAX_EQUAL_FINDINGS:
            hidden = number - MAX_EQUAL_FINDINGS
            noun, verb = ("finding", "is") if hidden == 1 else ("findings", "are")
            message = f"{hidden} more {noun} of {code} in this object {verb} not shown"
            yield MORE_ALIKE.at("", message, object=about)
