"""Each object of a cache has one state, for which its writer pays, whatever is read in which order.

Each seed plays a history of a server, of a watch, and of lists that are accepted, rejected or cut.
"""

# ruff: noqa: D102  # the methods have descriptive names

import random
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from drawbridge.cluster.history import Identity
from drawbridge.cluster.listing import Listing
from drawbridge.cluster.resources import CONFIG_MAPS
from drawbridge.cluster.store import Accounting, CachedObject, ObjectIndex, ObjectKey, read_header
from drawbridge.kept_memory import measure_memory
from drawbridge.memory_shares import MemoryShares
from tests.cluster.cached import Text
from tests.thorough import drawn

LIMIT: Final = 40_000
KEYS: Final[list[ObjectKey]] = [(f"n{number % 2}", f"o{number}") for number in range(6)]
SIZES: Final = (2, 3_000, 6_000, 12_000)


class Stored(NamedTuple):
    """An object on the server; without `data`, it cannot be decoded."""

    uid: str
    version: int
    data: str | None
    rescued: str = ""

    def raw(self, key: ObjectKey) -> bytes:
        """Return its JSON."""
        identity = {"uid": self.uid, "resourceVersion": f"{self.version}"}
        metadata = {"namespace": key[0], "name": key[1], **identity}
        data = 7 if self.data is None else {"v": self.data}
        written = {"kind": "k", "metadata": metadata, "data": data, "rescued": self.rescued}
        return msgspec.json.encode(written)


class Known(NamedTuple):
    """What a cache must have of an object."""

    uid: str = ""
    version: int = 0
    value: str | None = None
    charge: int = 0
    missing: int | None = None
    is_refused: bool = False  # counts as one that cannot be decoded


NOTHING: Final = Known()


def write(key: ObjectKey) -> str:
    """Return the writer of an object."""
    return f"namespace {key[0]}"


