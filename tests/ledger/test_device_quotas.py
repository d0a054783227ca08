"""Device quotas: charges, limits, and a count that stays what claims have."""

from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawbridge.config.accept import accept_configuration
from drawbridge.config.model import Configuration
from drawbridge.config.policy import device_quotas
from drawbridge.dra.allocation import Allocation
from drawbridge.dra.claim import Claim, read_claim
from drawbridge.dra.device_quotas import (
    Charge,
    QuotaKey,
    charge_choices,
    charge_of_allocation,
    find_capacity_name,
    least_charge,
)
from drawbridge.dra.quantity import Quantity, from_json
from drawbridge.ledger.allocation_mark import ALLOCATOR, Mark, MarkedDevice, format_mark
from drawbridge.ledger.ledger import (
    Ledger,
    ReleasedClaim,
    Reservation,
    ReservationRefusal,
    uid_of,
)
from drawbridge.ledger.quota_room import find_least_excess, narrow_claims
from drawbridge.ledger.quota_use import QuotaUse
from drawbridge.names import ALLOCATION_ANNOTATION, API_VERSION
from tests.tables import every_row, load_cases

Plain = dict[str, Any]
CASES = Path(__file__).parent / "cases"
LIMITED = {"gpu": ("devices", "memory")}


def charge(amounts: Plain) -> Charge:
    """What `{devices: 2, memory: 1Gi}` of the class gpu is."""
    return {QuotaKey("gpu", name): from_json(value) for name, value in amounts.items()}


def quotas(*entries: Plain) -> QuotaUse:
    value = {"apiVersion": API_VERSION, "kind": "Configuration", "quotas": list(entries)}
    loaded = accept_configuration(value, {})
    assert isinstance(loaded, Configuration), loaded
    return QuotaUse(device_quotas(loaded))


def claim(uid: str, version: int = 1, *, requests: list[Plain] | None = None, **more: Any) -> Claim:  # noqa: ANN401  # of metadata
    exactly = {"deviceClassName": "gpu"}
    named = {"name": uid, "namespace": "ml", "uid": uid, "resourceVersion": f"{version}", **more}
    spec = {"devices": {"requests": requests or [{"name": "r", "exactly": exactly}]}}
    read = read_claim({"apiVersion": "resource.k8s.io/v1", "metadata": named, "spec": spec})
    assert isinstance(read, Claim)
    return read


def allocation(results: list[Plain]) -> Allocation:
    named = [{"driver": "gpu.io", "pool": "p", **each} for each in results]
    plain = {"devices": {"results": named}}
    return msgspec.convert(plain, Allocation, dec_hook=lambda _, value: from_json(value))


def allocated(claim: Claim, version: int, *devices: str) -> Claim:
    held = allocation([{"request": "r", "device": each} for each in devices]) if devices else None
    metadata = msgspec.structs.replace(claim.metadata, resource_version=f"{version}")
    status = msgspec.structs.replace(claim.status, allocation=held)
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


@every_row("case", load_cases(CASES / "quota_charges.yaml"), ids=itemgetter("name"))
def test_a_claim_is_charged_what_it_has(case: Plain) -> None:
    published = {
        device: {name: from_json(value) for name, value in amounts.items()}
        for device, amounts in case.get("published", {}).items()
    }
    spec = claim("c", requests=case["requests"]).spec
    charged = charge_of_allocation(
        spec, allocation(case["results"]), LIMITED, lambda result: published.get(result.device)
    )
    assert charged == charge(case["charge"])
    assert least_charge(charge_choices(spec, LIMITED)) == charge(case["least"])


@every_row("case", load_cases(CASES / "quota_limits.yaml"), ids=itemgetter("name"))
def test_a_pod_is_refused_what_exceeds_a_quota(case: Plain) -> None:
    use = quotas(*case["quotas"])
    for namespace, labels in case.get("labels", {}).items():
        use.set_labels(namespace, labels)
    for namespace, claims in case.get("have", {}).items():
        for number, amounts in enumerate(claims):
            use.charge(f"{namespace}-{number}", namespace, charge(amounts))
    for namespace, amounts in case.get("vanished", {}).items():
        use.charge(f"vanished of {namespace}", namespace, charge(amounts), vanished=True)
    also = [charge(case["also"])] if "also" in case else []
    excess = use.find_excess("ml", {"new": charge(case["needs"])}, also=also)
    assert (excess.message if excess else None) == case.get("refused")
    assert (excess is not None and excess.never_fits) == case.get("never", False)


