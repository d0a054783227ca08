"""What the reconciler of the CA remembers from run to run."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from certs import reconciler
from certs.authority import NONE
from certs.reconciler import CertificateReconciler, Outside
from certs.rotation import RotationDecision, RotationPolicy, Situation, Step
from certs.secret import SecretReading, SecretState
from tests.certs.samples import authorities
from tests.certs.test_injection import BUNDLE, OWN, configuration, entry


def test_a_ca_is_trusted_since_the_term_began(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that led in between can have found entries that did not trust it."""
    both, times, seen = authorities(["a", "b"]), iter((0.0, 60.0, 90.0, 95.0)), list[Situation]()

    def decide(situation: Situation, *_: object) -> RotationDecision:
        seen.append(situation)
        return RotationDecision(Step.KEEP, both, 0.0)

    monkeypatch.setattr(reconciler, "decide", decide)
    secret: Any = SimpleNamespace(
        is_time_certain=lambda: True,
        reading=SecretReading(SecretState.VALID, both),
        remembered=NONE,
        namespace=OWN,
        now=lambda: 0.0,
        remember=lambda *_: None,
    )
    writer: Any = SimpleNamespace(release_bundle=lambda _: asyncio.sleep(0))
    live = [configuration(entry("a", BUNDLE))]
    outside = Outside(lambda: live, writer, lambda _: None, lambda: next(times), lambda _: None)

    async def play() -> None:
        for _ in range(2):
            of_term = CertificateReconciler(secret, RotationPolicy(), outside)
            await of_term.reconcile()
            await of_term.reconcile()

    asyncio.run(play())
    assert [each.injected_for for each in seen] == [0.0, 60.0, 0.0, 5.0]
