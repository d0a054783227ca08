"""Decide the next step of the certificate authority, from what is known and the time. Pure.

A new CA is trusted before it signs: it enters the Secret as `upcoming`, the leader injects it into
every webhook configuration, and after a delay it becomes `current`. The delay exists because
another API server may not have the new bundle yet. The old CA stays trusted until it expires.
"""

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

from certs.authority import (
    NONE,
    Authorities,
    Authority,
    Certificate,
    combine_certificates,
    find_rotation,
)
from certs.secret import SecretReading, SecretState

DAY: Final = 86_400.0
# Bounds the bundle if something deletes the CA again and again.
MAX_TRUSTED: Final = 16


class RotationPolicy(msgspec.Struct, frozen=True):
    """How long a new CA lives, and how long it is trusted before it signs; in seconds."""

    life: float = 365 * DAY
    delay: float = 120.0


class Situation(msgspec.Struct, frozen=True):
    """What the leader knows.

    `remembered` are the authorities that this process has seen last. `live` are the certificates in
    the `caBundle` of the webhook configurations. `injected_for` is since when, in seconds, each of
    them has had the upcoming certificate; None while one lacks it.
    """

    reading: SecretReading
    remembered: Authorities = NONE
    live: tuple[Certificate, ...] = ()
    injected_for: float | None = None


class Step(enum.Enum):
    """What the leader does next; the value is the label of a metric."""

    KEEP = "kept"
    CREATE = "created"
    PROMOTE = "promoted"
    RESTORE = "restored"
    RETIRE = "retired"
    WAIT_FOR_OWNER = "foreign"


class RotationDecision(msgspec.Struct, frozen=True):
    """The next step, the authorities to store and to inject, and seconds until the next decision.

    With CREATE, the authorities do not contain the new one yet.
    """

    step: Step
    authorities: Authorities
    wait: float


def combine(reading: SecretReading, remembered: Authorities, now: float) -> Authorities:
    """Return the authorities that count: those of the Secret, else those of the memory.

    What the Secret lacks because it is damaged comes from the memory. If somebody replaced the CA,
    the remembered one signs on while it is valid, and the stored one is upcoming: nobody may trust
    it yet. The certificates of both stay trusted, because other processes may serve with either.
    """
    stored, remembered = reading.stored, _drop_expired(remembered, now)
    if reading.state is SecretState.FOREIGN:
        return remembered
    last_used = remembered.current.certificate if remembered.current else None
    is_continued = stored.current is not None and last_used in (None, *stored.trusted)
    if reading.state is SecretState.VALID and is_continued:
        return _drop_expired(stored, now)
    current, upcoming = stored.current, stored.upcoming
    if not is_continued:
        current, upcoming = remembered.current, current or upcoming
    if upcoming is None and current == remembered.current:
        upcoming = remembered.upcoming
    trusted = combine_certificates(stored.trusted, remembered.trusted)
    return _drop_expired(Authorities(current, upcoming, trusted), now)


def decide(situation: Situation, policy: RotationPolicy, now: float) -> RotationDecision:
    """Return the next step."""
    reading = situation.reading
    wanted = combine(reading, situation.remembered, now)
    if reading.state is SecretState.FOREIGN:
        return RotationDecision(
            # No new CA can be stored, so that nothing is due before a certificate expires.
            Step.WAIT_FOR_OWNER,
            wanted,
            _find_wait(Authorities(trusted=wanted.trusted), None, now),
        )
    live = tuple(each for each in situation.live if each.not_after > now)
    if live and (wanted.current is None or wanted.current.certificate not in live):
        # The key is lost, or the CA replaced, and other processes may still serve certificates of
        # the CA that is trusted. A process that remembers that one signs with it until then.
        upcoming = wanted.current or wanted.upcoming
        wanted = _trust(Authorities(None, upcoming, wanted.trusted), live)
    if wanted.upcoming is None and (
        wanted.current is None or now >= find_rotation(wanted.current.certificate)
    ):
        return RotationDecision(Step.CREATE, wanted, 0.0)
    remaining = _find_remaining_delay(wanted, situation.injected_for, policy)
    if wanted.upcoming is not None and remaining == 0 and wanted == reading.stored:
        promoted = Authorities(wanted.upcoming, None, wanted.trusted)
        return RotationDecision(Step.PROMOTE, promoted, _find_wait(promoted, None, now))
    wait = _find_wait(wanted, remaining, now)
    if wanted == reading.stored:
        return RotationDecision(Step.KEEP, wanted, wait)
    is_shorter = set(wanted.trusted) < set(reading.stored.trusted)
    return RotationDecision(Step.RETIRE if is_shorter else Step.RESTORE, wanted, wait)


def add_upcoming(authorities: Authorities, created: Authority) -> Authorities:
    """Return the authorities with a new one, which is trusted at once and signs later."""
    with_new = Authorities(authorities.current, created, authorities.trusted)
    return _trust(with_new, (created.certificate,))


def _find_remaining_delay(
    authorities: Authorities, injected_for: float | None, policy: RotationPolicy
) -> float | None:
    """Return for how long the upcoming CA still must not sign; None while it is not injected."""
    upcoming = authorities.upcoming
    if upcoming is None or injected_for is None:
        return None
    if authorities.trusted == (upcoming.certificate,):
        return 0.0  # no process can have a certificate of another CA that a change would break
    return max(policy.delay - injected_for, 0.0)


def _find_wait(authorities: Authorities, delay: float | None, now: float) -> float:
    """Return the seconds until time alone changes the decision."""
    waits = [each.not_after - now for each in authorities.trusted]
    if authorities.current is not None and authorities.upcoming is None:
        waits.append(find_rotation(authorities.current.certificate) - now)
    if delay is not None:
        waits.append(delay)
    return max(min(waits, default=DAY), 0.0)


def _trust(authorities: Authorities, more: Iterable[Certificate]) -> Authorities:
    """Return the authorities with more trusted certificates; drops the oldest if they are many."""
    trusted = combine_certificates(authorities.trusted, more)
    signers = (authorities.current, authorities.upcoming)
    own = {each.certificate for each in signers if each is not None}
    others = [each for each in trusted if each not in own]
    excess = set(others[: max(len(trusted) - MAX_TRUSTED, 0)])
    kept = tuple(each for each in trusted if each not in excess)
    return Authorities(authorities.current, authorities.upcoming, kept)


def _drop_expired(authorities: Authorities, now: float) -> Authorities:
    def keep(authority: Authority | None) -> Authority | None:
        return (
            authority if authority is not None and authority.certificate.not_after > now else None
        )

    trusted = (each for each in authorities.trusted if each.not_after > now)
    kept = Authorities(keep(authorities.current), keep(authorities.upcoming))
    return _trust(kept, trusted)