def test_what_alternatives_are_charged_is_read_once_of_a_spec(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capacity = {"requests": {f"{number}.io/size": "1" for number in range(10)}}
    choices = [
        {"name": name, "deviceClassName": "gpu", "count": count, "capacity": capacity}
        for name, count in (("a", 3), ("b", 1), ("c", 3))
    ]
    use = quotas({"name": "q", "total": {"gpu": {"devices": 2, "memory": "1Gi"}}})
    searched = list[str]()

    def search(name: str, published: Iterable[str]) -> str | None:
        searched.append(name)
        return find_capacity_name(name, published)

    monkeypatch.setattr("drawbridge.dra.device_quotas.find_capacity_name", search)
    for uid, named in (("c", choices[:2]), ("d", choices[:2]), ("e", choices[1:])):
        asked = claim(uid, requests=[{"name": "r", "firstAvailable": named}])
        assert find_least_excess(use, "ml", [asked]) is None
        (narrowed,) = narrow_claims(use, "ml", [asked])
        assert [each.name for each in narrowed.spec.devices.requests[0].first_available] == ["b"]
    assert searched == ["memory"] * 4  # of each alternative of two specs


# --- what changes between decisions ---


def test_a_namespace_has_no_room_before_its_labels_are_known() -> None:
    by_label = {"matchLabels": {"team": "a"}}
    entry = {"name": "q", "namespaceSelector": by_label, "total": {"gpu": {"devices": 1}}}
    use = QuotaUse(quotas(entry).quotas, awaits_labels=True)
    needs = {"new": charge({"devices": 1})}
    excess, before = use.find_excess("ml", needs), use.revision
    assert excess is not None
    assert "labels of namespace ml" in excess.message
    assert not excess.never_fits
    assert use.find_excess("ml", {"new": {}}) is None  # of a class without limits
    use.set_labels("ml", {})
    # Pods that wait are tried again.
    assert use.revision > before
    assert use.find_excess("ml", needs) is None


@pytest.mark.parametrize("entry", [{"namespaces": ["ml"]}, {}], ids=["by name", "all"])
def test_quotas_that_do_not_depend_on_labels_do_not_wait_for_them(entry: Plain) -> None:
    own = quotas({"name": "q", "total": {"gpu": {"devices": 1}}, **entry}).quotas
    use = QuotaUse(own, awaits_labels=True)
    assert use.find_excess("ml", {"new": charge({"devices": 1})}) is None
    assert use.find_excess("ml", {"new": charge({"devices": 2})}) is not None


def test_a_namespace_that_is_selected_later_brings_what_it_has() -> None:
    selector = {"matchLabels": {"team": "a"}}
    total = {"gpu": {"devices": 2}}
    use = quotas(
        {
            "name": "q",
            "per": "selection",
            "namespaceSelector": selector,
            "total": total,
        }
    )
    use.set_labels("ml", {"team": "a"})
    use.charge("x", "ml", charge({"devices": 1}))
    use.charge("y", "web", charge({"devices": 1}))
    assert use.find_excess("ml", {"new": charge({"devices": 1})}) is None
    before = use.revision
    use.set_labels("web", {"team": "a"})
    assert use.revision > before
    assert use.find_excess("ml", {"new": charge({"devices": 1})}) is not None
    use.set_labels("web", None)
    assert use.find_excess("ml", {"new": charge({"devices": 1})}) is None
    assert [f"{each.used}" for each in use.list_lines()] == ["1"]


def test_what_is_charged_again_counts_once() -> None:
    use = quotas({"name": "q", "total": {"gpu": {"devices": 2}}})
    use.charge("x", "ml", charge({"devices": 2}))
    assert use.find_excess("ml", {"x": charge({"devices": 2})}) is None


def test_a_device_that_is_not_published_counts_as_before() -> None:
    use = quotas({"name": "q", "total": {"gpu": {"memory": "100Gi"}}})
    published: dict[str, Quantity] | None = {"memory": from_json("80Gi")}
    use.find_capacity = lambda _: published
    ledger = Ledger(quotas=use)
    first = claim("a")
    ledger.observe(allocated(first, 2, "x"))
    published = None
    ledger.observe(allocated(first, 3, "x"))
    assert [f"{each.used}" for each in use.lines("ml")] == ["80Gi"]
    published = {"memory": from_json("40Gi")}
    ledger.observe(allocated(first, 4, "x"))
    assert [f"{each.used}" for each in use.lines("ml")] == ["40Gi"]


def test_a_mark_without_an_allocation_is_charged_what_the_claim_needs() -> None:
    use = quotas({"name": "q", "total": {"gpu": {"devices": 1}}})
    ledger = Ledger(quotas=use)
    mark = Mark(allocator=ALLOCATOR, devices=(MarkedDevice(driver="gpu.io", pool="p", device="x"),))
    marked = claim("a", annotations={ALLOCATION_ANNOTATION: format_mark(mark)})
    ledger.observe(marked)
    ledger.hold_marked(marked)
    assert [f"{each.used}" for each in use.lines("ml")] == ["1"]
    ledger.observe(claim("a", 2))
    assert [f"{each.used}" for each in use.lines("ml")] == ["0"]


# --- any order of what happens to claims ---

TOTAL = 3
UIDS = [f"c{number}" for number in range(4)]
WHAT = "assume", "write", "give back", "deallocate", "delete", "vanish", "end", "restart"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(WHAT),
        st.sampled_from(UIDS),
        st.integers(1, 2),
    ),
    max_size=40,
)