def shorten(value: str) -> str:
    return value[: len(value) // 2]


def reduce(value: Text) -> Text:
    return Text({"v": shorten(value.data["v"])})


def rescue(raw: bytes) -> Text | None:
    left = msgspec.json.decode(raw)["rescued"]
    return Text({"v": left}) if left else None


class Model:
    """What must be known, and what is charged for it, for others, and for a list that is read."""

    def __init__(self, accounting: Accounting[Text]) -> None:
        self.accounting = accounting
        self.known: dict[ObjectKey, Known] = {}
        self.held: Counter[str] = Counter()
        self.others = 0

    def of(self, writer: str) -> int:
        """Return what a writer must have."""
        charges = (each.charge for key, each in self.known.items() if write(key) == writer)
        return sum(charges) + self.held[writer]

    def used(self) -> int:
        """Return what all writers must have."""
        return sum(self.of(each) for each in {*map(write, KEYS)}) + self.others

    def has_room(self, key: ObjectKey, more: int) -> bool:
        """Whether the writer of an object may have so much more."""
        return self.of(write(key)) + more <= LIMIT - self.used() - more

    def read(self, key: ObjectKey, stored: Stored) -> Known:
        """Return what must be known of an object after it has been read."""
        now, (uid, version, data, rescued), raw = self.find(key), stored, stored.raw(key)
        is_same, is_whole = now[:2] == (uid, version), now.missing is None
        if is_same and is_whole and now.value is not None:
            return now
        metadata = read_header(raw).metadata
        if data is None:
            last = None if now.uid != uid or now.value is None else shorten(now.value)
            left = (rescued or None) if self.accounting.rescue else last
            left = left if self.accounting.reduce else None
            size = 0 if left is None else measure_memory(metadata, Text({"v": left}), text=raw)
            return Known(uid, version, left, size, is_refused=True)
        size = measure_memory(metadata, b"", Text({"v": data}), text=raw)
        if (is_whole and size <= now.charge) or self.has_room(key, size - now.charge):
            return Known(uid, version, data, size)
        if is_same and not is_whole:
            return now
        if self.accounting.reduce is None:
            return Known(uid, version, missing=size, is_refused=True)
        value = shorten(data)
        charge = measure_memory(metadata, b"", Text({"v": value}), text=raw)
        return Known(uid, version, value, charge, size - charge)

    def find_missing(self) -> dict[ObjectKey, int]:
        """Return how much is missing of the objects that are not kept whole."""
        missing = ((key, each.missing) for key, each in self.known.items())
        return {key: size for key, size in missing if size is not None}

    def find(self, key: ObjectKey) -> Known:
        """Return what must be known of an object before it is read."""
        return self.known.get(key, NOTHING)


class Played:
    """A server with a few objects, and an index that follows it by a watch and by lists."""

    def __init__(self, seed: int) -> None:
        self.rng, self.steps = random.Random(seed), [f"seed {seed}"]
        self.memory = MemoryShares(2 * LIMIT)
        is_reduced, is_rescued = seed % 3 > 0, seed % 3 > 1
        accounting: Accounting[Text] = Accounting(
            self.memory,
            reduce=reduce if is_reduced else None,
            rescue=rescue if is_rescued else None,
        )
        self.model = Model(accounting)
        decode = msgspec.json.Decoder(Text).decode
        self.index = ObjectIndex(CONFIG_MAPS, decode, keep_raw=False, accounting=accounting)
        self.index.subscribe(self.note)
        self.told: dict[str, str] = {}
        self.server: dict[ObjectKey, Stored] = {}
        self.earlier: dict[ObjectKey, Stored] = {}
        self.version, self.is_watched = 1, True

    def note(self, before: CachedObject[Text] | None, after: CachedObject[Text] | None) -> None:
        changed = after or before
        assert changed is not None, self.steps
        last = self.told.pop(changed.name, None)
        assert last == (before.value.data["v"] if before else None), self.steps
        told = [(each.uid, each.version, each.value) for each in (before, after) if each]
        assert len(told) < 2 or told[0] != told[1], self.steps
        if after is not None:
            self.told[after.name] = after.value.data["v"]

    def step(self) -> None:
        """Change something, and compare."""
        steps: list[Callable[[], None]] = [
            *[self.write] * 6,
            *[self.remove] * 2,
            *[self.change_others] * 3,
            *[self.accept_list, self.cut_list, self.reject_list] * 2,
            self.lose_watch,
            self.remember,
        ]
        chosen = self.rng.choice(steps)
        self.steps.append(chosen.__name__)
        chosen()
        self.compare()
        has_room = any(self.model.has_room(*each) for each in self.model.find_missing().items())
        assert self.index.has_room_again() == has_room, self.steps  # is asked while no list is read

    def write(self) -> None:
        key = self.rng.choice(KEYS)
        before = self.server.get(key)
        self.version += 1
        if before is not None and self.rng.random() < 0.2:
            self.remove(key)
            before = None
        uid = before.uid if before else f"u{self.version}"
        data = None if self.rng.random() < 0.3 else "x" * self.rng.choice(SIZES)
        left = self.rng.choice(["", "left"])
        self.server[key] = stored = Stored(uid, self.version, data, left)
        self.steps.append(f"{key} {uid} {self.version} {-1 if data is None else len(data)} {left}")
        if self.is_watched:
            self.model.known[key] = self.model.read(key, stored)
            raw = stored.raw(key)
            self.index.put(key, self.index.read(read_header(raw), raw))

    def remove(self, key: ObjectKey | None = None) -> None:
        key = key or self.rng.choice(KEYS)
        self.version += 1
        if self.server.pop(key, None) is not None and self.is_watched:
            self.model.known.pop(key, None)
            self.index.delete(key, f"{self.version}")

    def change_others(self) -> None:
        """Let others have all that they may, or nothing."""
        has, wants = self.model.others, self.rng.choice([0, 0, LIMIT // 4, LIMIT // 2])
        if wants <= has or self.memory.has_room("others", wants - has):
            self.memory.add("others", wants - has)
            self.model.others = wants

    def lose_watch(self) -> None:
        self.is_watched = False

    def remember(self) -> None:
        self.earlier = dict(self.server)

    def read_list(
        self, listing: Listing[Text], objects: dict[ObjectKey, Stored], part: float = 1
    ) -> dict[ObjectKey, Known]:
        """Return what must be known after a list, of which a part is read."""
        read: dict[ObjectKey, Known] = {}
        for key in self.rng.sample([*objects], int(part * len(objects))):
            raw, before = objects[key].raw(key), self.model.find(key)
            read[key] = after = self.model.read(key, objects[key])
            self.model.held[write(key)] += max(0, after.charge - before.charge)
            listing.add(read_header(raw), raw)
            self.compare()
            if self.rng.random() < 0.1:
                self.change_others()
        return read

    def accept_list(self) -> None:
        with Listing(self.index) as listing:
            if self.rng.random() < 0.3:
                self.read_list(listing, self.server, 0.5)
                listing.clear()  # its next page had expired
                self.model.held.clear()
                self.compare()
            self.model.known = self.read_list(listing, self.server)
            self.model.held.clear()
            listing.replace_all(f"{self.version}")
        self.is_watched = True

    def cut_list(self) -> None:
        with Listing(self.index) as listing:
            self.read_list(listing, self.server, self.rng.random())
        self.model.held.clear()

    def reject_list(self) -> None:
        """Read a list, also an older one, and do not accept it."""
        with Listing(self.index) as listing:
            self.read_list(listing, self.rng.choice([self.server, self.earlier]))
        self.model.held.clear()

    def compare(self) -> None:
        index, model, about = self.index, self.model, self.steps
        kept = {key: each.value.data["v"] for key, each in index.objects.items()}
        values = {key: each.value for key, each in model.known.items()}
        assert kept == {key: each for key, each in values.items() if each is not None}, about
        assert self.told == {name: each for (_, name), each in kept.items()}, about
        read = {key: Identity(each.uid, f"{each.version}") for key, each in model.known.items()}
        assert index.identities() == read, about
        assert index.undecodable == sum(each.is_refused for each in model.known.values()), about
        assert index.too_large == len(model.find_missing()), about
        for writer in {*map(write, KEYS)}:
            assert self.memory.of(writer) == model.of(writer), about
        assert self.memory.used == model.used(), about


def test_each_object_has_the_state_that_was_read_last_and_its_writer_pays_for_that() -> None:
    for seed in range(drawn(400, thorough=6000)):
        played = Played(seed)
        for _ in range(40):
            played.step()
