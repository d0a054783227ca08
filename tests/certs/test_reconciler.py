"""What the reconciler of the CA remembers from run to run."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, Final

import pytest

from certs import reconciler
from certs.reconciler import CertificateReconciler, Outside
from certs.rotation import RotationDecision, RotationPolicy, Situation, Step
from certs.secret import SecretReading, SecretState
from drawbridge.api_error import ApiError
from drawbridge.finding import Finding
from tests.certs.samples import DAY, START, authorities
from tests.certs.test_injection import BUNDLE, OLD, OWN, configuration, encode, entry
from tests.tables import every_row


def make_secret(letters: list[str], day: int) -> Any:  # noqa: ANN401
    """Return the watched Secret, which holds and remembers these authorities."""
    return SimpleNamespace(
        is_time_certain=lambda: True,
        reading=SecretReading(SecretState.VALID, authorities(letters)),
        remembered=authorities(letters),
        namespace=OWN,
        now=lambda: START + day * DAY,
        live={"metadata": {"name": "drawbridge-ca"}},
        remember=lambda *_: None,
    )


def watch_decisions(
    monkeypatch: pytest.MonkeyPatch, times: tuple[float, ...]
) -> tuple[list[Situation], Outside]:
    """Return what is decided about; every decision keeps two CAs, which are trusted already."""
    seen, elapsed = list[Situation](), iter(times)

    def decide(situation: Situation, *_: object) -> RotationDecision:
        seen.append(situation)
        return RotationDecision(Step.KEEP, authorities(["a", "b"]), 0.0)

    monkeypatch.setattr(reconciler, "decide", decide)
    writer: Any = SimpleNamespace(release_bundle=lambda _: asyncio.sleep(0))
    live = [configuration(entry("a", BUNDLE))]
    return seen, Outside(
        lambda: live, writer, lambda _: None, lambda: next(elapsed), lambda _: None
    )


def test_a_ca_is_trusted_since_the_term_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that led in between can have found entries that did not trust it."""
    secret = make_secret(["a", "b"], day=82)
    seen, outside = watch_decisions(monkeypatch, (0.0, 60.0, 90.0, 95.0))

    async def play() -> None:
        for _ in range(2):
            of_term = CertificateReconciler(secret, RotationPolicy(), outside)
            await of_term.reconcile()
            await of_term.reconcile()

    asyncio.run(play())
    assert [each.injected_for for each in seen] == [0.0, 60.0, 0.0, 5.0]


def test_a_time_that_is_not_certain_for_long_is_told_once_an_hour(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    seconds = [0.0]
    _, outside = watch_decisions(monkeypatch, (0.0,))
    outside = outside._replace(elapsed=lambda: seconds[0])
    secret = make_secret(["a", "b"], day=82)
    of_term = CertificateReconciler(secret, RotationPolicy(), outside)
    for number in range(1, 2 * 3600 // 5 + 1):
        secret.is_time_certain = lambda certain=number % 720 == 0: certain
        asyncio.run(of_term.reconcile())
        seconds[0] += 5.0
    told = [each.levelname for each in caplog.records if "is not certain" in each.getMessage()]
    assert told == ["WARNING"] * 2
    assert caplog.messages.count("the time of the API server is certain after 3595 s") == 2


# The error of the write, whether the bundle is injected all the same, and what is reported.
REFUSALS: Final = [
    (ApiError(422, "Invalid", "data: field is immutable"), True, ["SecretRefused"]),
    (ApiError(403, "Forbidden", "a policy"), True, ["SecretRefused"]),
    (ApiError(500, "InternalError", "a webhook failed"), True, []),
    (ApiError(409, "Conflict", "another leader wrote it"), False, []),
    (ApiError(409, "AlreadyExists", "another leader created it"), False, []),
]


@every_row(("error", "is_injected", "codes"), REFUSALS)
def test_a_bundle_is_injected_although_the_secret_cannot_be_written(
    error: ApiError, codes: list[str], *, is_injected: bool
) -> None:
    injected, findings = list[dict[str, Any]](), list[Finding]()

    async def write_secret(_: object) -> None:
        raise error

    async def apply_bundle(change: dict[str, Any]) -> None:
        injected.append(change)

    secret = make_secret(["a"], day=61)
    writer: Any = SimpleNamespace(write_secret=write_secret, apply_bundle=apply_bundle)
    live = [configuration(entry("a"))]
    outside = Outside(lambda: live, writer, findings.append, lambda: 0.0, lambda _: None)
    with pytest.raises(ApiError):
        asyncio.run(CertificateReconciler(secret, RotationPolicy(), outside).reconcile())
    bundles = [each["webhooks"][0]["clientConfig"]["caBundle"] for each in injected]
    assert bundles == [encode(OLD)] * is_injected
    assert [each.code for each in findings] == codes
    assert {each.object for each in findings} <= {"Secret/drawbridge-ca"}


def test_the_delay_goes_on_while_another_client_writes_its_ca_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = make_secret(["a", "b"], day=82)
    seen, outside = watch_decisions(monkeypatch, (0.0, 60.0))
    of_term = CertificateReconciler(secret, RotationPolicy(), outside)
    asyncio.run(of_term.reconcile())
    secret.reading = SecretReading(SecretState.VALID, authorities(["b"]))
    asyncio.run(of_term.reconcile())
    assert [each.injected_for for each in seen] == [0.0, 60.0]