class Model:
    """A ledger with a quota, and the API server behind it, which has only what is written."""

    def __init__(self) -> None:
        self.versions = Counter[str]()
        self.stored = {uid: claim(uid) for uid in UIDS}
        self.restart()

    def restart(self) -> None:
        """Start again with what is stored."""
        self.ledger = Ledger(quotas=quotas({"name": "q", "total": {"gpu": {"devices": TOTAL}}}))
        for each in self.stored.values():
            self.ledger.observe(each)

    def step(self, what: str, uid: str, count: int) -> None:
        """Let one thing happen to a claim."""
        ledger = self.ledger
        match what:
            case "assume":
                names = [{"request": "r", "device": f"{uid}-{number}"} for number in range(count)]
                reserved = {uid: Reservation(allocation(names))}
                refusal = ledger.assume(reserved)
                if refusal is ReservationRefusal.QUOTA:
                    assert self.count() + count > TOTAL
            case "write" if uid in ledger.reservations:
                devices = ledger.reservations[uid].reservation.allocation.devices.results
                self.store(uid, *(each.device for each in devices))
            case "give back":
                ledger.rollback([uid])
            case "deallocate" if uid in self.stored:
                self.store(uid)
            case "delete" if uid in self.stored:
                del self.stored[uid]
                ledger.observe_deletion(uid)
            case "vanish" if uid in self.stored and f"of {uid}" not in ledger.kept:
                self.vanish(uid)
            case "end":
                ledger.keep(f"of {uid}", ())
            case "restart":
                self.restart()

    def vanish(self, uid: str) -> None:
        """Release a claim, and keep what it has."""
        record = self.ledger.claims[uid]
        self.store(uid)
        if record.allocation is not None:
            released = ReleasedClaim("ml", record.spec, record.allocation, {})
            self.ledger.keep(f"of {uid}", record.holds, released)

    def store(self, uid: str, *devices: str) -> None:
        """Write the allocation of a claim."""
        self.versions[uid] += 1
        self.stored[uid] = allocated(self.stored[uid], 1 + self.versions[uid], *devices)
        self.ledger.observe(self.stored[uid])

    def count(self) -> int:
        """The devices of all claims, as the ledger holds them."""
        return len(self.ledger.devices())


@given(STEPS)
def test_the_use_is_what_claims_hold_and_never_above_the_total(
    steps: list[tuple[str, str, int]],
) -> None:
    model = Model()
    for step in steps:
        model.step(*step)
        (line,) = model.ledger.quotas.lines("ml")
        assert line.used == Quantity.of(model.count())
        assert model.count() <= TOTAL
        assert line.left == Quantity.of(TOTAL - model.count())


def test_a_reservation_that_would_exceed_a_quota_is_refused() -> None:
    model = Model()
    for uid, count, held in (("c0", 2, 2), ("c1", 2, 2), ("c2", 1, 3), ("c3", 1, 3)):
        model.step("assume", uid, count)
        assert model.count() == held


def test_a_reservation_that_is_written_is_charged_once() -> None:
    model = Model()
    for what in ("assume", "write"):
        model.step(what, "c0", 2)
    before = model.ledger.quotas.revision
    model.step("write", "c0", 2)
    assert model.count() == 2
    assert model.ledger.quotas.revision == before
    assert uid_of(model.stored["c0"]) == "c0"


def test_what_is_kept_for_vanished_pods_stays_charged() -> None:
    model = Model()
    for what in ("assume", "write", "vanish"):
        model.step(what, "c0", 2)
    (line,) = model.ledger.quotas.lines("ml")
    assert (f"{line.used}", f"{line.vanished}") == ("2", "2")
    model.step("assume", "c1", 2)
    assert model.count() == 2
    model.step("assume", "c1", 1)
    assert model.count() == 3
    before = model.ledger.quotas.revision
    model.step("end", "c0", 0)
    (line,) = model.ledger.quotas.lines("ml")
    assert (f"{line.used}", f"{line.vanished}") == ("1", "0")
    # Pods that wait are tried again.
    assert model.ledger.quotas.revision > before


@pytest.mark.parametrize("how", ["give back", "delete"])
def test_what_ends_without_a_write_is_given_back(how: str) -> None:
    model = Model()
    model.step("assume", "c0", 2)
    assert [f"{each.used}" for each in model.ledger.quotas.lines("ml")] == ["2"]
    model.step(how, "c0", 0)
    assert [f"{each.used}" for each in model.ledger.quotas.lines("ml")] == ["0"]
