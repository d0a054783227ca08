"""The leader signs the certificate of the allocator, and writes no Secret of another client."""

import asyncio
import copy
from collections.abc import Callable
from typing import Any, Final

import pytest

from certs.issuing import AllocatorCertificateReconciler, compose_leaf_secret, read_leaf_secret
from certs.leaf import Leaf, names_of_service, sign_leaf
from drawbridge.api_error import ApiError
from drawbridge.finding import Finding
from drawbridge.names import MANAGED_BY
from tests.certs.samples import DAY, START, authorities, authority
from tests.tables import every_row

NAMES: Final = names_of_service("drawbridge-allocator", "drawbridge-system")
JSONObject = dict[str, Any]


class Leader:
    """What the reconciler is given: the authorities, a clock, and one Secret."""

    namespace = "drawbridge-system"

    def __init__(self, letters: str, days: float, live: JSONObject | None) -> None:
        self.remembered = authorities([*letters])
        self.days = days
        self.live = live
        self.is_certain = True
        self.is_bridge = True
        self.error: ApiError | None = None
        self.writes: list[JSONObject] = []
        self.findings: list[Finding] = []

    def now(self) -> float:
        """Return the time of the API server."""
        return START + self.days * DAY

    def is_time_certain(self) -> bool:
        """Whether the time is not disputed."""
        return self.is_certain

    async def read_secret(self, name: str) -> JSONObject | None:
        """Read the Secret."""
        assert name == "drawbridge-allocator-tls"
        return copy.deepcopy(self.live)

    async def write_secret(self, value: JSONObject) -> JSONObject:
        """Write the Secret."""
        if self.error is not None:
            raise self.error
        self.writes.append(value)
        self.live = value
        return value

    def reconcile(self) -> None:
        """Run the reconciler once."""
        reconciler = AllocatorCertificateReconciler(
            self,  # type: ignore[arg-type]  # the parts that it asks for
            self,
            self.findings.append,
            is_wanted=lambda: self.is_bridge,
        )
        asyncio.run(reconciler.reconcile())


def stored(letter: str, days: float) -> JSONObject:
    """Return the Secret with a certificate that a CA signed on a day."""
    leaf = sign_leaf(authority(letter), NAMES, START + days * DAY, 7 * DAY)
    return compose_leaf_secret(leaf, {"metadata": {"name": "drawbridge-allocator-tls"}})


def changed(change: Callable[[JSONObject], object]) -> JSONObject:
    value = stored("a", 0)
    change(value)
    return value


EMPTY: Final = changed(lambda value: value.pop("data"))
DAMAGED: Final = changed(lambda value: value["data"].update({"tls.key": "AAAA"}))
KEY_OF_ANOTHER: Final = changed(
    lambda value: value["data"].update({"tls.key": stored("a", 0)["data"]["tls.key"]})
)
OF_ANOTHER: Final = stored("b", 80)["data"]
# Of another CA, and says that it is of this one.
FORGED: Final = changed(
    lambda value: value.update(data={**OF_ANOTHER, "ca.crt": value["data"]["ca.crt"]})
)

# Name, Secret, the CAs, the day, and whether a certificate is signed.
DECISIONS: Final = [
    ("none exists", None, "a", 1, True),
    ("it is valid", stored("a", 0), "a", 4.6, False),
    ("two thirds of its life are over", stored("a", 0), "a", 4.7, True),
    ("it is expired", stored("a", 0), "a", 9, True),
    ("the next CA is trusted and does not sign yet", stored("a", 80), "ab", 81, False),
    ("the next CA signs", stored("a", 80), "b-a", 81, True),
    ("no CA signs yet", None, "-a", 1, False),
    ("it is empty", EMPTY, "a", 1, True),
    ("it is damaged", DAMAGED, "a", 1, True),
    ("the key is that of another certificate", KEY_OF_ANOTHER, "a", 1, True),
    ("another CA signed it", FORGED, "a", 1, True),
]


@every_row(
    ("live", "letters", "days", "is_signed"),
    [case[1:] for case in DECISIONS],
    ids=[case[0] for case in DECISIONS],
)
def test_a_certificate_is_signed_when_the_table_says(
    live: JSONObject | None, letters: str, days: float, *, is_signed: bool
) -> None:
    leader = Leader(letters, days, live)
    leader.reconcile()
    assert bool(leader.writes) is is_signed
    assert leader.findings == []
    if is_signed:
        leaf = read(leader)
        assert leaf.issuer == authority(letters[0]).certificate.pem
        assert leader.now() < leaf.not_after <= leader.now() + 7 * DAY
        leader.reconcile()
        assert len(leader.writes) == 1


def read(leader: Leader) -> Leaf:
    assert leader.live is not None
    assert leader.live["metadata"]["labels"] == MANAGED_BY
    return read_leaf_secret(leader.live)


@pytest.mark.parametrize("condition", ["is_bridge", "is_certain"])
def test_nothing_is_signed_without_bridge_placement_or_while_the_time_is_disputed(
    condition: str,
) -> None:
    leader = Leader("a", 1, None)
    setattr(leader, condition, False)
    leader.reconcile()
    assert leader.writes == []
    setattr(leader, condition, True)
    leader.reconcile()
    assert len(leader.writes) == 1


def test_a_secret_of_another_client_is_reported_and_stays() -> None:
    foreign = changed(lambda value: value["metadata"].pop("labels"))
    leader = Leader("a", 9, foreign)
    leader.reconcile()
    assert leader.writes == []
    assert [(each.code, each.object) for each in leader.findings] == [
        ("SecretNotOwned", "Secret/drawbridge-allocator-tls")
    ]


def test_a_refused_write_is_reported() -> None:
    leader = Leader("a", 1, None)
    leader.error = ApiError(403, "Forbidden", "a policy")
    with pytest.raises(ApiError):
        leader.reconcile()
    assert [(each.code, each.object) for each in leader.findings] == [
        ("SecretRefused", "Secret/drawbridge-allocator-tls")
    ]


def test_a_new_secret_has_the_type_of_certificates_and_a_live_one_keeps_what_else_it_has() -> None:
    leader = Leader("a", 1, None)
    leader.reconcile()
    assert leader.writes[0]["type"] == "kubernetes.io/tls"
    live = changed(
        lambda value: value["metadata"].update({"resourceVersion": "7", "annotations": {"a": "b"}})
    )
    leader = Leader("a", 9, {**live, "type": "Opaque"})
    leader.reconcile()
    (written,) = leader.writes
    assert written["type"] == "Opaque"
    assert written["metadata"] == live["metadata"]
