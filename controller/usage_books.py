"""Writes the books of usage while this replica leads, one ConfigMap for each day.

The stored book says until when it is complete, and each write continues it from there. So a write
that fails, or whose result is unknown, is repeated without counting anything twice.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from controller.change_books import ChangeCounter
from controller.protocols import ObjectReference, ObjectStore, Reporter, Unstructured
from controller.reconcile import FailedLast
from controller.usage_observer import UsageObserver, name_owner
from drawbridge.agreement.operation_codes import USAGE_BOOK_UNREADABLE
from drawbridge.agreement.refused_writes import describe_refused_write
from drawbridge.api_error import ApiError
from drawbridge.process.named_series import OTHER, NamedSeries
from drawbridge.usage.accounts import NOTHING, UsedAmount
from drawbridge.usage.book import DAY, Book, BookError
from drawbridge.usage.bookkeeping import continue_book
from drawbridge.usage.changes import KEY as CHANGES
from drawbridge.usage.meter import Observed
from drawbridge.usage.stored_books import (
    KEY,
    MAX_DAYS,
    completeness,
    compose_config_map,
    name_of_day,
    names_of_day,
    read_config_map,
)

NAME: Final = "usage"
# A large book is written less often: one more minute for so many bytes.
BYTES_A_MINUTE: Final = 100_000
# Of both books in a ConfigMap, which the API server limits to 1 MiB.
MAX_BYTES: Final = 1_000_000
_MINUTE: Final = 60
# So many seconds after its end, a book that is refused is left out.
_LATEST: Final = 3600
# Namespaces whose pods are listed in one run, to learn their owners.
_NAMESPACES_A_RUN: Final = 20

Group = tuple[str, str]  # namespace and class
# Groups with a total of their own; what others use is summed up.
MAX_GROUPS: Final = 500
OTHERS: Final[Group] = (OTHER, OTHER)


class _Stored(NamedTuple):
    """A book, and the ConfigMap that has it."""

    book: Book
    config_map: Unstructured


class UsageReconciler:
    """Continues the latest book. `totals` has what this term wrote, by namespace and class."""

    name = NAME

    def __init__(  # noqa: PLR0913  # what it reads, and where it writes
        self,
        observer: UsageObserver,
        config_maps: ObjectStore,
        namespace: str,
        *,
        pods: ObjectStore,
        changes: ChangeCounter,
        reporter: Reporter,
    ) -> None:
        self.totals: dict[Group, UsedAmount] = {}
        self._named: NamedSeries[Group] = NamedSeries(MAX_GROUPS, OTHERS, self.totals.pop)
        self._observer = observer
        self._config_maps = config_maps
        self._namespace = namespace
        self._pods = pods
        self._changes = changes
        self._reporter = reporter
        self._failed_last = FailedLast()  # namespaces whose pods are listed
        self._latest: _Stored | None = None
        self._unsure: tuple[Book | None, Book] | None = None  # a write that may have succeeded
        self._skipped: _Stored | None = None  # the latest book that was refused until its end
        self._refused = 0  # the day of the latest book that was reported to be refused

    async def reconcile(self) -> None:
        """Bring the books up to date, as far as anybody can know what claims hold."""
        await self._observer.check()
        if not self._observer.is_observing and not self._observer.former:
            return
        failure: Exception | None = None
        try:
            await self._find_owners()
        except Exception as error:  # noqa: BLE001  # the book of all others does not wait for it
            failure = error
        await self._write_books()
        if failure is not None:
            raise failure

    async def _write_books(self) -> None:
        until = self._observer.told_until
        try:
            if self._latest is None:
                self._latest = await self._find_latest(until // DAY)
                self._count_unsure()
                await self._begin_changes(until)
            while await self._continue(until):
                pass
        except Exception:
            # Another replica, or this one, may have written the book.
            self._latest = None
            raise

    async def _continue(self, until: int) -> bool:
        """Write the next book; False if it is not due."""
        stored = self._latest
        through = None if stored is None else stored.book.through
        meter, end = self._observer.choose_meter(through, until)
        # A former meter does not wait: there is room for two.
        is_former = meter is not self._observer.meter
        if stored and not is_former and until - stored.book.through < _minutes(stored) * _MINUTE:
            return False
        if through is not None:
            meter.forget(through)
        observed = meter.observed()
        if observed is None:
            return False
        if stored and observed.start > stored.book.through and observed.first is None:
            # The book is older than what was forgotten because of it.
            meter.restart(self._observer.now())
            return True
        before = None if stored is None else stored.book
        names = self._observer.names()
        following, unused = await asyncio.to_thread(_continue, before, observed, end, names)
        if not self._observer.former:  # the meters behind it can use others
            self._observer.forget_names(unused)
        if following is None:
            return False
        self._unsure = before, following
        try:
            await self._write(following)
        except ApiError as error:
            if not self._report_refused(following, error) or until - following.end < _LATEST:
                raise
            # The next book must not wait for this one.
            self._unsure = None
            metadata = {"name": name_of_day(following.day)}
            self._latest = self._skipped = _Stored(following, {"metadata": metadata})
        self._count_unsure()
        return True

    def _report_refused(self, book: Book, error: ApiError) -> bool:
        """Report once that a book cannot be written; False if a retry can succeed."""
        findings, name = describe_refused_write("ConfigMap", error), name_of_day(book.day)
        reference = ObjectReference("ConfigMap", name, self._namespace)
        for finding in findings if book.day > self._refused else ():
            self._reporter.report(finding, reference, "WriteUsage")
            self._refused = book.day
        return bool(findings)

    def _count_unsure(self) -> None:
        """Count what this term wrote, also if it learns that from the stored book only."""
        unsure, self._unsure = self._unsure, None
        if unsure is not None and self._latest is not None and self._latest.book == unsure[1]:
            self._add_totals(*unsure)

    async def _write(self, book: Book) -> None:
        stored, name = self._latest, name_of_day(book.day)
        if stored is not None and stored.config_map["metadata"]["name"] == name:
            live: Unstructured | None = stored.config_map
        else:
            live = await self._config_maps.read(name, self._namespace)
            if live is not None and _is_behind(stored, live, book.day):
                raise ApiError(409, "Conflict", f"another replica has written {name} meanwhile")
        config_map = await asyncio.to_thread(compose_config_map, book, live)
        await self._changes.settle(book.through)
        room = MAX_BYTES - len(config_map["data"][KEY].encode())
        if (changes := self._changes.write(book.day, room)) is not None:
            config_map["data"][CHANGES] = changes
        write = self._config_maps.create if live is None else self._config_maps.replace
        self._latest = _Stored(book, await write(config_map, self._namespace))
        self._reporter.count(NAME, "written")

    def _add_totals(self, before: Book | None, after: Book) -> None:
        same_day = before is not None and before.day == after.day
        counted = before.rows if before is not None and same_day else {}
        # Who makes way was not used in this book, either.
        for account in sorted(after.rows, key=lambda each: each[:2] not in self.totals):
            row = after.rows[account]
            old = counted[account].used if account in counted else None
            if row.used != old:  # what ended is in the book until the day ends
                group = self._named.use(account[:2], after.through)
                # A counter never goes back, also if the book takes something back.
                used = row.used.plus((old or NOTHING).times(-1)).at_least_nothing()
                self.totals[group] = self.totals.get(group, NOTHING).plus(used)

    async def _begin_changes(self, until: int) -> None:
        """Count changes from the book of today on, after a change of leader or a failed write."""
        stored, today = self._latest, until // DAY
        if stored is None or today - stored.book.day not in (0, 1):
            await self._changes.begin(None, today, until)
        else:  # the last minutes of yesterday are still to be written
            await self._changes.begin(stored.config_map, stored.book.day, until)

    # --- the latest book -----------------------------------------------------------------------

    async def _find_latest(self, today: int) -> _Stored | None:
        """Return the newest book; of tomorrow, if the clock went back."""
        read: dict[str, _Stored | None] = {}  # days share the names of earlier versions
        for day in range(today + 1, today + 1 - MAX_DAYS, -1):
            for name in names_of_day(day):
                if name not in read:
                    read[name] = await self._read_book(name)
            stored = (*map(read.get, names_of_day(day)), self._skipped)
            of_day = [each for each in stored if each is not None and each.book.day == day]
            if of_day:
                return max(of_day, key=lambda each: completeness(each.book))
        return None

    async def _read_book(self, name: str) -> _Stored | None:
        config_map = await self._config_maps.read(name, self._namespace)
        if config_map is None:
            return None
        try:
            return _Stored(read_config_map(config_map), config_map)
        except BookError as error:
            message = f"the ConfigMap cannot be read: {error}"
            finding = USAGE_BOOK_UNREADABLE.at(f"data[{KEY}]", message)
            reference = ObjectReference("ConfigMap", name, self._namespace)
            self._reporter.report(finding, reference, "ReadUsage")
            return None

    # --- owners --------------------------------------------------------------------------------

    async def _find_owners(self) -> None:
        """List the pods of namespaces with claims whose pod was scheduled before they were seen.

        The namespace that waits longest comes first, behind it those whose list failed.
        """
        waiting = dict.fromkeys(namespace for namespace, _ in self._observer.waiting.values())
        await self._failed_last.process_each(waiting, self._find_owners_in, _NAMESPACES_A_RUN)

    async def _find_owners_in(self, namespace: str, _: None) -> None:
        # Pods that are created while the list is under way are not in it.
        wanted = self._observer.waiting_in(namespace)
        await self._observer.add_pods(namespace, wanted, self._pods.iterate(namespace))
        self._reporter.count(NAME, "owners")


def _continue(
    before: Book | None, observed: Observed, until: int, names: Mapping[str, str]
) -> tuple[Book | None, set[str]]:
    """Continue a book with the names of owners, and return the names that nobody uses.

    Owners that are not known yet are unknown.
    """
    accounts = observed.accounts()
    named = {each: each._replace(owner=name_owner(each.owner, names)) for each in accounts}
    renamed = {account: name for account, name in named.items() if account != name}
    unused = names.keys() - {each.owner for each in renamed}
    following = continue_book(before, observed.renamed(renamed) if renamed else observed, until)
    return following, unused


def _is_behind(stored: _Stored | None, live: Unstructured, day: int) -> bool:
    """Return whether a ConfigMap has a later book of a day than the one that is continued."""
    try:
        written = read_config_map(live)
    except BookError:
        return False
    if written.day != day:
        return False  # of 62 days ago
    return stored is None or completeness(written) > completeness(stored.book)


def _minutes(stored: _Stored) -> int:
    text = (stored.config_map.get("data") or {}).get(KEY, "")
    return len(text) // BYTES_A_MINUTE
